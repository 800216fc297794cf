#include "net/listener.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "idproxy/log/log.hpp"
#include "net/connection_pair.hpp"

namespace idproxy::net {
namespace {

constexpr std::chrono::milliseconds kAcceptPause{100};

// So that other connections of the thread get a turn when very many clients connect.
constexpr int kAcceptsPerTurn = 64;

/// Removes a socket file that a dead process left behind, at which nobody could listen any more. If
/// its process lives, the connection succeeds.
void remove_stale_socket(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const SocketAddress address = *address_of({{}, 0, path});
  if (::connect(probe.get(), address.data(), static_cast<socklen_t>(address.size())) != 0 &&
      errno == ECONNREFUSED) {
    ::unlink(path.c_str());
  }
}

bool is_out_of_descriptors(const error_code& error) {
  return error == boost::system::errc::too_many_files_open ||
         error == boost::system::errc::too_many_files_open_in_system;
}

}  // namespace

boost::system::result<FileDescriptor> listen_at(const Endpoint& endpoint) {
  const auto address = address_of(endpoint);
  if (!address) return error_code(EINVAL, boost::system::system_category());
  constexpr int kType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  FileDescriptor socket(::socket(address->protocol().family(), kType, 0));
  const int yes = 1;
  // As servers do, so that a restart need not wait for the old connections' ends.
  if (!socket.is_open() ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(socket.get(), address->data(), static_cast<socklen_t>(address->size())) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return error_code(errno, boost::system::system_category());
  }
  return socket;
}

Listener::Listener(std::span<const std::unique_ptr<IoThread>> threads,
                   std::shared_ptr<Upstream> upstream)
    : threads_(threads), upstream_(std::move(upstream)), pause_(threads[0]->loop) {}

ListenFault Listener::open() {
  Endpoint& listen = upstream_->route.listen;
  if (upstream_->route.socket >= 0) {
    socket_ = FileDescriptor(upstream_->route.socket);
    return {};
  }
  const bool local = !listen.unix_path.empty();
  if (local) remove_stale_socket(listen.unix_path);
  auto socket = listen_at(listen);
  if (!socket) {
    return {"listen: cannot listen on " + listen.text() + " for " + upstream_->name,
            socket.error()};
  }
  socket_ = *std::move(socket);
  if (!local) listen.port = own_port(socket_.get());
  return {};
}

void Listener::start() {
  threads_[0]->loop.watch(socket_.get(), EPOLLIN, *this);
}

void Listener::stop() {
  if (!socket_.is_open()) return;
  threads_[0]->loop.unwatch(socket_.get(), *this);
  socket_.close();
  pause_.cancel();
  const std::string& path = upstream_->route.listen.unix_path;
  // Clients find a passed socket before the next process has it, and wait in its queue.
  if (!path.empty() && upstream_->route.socket < 0) ::unlink(path.c_str());
}

void Listener::accept() {
  threads_[0]->shared.reserve.regain();
  for (int turn = 0; turn < kAcceptsPerTurn; ++turn) {
    if (!socket_.is_open()) return;
    FileDescriptor client = next_client();
    if (client.is_open()) {
      admit(*threads_[next_thread_++ % threads_.size()], std::move(client));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    // The client has left before it was accepted.
    if (errno == ECONNABORTED || errno == EINTR) continue;
    return pause({errno, boost::system::system_category()});
  }
  threads_[0]->loop.post([self = shared_from_this()] { self->accept(); });
}

FileDescriptor Listener::next_client() {
  return FileDescriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void Listener::admit(IoThread& thread, FileDescriptor socket) {
  Shared& shared = thread.shared;
  Cells& cells = threads_[0]->cells;
  cells[Counted::connections_accepted].add();
  if (++shared.open_connections > shared.options.max_connections) {
    shared.count_closed();
    cells[Counted::closed_max_connections].add();
    log::event(
        log::Level::warning, "too_many_connections",
        "a client was turned away: as many connections as listen.max_connections allows are open",
        {{"client", peer_name(socket.get())}, {"max_connections", shared.options.max_connections}});
    return;
  }
  set_tcp_options(socket.get());
  thread.loop.post([upstream = upstream_, &thread, client = std::move(socket)]() mutable {
    ConnectionPair::start(thread, std::move(client), std::move(upstream));
  });
}

/// Without a pause, a process that is out of file descriptors would retry in a busy loop.
void Listener::pause(const error_code& error) {
  threads_[0]->cells[Counted::accept_failures].add();
  log::event(log::Level::error, "accept_failed", "cannot accept clients; trying again shortly",
             {{"reason", error.message()}});
  if (is_out_of_descriptors(error)) turn_one_away();
  pause_.start(kAcceptPause, [self = shared_from_this()] { self->accept(); });
}

/// Closes a client that would otherwise wait for an answer that never comes.
void Listener::turn_one_away() {
  DescriptorReserve& reserve = threads_[0]->shared.reserve;
  reserve.lend();
  if (next_client().is_open()) threads_[0]->cells[Counted::closed_descriptors].add();
  reserve.regain();  // that client's descriptor is closed
}

}  // namespace idproxy::net
