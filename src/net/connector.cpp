#include "net/connector.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "idproxy/log/log.hpp"

namespace idproxy::net {

using namespace std::chrono_literals;

namespace {

constexpr std::chrono::nanoseconds kLogAgain = 60s;

// How long to wait for an address before trying the next one beside it (RFC 8305, 5).
constexpr std::chrono::milliseconds kAddressIsSilent = 250ms;
// When to look a name up again for which no thread could be started.
constexpr std::chrono::milliseconds kNoThread = 100ms;

/// True for errors of this process, which say nothing about the server.
bool is_our_own(const error_code& error) {
  return error == boost::system::errc::too_many_files_open ||
         error == boost::system::errc::too_many_files_open_in_system ||
         error == boost::system::errc::not_enough_memory ||
         error == boost::system::errc::no_buffer_space;
}

error_code last_error(int number) {
  return {number, boost::system::system_category()};
}

/// True if the failure is worth a line: the first one, and then one every kLogAgain.
bool is_news(IoThread& thread, Upstream& server) {
  const auto now = thread.shared.clock.monotonic();
  std::int64_t since = 0;
  if (server.down_since.compare_exchange_strong(since, now.count())) {
    server.down_logged = now.count();
    return true;
  }
  if (now - std::chrono::nanoseconds(since) >= kLongDown && server.alias.exchange(false)) {
    thread.shared.observer->forget(server);
  }
  std::int64_t logged = server.down_logged;
  return now.count() - logged >= kLogAgain.count() &&
         server.down_logged.compare_exchange_strong(logged, now.count());
}

/// Logs an error if it is news, else at level debug.
void tell_failure(Upstream& server, std::string_view reason, bool news) {
  ++server.connect_failures;
  const Finding found = server_unreachable(server.name, reason);
  const std::initializer_list<log::Field> fields{{"server", server.name}, {"reason", reason}};
  if (news) return log::event(found, fields);
  log::event(log::Level::debug, "upstream_unreachable", found.whole(), fields);
}

void note_failure(IoThread& thread, Upstream& server, std::string_view reason) {
  server.failed(reason, thread.shared.clock.monotonic());  // first, for those who notice it
  server.backoff.failed(thread.shared.clock.monotonic(), system_random());
  thread.shared.observer->lost(server);
  tell_failure(server, reason, is_news(thread, server));
}

}  // namespace

/// Calls its connector once it has connected or failed, never before start() returns.
class Connector::Attempt final : EventLoop::Watcher {
 public:
  Attempt(Connector& connector, std::size_t place) : connector_(connector), place_(place) {}
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() { close(); }

  void start(const SocketAddress& address) {
    constexpr int kType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    socket_ = FileDescriptor(::socket(address.protocol().family(), kType, 0));
    if (socket_.is_open() && connector_.thread_.shared.reserve.is_lent()) {
      socket_.close();
      return tell(last_error(EMFILE));
    }
    if (!socket_.is_open() ||
        (::connect(socket_.get(), address.data(), static_cast<socklen_t>(address.size())) != 0 &&
         errno != EINPROGRESS)) {
      return tell(last_error(errno));
    }
    // Tells, too, of a connection that was made at once.
    connector_.thread_.loop.watch(socket_.get(), EPOLLOUT, *this);
  }
  void close() {
    if (socket_.is_open()) connector_.thread_.loop.unwatch(socket_.get(), *this);
    socket_.close();
  }
  [[nodiscard]] FileDescriptor take() {
    connector_.thread_.loop.unwatch(socket_.get(), *this);
    return std::move(socket_);
  }

 private:
  void ready(std::uint32_t /*events*/) override {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    const auto connector = connector_.shared_from_this();
    connector->attempted(place_, last_error(error));
  }
  void tell(const error_code& failure) {
    connector_.thread_.loop.post([connector = connector_.shared_from_this(), place = place_,
                                  failure] { connector->attempted(place, failure); });
  }

