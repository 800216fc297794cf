#include "net/prober.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "idproxy/base/random.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/hello.hpp"
#include "idproxy/rewrite/logins.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "net/connector.hpp"
#include "net/out_queue.hpp"

namespace idproxy::net {
namespace {

// How long a server of which no hello has passed may have been another one than it was, or frozen:
// both are seen within five seconds.
constexpr std::chrono::seconds kAskIdle{2};

constexpr int kNoClient = -1;
// The requestIDs of the commands.
constexpr std::int32_t kHello = 1;
constexpr std::int32_t kPrivileged = 2;
constexpr std::int32_t kBuildInfo = 3;
// mongod's reply has 1 to 2 KB; to hello with 50 members, less than 30 KB.
constexpr std::int32_t kLargestReply = 64 * 1024;

/// {hello: 1, $db: "admin"}. `parameter`: also {…: 1}.
Buffer request(std::string_view command, std::int32_t id, std::string_view parameter = {}) {
  Buffer message;
  message.extend(wire::kSectionsOffset + 1);
  bson::Scope document(message);
  bson::append_int32(message, command, 1);
  if (!parameter.empty()) bson::append_int32(message, parameter, 1);
  bson::append_string(message, "$db", "admin");
  document.close();
  const auto length = static_cast<std::int32_t>(message.size());
  wire::write_header(message.data(), {length, id, 0, wire::OpCode::msg});
  store_u32(message.data() + wire::kFlagsOffset, 0);
  message.data()[wire::kSectionsOffset] = 0;
  return message;
}

/// False if `bytes` cannot begin the reply to the request with this id. Sets `size` to the reply's
/// length once the header is there.
bool may_be_reply(Bytes bytes, std::int32_t id, std::size_t& size) {
  if (bytes.size() < wire::kHeaderSize) return true;
  const wire::MsgHeader header = wire::read_header(bytes);
  size = static_cast<std::size_t>(std::max(header.message_length, 0));
  return header.message_length > static_cast<std::int32_t>(wire::kHeaderSize) &&
         header.message_length <= kLargestReply && header.response_to == id &&
         header.op_code == wire::OpCode::msg;
}

/// "6.0.27"; empty: the server refuses to say it.
std::string version_in(Bytes reply) {
  const auto answer = rewrite::find_hello_document(reply);
  const auto version = answer ? bson::find(answer->document, "version") : std::nullopt;
  if (!version || version->type != bson::Type::string) return {};
  return server_release::version_in(version->text());
}

}  // namespace

/// One hello to the server, behind it what needs a login, and buildInfo, over a connection of their
/// own.
///
/// Shared ownership, because its handlers may be under way when it is cancelled.
class Prober::Probe : public std::enable_shared_from_this<Probe> {
 public:
  explicit Probe(Prober& prober)
      : thread_(prober.thread_),
        server_(prober.server_),
        prober_(prober.shared_from_this()),
        stream_(thread_.loop, thread_.tls),
        deadline_(thread_.loop) {}

  /// Tells the prober of the answer once, perhaps before this returns, unless it is cancelled.
  void start();
  void cancel();

