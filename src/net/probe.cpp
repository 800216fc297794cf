#include "net/probe.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::net {
namespace {

constexpr std::int32_t kRequestId = 1;
// mongod's reply has about 1 KB; with 50 members, less than 30 KB.
constexpr std::int32_t kLargestReply = 64 * 1024;

/// {hello: 1, $db: "admin"}
Buffer request() {
  Buffer message;
  message.extend(wire::kSectionsOffset + 1);
  bson::Scope document(message);
  bson::append_int32(message, "hello", 1);
  bson::append_string(message, "$db", "admin");
  document.close();
  const auto length = static_cast<std::int32_t>(message.size());
  wire::write_header(message.data(), {length, kRequestId, 0, wire::OpCode::msg});
  store_u32(message.data() + wire::kFlagsOffset, 0);
  message.data()[wire::kSectionsOffset] = 0;
  return message;
}

/// False if `bytes` cannot begin a reply to hello. Sets `size` to the reply's length once the
/// header is there.
bool may_be_reply(Bytes bytes, std::size_t& size) {
  if (bytes.size() < wire::kHeaderSize) return true;
  const wire::MsgHeader header = wire::read_header(bytes);
  size = static_cast<std::size_t>(std::max(header.message_length, 0));
  return header.message_length > static_cast<std::int32_t>(wire::kHeaderSize) &&
         header.message_length <= kLargestReply && header.response_to == kRequestId &&
         header.op_code == wire::OpCode::msg;
}

}  // namespace

std::shared_ptr<Probe> Probe::start(IoThread& thread, std::shared_ptr<Upstream> server, Done done) {
  auto probe = std::make_shared<Probe>(thread, server, std::move(done));
  const auto connected = [probe](Stream* stream, const Connector::Failure&) {
    if (stream == nullptr) return probe->end(std::nullopt);
    try {
      probe->connected(std::move(*stream));
    } catch (const std::exception&) {  // out of memory: Prober asks again, as after any failure
      probe->end(std::nullopt);
    }
  };
  probe->connector_ = Connector::start(thread, std::move(server), connected);
  return probe;
}

Probe::Probe(IoThread& thread, std::shared_ptr<Upstream> server, Done done)
    : thread_(thread),
      server_(std::move(server)),
      done_(std::move(done)),
      stream_(thread.loop, thread.tls),
      deadline_(thread.loop) {}

void Probe::cancel() {
  done_ = nullptr;
  if (connector_) std::exchange(connector_, nullptr)->cancel();
  deadline_.cancel();
  stream_.close();
}

void Probe::connected(Stream stream) {
  stream_ = std::move(stream);
  connected_ = thread_.shared.clock.monotonic();
  deadline_.start(thread_.shared.options.connect_timeout, [self = shared_from_this()] {
    if (self->done_) self->fail("no reply to hello within upstream.connect_timeout");
  });
  out_.add(request().view());
  send();
}

void Probe::send() {
  const OutQueue::Status status = out_.flush(stream_);
  // Bytes that the server sent before the connection broke, such as a TLS alert, can still be read.
  if (status == OutQueue::Status::failed) stream_.shut_down();
  if (status != OutQueue::Status::blocked) return wait_for_reply();
  stream_.when_writable([self = shared_from_this()] {
    if (self->done_) self->send();
  });
}

void Probe::wait_for_reply() {
  stream_.when_readable([self = shared_from_this()] {
    if (self->done_) self->read();
  });
}

void Probe::read() {
  constexpr std::size_t kRoom = std::size_t{16} * 1024;
  using Status = Stream::Received::Status;
  const std::size_t size = reply_.size();
  const Stream::Received received = stream_.read({reply_.extend(kRoom), kRoom});
  reply_.truncate(size + received.bytes);
  if (received.bytes > 0) server_->heard(connected_);
  if (received.status == Status::ended || received.status == Status::broken) return broke_off();
  std::size_t length = 0;
  if (!may_be_reply(reply_.view(), length)) return fail("cannot parse its reply to hello");
  if (length == 0 || reply_.size() < length) return wait_for_reply();
  end(rewrite::read_hello_reply(reply_.view().first(length)));
}

/// mongod closes without an alert if it requires TLS, or a certificate.
void Probe::broke_off() {
  std::string reason(stream_.fault());
  if (reason.empty()) reason = stream_.why_closed();
  if (reason.empty()) {
    return fail(stream_.is_secure() ? "it closed the connection without a reply to hello"
                                    : "it closed the connection without a reply to hello; it may "
                                      "be stopping, or require TLS (tls=true in upstream.uri)");
  }
  Connector::tls_failed(thread_, *server_, reason);
  end(std::nullopt);
}

void Probe::fail(std::string_view reason) {
  Connector::gave_no_answer(thread_, *server_, reason);
  end(std::nullopt);
}

void Probe::end(std::optional<rewrite::HelloReply> said) {
  if (!done_) return;
  const Done done = std::exchange(done_, nullptr);
  cancel();
  done(std::move(said));
}

}  // namespace idproxy::net
