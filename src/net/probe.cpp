#include "probe.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::net {
namespace {

constexpr std::int32_t kRequestId = 1;
// mongod's has about 1 KB, with 50 members less than 30 KB.
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

/// A whole hello reply, as far as its header tells; nothing if it cannot be one. `size`: its own.
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
  probe->connector_ = Connector::start(thread, std::move(server), [probe](Stream* stream) {
    if (stream == nullptr) return probe->end(std::nullopt);
    probe->connected(std::move(*stream));
  });
  return probe;
}

Probe::Probe(IoThread& thread, std::shared_ptr<Upstream> server, Done done)
    : thread_(thread),
      server_(std::move(server)),
      done_(std::move(done)),
      stream_(thread.io, thread.tls),
      deadline_(thread.io) {}

void Probe::cancel() {
  done_ = nullptr;
  if (connector_) std::exchange(connector_, nullptr)->cancel();
  deadline_.cancel();
  stream_.close();
}

void Probe::connected(Stream stream) {
  stream_ = std::move(stream);
  deadline_.expires_after(thread_.shared.options.connect_timeout);
  deadline_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->end(std::nullopt);
  });
  out_.add(request().view());
  send();
}

void Probe::send() {
  const OutQueue::Status status = out_.flush(stream_);
  if (status == OutQueue::Status::failed) return end(std::nullopt);
  if (status == OutQueue::Status::done) return wait_for_reply();
  stream_.wait_writable([self = shared_from_this()](error_code error) {
    if (!self->done_) return;
    if (error) return self->end(std::nullopt);
    self->send();
  });
}

void Probe::wait_for_reply() {
  stream_.wait_readable([self = shared_from_this()](error_code error) {
    if (!self->done_) return;
    if (error) return self->end(std::nullopt);
    self->read();
  });
}

void Probe::read() {
  constexpr std::size_t kRoom = std::size_t{16} * 1024;
  using Status = Stream::Received::Status;
  const std::size_t size = reply_.size();
  const Stream::Received received = stream_.read({reply_.extend(kRoom), kRoom});
  reply_.truncate(size + received.bytes);
  std::size_t length = 0;
  std::string fault(stream_.fault());
  if (fault.empty()) fault = stream_.why_closed();
  const bool over = received.status == Status::ended || received.status == Status::broken;
  if (over && !fault.empty()) Connector::tls_failed(thread_, *server_, fault);
  if (over || !may_be_reply(reply_.view(), length)) return end(std::nullopt);
  if (length == 0 || reply_.size() < length) return wait_for_reply();
  end(rewrite::read_hello_reply(reply_.view().first(length)));
}

void Probe::end(std::optional<rewrite::HelloReply> said) {
  if (!done_) return;
  const Done done = std::exchange(done_, nullptr);
  cancel();
  done(std::move(said));
}

}  // namespace idproxy::net