  Connector& connector_;
  const std::size_t place_;
  FileDescriptor socket_;
};

std::shared_ptr<Connector> Connector::start(IoThread& thread, std::shared_ptr<Upstream> server,
                                            int client, Done done) {
  auto connector = std::make_shared<Connector>(thread, std::move(server), client, std::move(done));
  connector->guarded([&] { connector->begin(); });
  return connector;
}

Connector::Connector(IoThread& thread, std::shared_ptr<Upstream> server, int client, Done done)
    : thread_(thread),
      server_(std::move(server)),
      done_(std::move(done)),
      // Read now: after a disconnect the kernel does not know the client's address any more.
      header_(thread.shared.options.proxy_protocol ? proxy_header(client) : ""),
      deadline_(thread.loop),
      pause_(thread.loop),
      failures_(server_->backoff.failures()),
      stream_(thread.loop, thread.tls) {}

Connector::~Connector() = default;

void Connector::cancel() {
  done_ = nullptr;
  if (std::exchange(claimed_, false)) server_->backoff.release();
  deadline_.cancel();
  pause_.cancel();
  attempts_.clear();
  stream_.close();
}

/// Runs a handler's work, unless the attempt is over. An exception, mostly std::bad_alloc, ends
/// this attempt and no other.
template <class Work>
void Connector::guarded(Work work) {
  if (!done_) return;
  try {
    work();
  } catch (const std::exception& error) {
    if (done_) give_up(error.what());
  }
}

/// Such a step, for whoever calls it when this may be over.
std::function<void()> Connector::later(void (Connector::*step)()) {
  return [self = shared_from_this(), step] { self->guarded([&] { (self.get()->*step)(); }); };
}

void Connector::begin() {
  deadline_.start(thread_.shared.options.connect_timeout, [self = shared_from_this()] {
    self->guarded([&] { self->fail("no answer within upstream.connect_timeout"); });
  });
  // A client that has gone is noticed by those who read from it, and then this is cancelled.
  if (header_) take_turn();
}

void Connector::take_turn() {
  Backoff& backoff = server_->backoff;
  const auto now = thread_.shared.clock.monotonic();
  const std::uint32_t failures = backoff.failures();
  if (failures != 0) {
    // Another attempt has failed meanwhile.
    if (failures != failures_) return fail(server_->last_failure.reason());
    claimed_ = backoff.claim(now);
  }
  tries_ = failures == 0 || claimed_;
  if (tries_) return look_up();
  // Another attempt may end before the pause is over: look again soon.
  pause_.start(std::clamp<std::chrono::nanoseconds>(backoff.wait(now), 10ms, 100ms),
               later(&Connector::take_turn));
}

/// Not cached: the name may have another address after a failover.
void Connector::look_up() {
  const Endpoint& server = server_->route.upstream;
  if (const auto address = address_of(server)) {
    addresses_ = {*address};
    return connect_next();
  }
  const bool begun = thread_.shared.lookups.start(
      thread_.loop, server.host, server.port,
      [self = shared_from_this()](const std::string& error,
                                  const std::vector<SocketAddress>& found) {
        self->guarded([&] {
          self->addresses_ = found;
          error.empty() ? self->connect_next() : self->fail(error);
        });
      });
  if (!begun) pause_.start(kNoThread, later(&Connector::look_up));
}

void Connector::connect_next() {
  while (next_ < addresses_.size()) {
    const SocketAddress& address = addresses_[next_++];
    error_code error;
    const bool own = thread_.shared.directory.is_own(address, error);
    if (error) {
      if (!others_connect()) return give_up(error.message());
      last_error_ = error.message();
      ++failed_;
      continue;
    }
    if (!own) {
      attempts_.push_back(std::make_unique<Attempt>(*this, attempts_.size()));
      attempts_.back()->start(address);
      return connect_later();
    }
    log::event(log::Level::error, "upstream_is_this_proxy",
               "a server's address is a listener of this proxy, which does not connect to itself",
               {{"server", server_->name}});
    last_error_ = "the address is a listener of this proxy";
    ++failed_;
    ++own_;
  }
  if (failed_ < addresses_.size()) return;
  if (own_ == addresses_.size()) thread_.shared.observer->is_ours(*server_);
  fail(last_error_);
}

/// An attempt has connected or failed.
void Connector::attempted(std::size_t place, const error_code& failure) {
  if (attempts_.empty()) return;  // another one has connected
  guarded([&] {
    if (!failure) return connected(attempts_[place]->take());
    if (is_our_own(failure) && !others_connect()) return give_up(failure.message());
    attempts_[place]->close();
    last_error_ = failure.message();
    ++failed_;
    connect_next();
  });
}

/// True if another address, besides the current one, may still connect.
bool Connector::others_connect() const {
  return next_ - failed_ > 1;
}

/// One of two addresses may be behind a firewall that drops packets.
void Connector::connect_later() {
  if (next_ == addresses_.size()) return;
  pause_.start(kAddressIsSilent, [self = shared_from_this()] {
    if (!self->attempts_.empty()) self->guarded([&] { self->connect_next(); });
  });
}

void Connector::connected(FileDescriptor socket) {
  pause_.cancel();
  attempts_.clear();
  set_tcp_options(socket.get());
  if (!header_->empty()) {
    const ssize_t sent = ::send(socket.get(), header_->data(), header_->size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(header_->size())) return fail("it took no PROXY header");
  }
  const auto& context = thread_.server_tls;
  const std::string& host = server_->route.upstream.host;
  stream_.open(std::move(socket), context ? tls::Engine::connect(context, host) : nullptr);
  if (!context) return ready();
  stream_.handshake([self = shared_from_this()](std::string_view fault) {
    self->guarded([&] {
      if (fault.empty()) return self->ready();
      self->thread_.cells[Counted::tls_failures_server].add();
      const bool left = fault == Stream::kClosedAtOnce;
      self->fail("TLS: " + (left ? self->stream_.why_closed() : std::string(fault)));
    });
  });
}

void Connector::ready() {
  claimed_ = false;
  server_->backoff.succeeded();
  Stream stream = std::move(stream_);
  end(&stream, {});
}

void Connector::fail(std::string_view reason) {
  const Failure failure{.reason = std::string(reason)};
  claimed_ = false;
  if (tries_) {
    note_failure(thread_, *server_, failure.reason);
  } else {
    tell_failure(*server_, failure.reason, false);
  }
  end(nullptr, failure);
}

void Connector::give_up(std::string_view reason) {
  log::event(log::Level::error, "connect_failed",
             "this process cannot open a connection to a server; the client is closed",
             {{"server", server_->name}, {"reason", reason}});
  end(nullptr, {.reason = std::string(reason), .gave_up = true});
}

void Connector::tls_failed(IoThread& thread, Upstream& server, std::string_view reason) {
  thread.cells[Counted::tls_failures_server].add();
  note_failure(thread, server, "TLS: " + std::string(reason));
}

void Connector::gave_no_answer(IoThread& thread, Upstream& server, std::string_view reason) {
  server.failed(reason, thread.shared.clock.monotonic());
  thread.shared.observer->lost(server);
  tell_failure(server, reason, is_news(thread, server));
}

void Connector::end(Stream* stream, const Failure& failure) {
  const Done done = std::exchange(done_, nullptr);
  cancel();
  done(stream, failure);
}

}  // namespace idproxy::net
