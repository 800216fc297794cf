#include "probe.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
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

}  // namespace

std::shared_ptr<Probe> Probe::start(IoThread& thread, std::shared_ptr<Upstream> server, Done done) {
  auto probe = std::make_shared<Probe>(thread, std::move(done));
  probe->connector_ =
      Connector::start(thread, std::move(server), [probe](Socket* socket, std::string_view) {
        if (socket == nullptr) return probe->end(std::nullopt);
        probe->connected(std::move(*socket));
      });
  return probe;
}

Probe::Probe(IoThread& thread, Done done)
    : thread_(thread), done_(std::move(done)), socket_(thread.io), deadline_(thread.io) {}

void Probe::cancel() {
  done_ = nullptr;
  if (connector_) std::exchange(connector_, nullptr)->cancel();
  deadline_.cancel();
  error_code ignored;
  socket_.close(ignored);
}

void Probe::connected(Socket socket) {
  socket_ = std::move(socket);
  deadline_.expires_after(thread_.shared.options.connect_timeout);
  deadline_.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->end(std::nullopt);
  });
  buffer_ = request();
  asio::async_write(socket_, asio::buffer(buffer_.data(), buffer_.size()),
                    [self = shared_from_this()](error_code error, std::size_t) {
                      if (error) return self->end(std::nullopt);
                      self->read_header();
                    });
}

void Probe::read_header() {
  buffer_.clear();
  asio::async_read(socket_, asio::buffer(buffer_.extend(wire::kHeaderSize), wire::kHeaderSize),
                   [self = shared_from_this()](error_code error, std::size_t) {
                     if (error) return self->end(std::nullopt);
                     self->read_rest();
                   });
}

void Probe::read_rest() {
  const wire::MsgHeader header = wire::read_header(buffer_.view());
  const bool plausible = header.message_length > static_cast<std::int32_t>(wire::kHeaderSize) &&
                         header.message_length <= kLargestReply &&
                         header.response_to == kRequestId && header.op_code == wire::OpCode::msg;
  if (!plausible) return end(std::nullopt);
  const std::size_t rest = static_cast<std::size_t>(header.message_length) - wire::kHeaderSize;
  asio::async_read(socket_, asio::buffer(buffer_.extend(rest), rest),
                   [self = shared_from_this()](error_code error, std::size_t) {
                     if (error) return self->end(std::nullopt);
                     self->end(rewrite::read_hello_reply(self->buffer_.view()));
                   });
}

void Probe::end(std::optional<rewrite::HelloReply> said) {
  if (!done_) return;
  const Done done = std::exchange(done_, nullptr);
  cancel();
  done(std::move(said));
}

}  // namespace idproxy::net