 private:
  void connected(Stream stream);
  void send();
  void wait_for_reply();
  void read();
  void broke_off();
  void take_replies();
  void take(Bytes reply);
  void fail(std::string_view reason);
  void end();

  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  std::shared_ptr<Prober> prober_;  // null once it is over
  std::shared_ptr<Connector> connector_;
  Stream stream_;
  std::chrono::nanoseconds connected_{};
  OutQueue out_;
  Timer deadline_;
  Buffer reply_;
  std::int32_t awaited_ = kHello;  // the request that reply_ answers
  std::optional<rewrite::HelloReply> said_;
};

Prober::Prober(IoThread& thread, std::shared_ptr<Upstream> server, Calls calls)
    : thread_(thread), server_(std::move(server)), calls_(std::move(calls)), pause_(thread.loop) {}

void Prober::start() {
  if (probe_) std::exchange(probe_, nullptr)->cancel();
  wait();
}

void Prober::wait() {
  wait(calls_.is_known() ? kAskIdle : backoff_.wait(thread_.shared.clock.monotonic()));
}

void Prober::wait(std::chrono::nanoseconds pause) {
  pause_.start(pause, [self = shared_from_this()] {
    self->calls_.about_to_ask();
    if (self->stopped_) return;
    Upstream& server = *self->server_;
    const auto silent = self->thread_.shared.clock.monotonic() - server.last_hello();
    const bool clients_tell = server.down_since == 0 && silent < kAskIdle;
    const bool may_be_another = server.may_be_another.exchange(false);
    if (self->calls_.is_known() && clients_tell && !may_be_another) {
      return self->wait(kAskIdle - silent);
    }
    const auto probe = self->probe_ = std::make_shared<Probe>(*self);
    probe->start();  // it may end at once, and begin the next pause
  });
}

void Prober::stop() {
  stopped_ = true;
  pause_.cancel();
  if (probe_) std::exchange(probe_, nullptr)->cancel();
}

void Prober::answered(std::optional<rewrite::HelloReply> said) {
  if (said && said->state != rewrite::HelloReply::State::unknown) {
    backoff_.succeeded();
  } else {
    backoff_.failed(thread_.shared.clock.monotonic(), system_random());
    said.reset();
  }
  calls_.answered(std::move(said));
  if (!stopped_) wait();
}

// ---- one probe -------------------------------------------------------------------------------

void Prober::Probe::start() {
  const auto connected = [self = shared_from_this()](Stream* stream, const Connector::Failure&) {
    if (stream == nullptr) return self->end();
    try {
      self->connected(std::move(*stream));
    } catch (const std::exception&) {  // out of memory: Prober asks again, as after any failure
      self->end();
    }
  };
  std::int64_t nobody = 0;  // else it owes an answer to an earlier one
  server_->asked.compare_exchange_strong(nobody, thread_.shared.clock.monotonic().count());
  connector_ = Connector::start(thread_, server_, kNoClient, connected);
}

void Prober::Probe::cancel() {
  prober_ = nullptr;
  if (connector_) std::exchange(connector_, nullptr)->cancel();
  deadline_.cancel();
  stream_.close();
}

void Prober::Probe::connected(Stream stream) {
  stream_ = std::move(stream);
  connected_ = thread_.shared.clock.monotonic();
  deadline_.start(thread_.shared.options.connect_timeout, [self = shared_from_this()] {
    if (self->prober_) self->fail("no reply to hello within upstream.connect_timeout");
  });
  out_.add(request("hello", kHello).view());
  // Every release has it, it costs the server nothing, and its reply is short.
  out_.add(request("getParameter", kPrivileged, "authenticationMechanisms").view());
  out_.add(request("buildInfo", kBuildInfo).view());
  send();
}

void Prober::Probe::send() {
  const OutQueue::Status status = out_.flush(stream_);
  // Bytes that the server sent before the connection broke, such as a TLS alert, can still be read.
  if (status == OutQueue::Status::failed) stream_.shut_down();
  if (status != OutQueue::Status::blocked) return wait_for_reply();
  stream_.when_writable([self = shared_from_this()] {
    if (self->prober_) self->send();
  });
}

void Prober::Probe::wait_for_reply() {
  stream_.when_readable([self = shared_from_this()] {
    if (self->prober_) self->read();
  });
}

void Prober::Probe::read() {
  constexpr std::size_t kRoom = std::size_t{16} * 1024;
  using Status = Stream::Received::Status;
  const std::size_t size = reply_.size();
  const Stream::Received received = stream_.read({reply_.extend(kRoom), kRoom});
  reply_.truncate(size + received.bytes);
  if (received.bytes > 0) server_->heard(connected_);
  if (received.status == Status::ended || received.status == Status::broken) return broke_off();
  take_replies();
}

void Prober::Probe::take_replies() {
  while (true) {
    std::size_t length = 0;
    if (!may_be_reply(reply_.view(), awaited_, length)) {
      return fail("cannot parse its reply to hello");
    }
    if (length == 0 || reply_.size() < length) return wait_for_reply();
    const Bytes reply = reply_.view().first(length);
    take(reply);
    if (!said_ || awaited_++ == kBuildInfo) return end();
    reply_.drop_front(length);
  }
}

void Prober::Probe::take(Bytes reply) {
  if (awaited_ == kBuildInfo) return server_->version.set(version_in(reply));
  if (awaited_ == kPrivileged) return server_->now_has(rewrite::read_logins(reply));
  said_ = rewrite::read_hello_reply(reply);
  if (!said_) return;
  server_->asked = 0;
  const auto now = thread_.shared.clock.monotonic();
  server_->round_trip = (now - connected_).count();
  server_->loads[thread_.index].heard(now);
}

/// mongod closes without an alert if it requires TLS, or a certificate.
void Prober::Probe::broke_off() {
  if (said_) return end();
  std::string reason(stream_.fault());
  if (reason.empty()) reason = stream_.why_closed();
  if (reason.empty()) {
    return fail(stream_.is_secure() ? "it closed the connection without a reply to hello"
                                    : "it closed the connection without a reply to hello; it may "
                                      "be stopping, or require TLS (tls=true in upstream.uri)");
  }
  Connector::tls_failed(thread_, *server_, reason);
  end();
}

/// Without a reply to the others the one to hello counts.
void Prober::Probe::fail(std::string_view reason) {
  if (!said_) Connector::gave_no_answer(thread_, *server_, reason);
  end();
}

void Prober::Probe::end() {
  if (!prober_) return;
  const auto prober = prober_;
  cancel();
  prober->probe_ = nullptr;
  prober->answered(std::move(said_));
}

}  // namespace idproxy::net
