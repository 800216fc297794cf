#include "listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <utility>

#include "connection_pair.hpp"
#include "idproxy/observability/log.hpp"
#include "tcp.hpp"

namespace idproxy::net {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};

/// Removes a socket file that a dead process left behind, at which nobody could listen any more. If
/// its process lives, the connection succeeds.
void remove_stale_socket(const std::string& path, asio::io_context& io) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  Socket probe(io);
  error_code error;
  const asio::local::stream_protocol::endpoint endpoint(path);
  probe.open(endpoint.protocol(), error);
  probe.connect(endpoint, error);
  if (error == asio::error::connection_refused) ::unlink(path.c_str());
}

int open_reserve() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool is_out_of_descriptors(const error_code& error) {
  return error == boost::system::errc::too_many_files_open ||
         error == boost::system::errc::too_many_files_open_in_system;
}

}  // namespace

boost::system::result<Acceptor> listen_at(const Endpoint& endpoint, asio::io_context& io) {
  try {
    if (!endpoint.unix_path.empty()) {
      const asio::local::stream_protocol::endpoint at(endpoint.unix_path);
      return Acceptor(io, Protocol::endpoint(at));
    }
    const asio::ip::tcp::endpoint at(asio::ip::make_address(endpoint.host), endpoint.port);
    return Acceptor(io, Protocol::endpoint(at));
  } catch (const boost::system::system_error& error) {
    return error.code();
  }
}

Listener::Listener(std::span<const std::unique_ptr<IoThread>> threads,
                   std::shared_ptr<Upstream> upstream)
    : threads_(threads),
      upstream_(std::move(upstream)),
      acceptor_(threads[0]->io),
      pause_(threads[0]->io),
      reserve_(open_reserve()) {}

Listener::~Listener() {
  if (reserve_ >= 0) ::close(reserve_);
}

std::string Listener::open() {
  Endpoint& listen = upstream_->route.listen;
  const bool local = !listen.unix_path.empty();
  if (local) remove_stale_socket(listen.unix_path, threads_[0]->io);
  auto acceptor = listen_at(listen, threads_[0]->io);
  if (!acceptor) {
    return "listen: cannot listen on " + listen.text() + " for " + upstream_->name + ": " +
           acceptor.error().message();
  }
  acceptor_ = *std::move(acceptor);
  if (!local) listen.port = tcp_endpoint(acceptor_.local_endpoint()).port();
  return {};
}

void Listener::stop() {
  if (!acceptor_.is_open()) return;
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  const std::string& path = upstream_->route.listen.unix_path;
  if (!path.empty()) ::unlink(path.c_str());
}

void Listener::accept() {
  IoThread& thread = *threads_[next_thread_++ % threads_.size()];
  acceptor_.async_accept(thread.io,
                         [self = shared_from_this(), &thread](error_code error, Socket socket) {
                           self->accepted(thread, error, std::move(socket));
                         });
}

void Listener::accepted(IoThread& thread, error_code error, Socket socket) {
  if (!acceptor_.is_open()) return;
  if (error && error != asio::error::connection_aborted) return pause(error);
  if (!error) admit(thread, std::move(socket));
  accept();
}

void Listener::admit(IoThread& thread, Socket socket) {
  Shared& shared = thread.shared;
  Cells& cells = threads_[0]->cells;
  cells[Counted::connections_accepted].add();
  if (++shared.open_connections > shared.options.max_connections) {
    shared.count_closed();
    cells[Counted::closed_max_connections].add();
    log::event(
        log::Level::warning, "too_many_connections",
        "a client was turned away: as many connections as listen.max_connections allows are open",
        {{"client", peer_name(socket)}, {"max_connections", shared.options.max_connections}});
    return;
  }
  set_tcp_options(socket.native_handle());
  asio::post(thread.io, [upstream = upstream_, &thread, client = std::move(socket)]() mutable {
    ConnectionPair::start(thread, std::move(client), std::move(upstream));
  });
}

/// Without a pause, a process that is out of file descriptors would retry in a busy loop.
void Listener::pause(const error_code& error) {
  threads_[0]->cells[Counted::accept_failures].add();
  log::event(log::Level::error, "accept_failed", "cannot accept clients; trying again shortly",
             {{"reason", error.message()}});
  if (is_out_of_descriptors(error)) turn_one_away();
  pause_.expires_after(kAcceptPause);
  pause_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled && self->acceptor_.is_open()) self->accept();
  });
}

/// Closes a client that would otherwise wait for an answer that never comes.
void Listener::turn_one_away() {
  if (reserve_ >= 0) ::close(std::exchange(reserve_, -1));
  const int client =
      ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client >= 0) {
    ::close(client);
    threads_[0]->cells[Counted::closed_descriptors].add();
  }
  reserve_ = open_reserve();
}

}  // namespace idproxy::net
