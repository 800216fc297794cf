#include "client.hpp"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <stdexcept>

#include "document.hpp"
#include "outgoing_message.hpp"
#include "sockets.hpp"

namespace idproxy::bench {
namespace {

constexpr timeval kReplyTimeout{10, 0};

/// Where responseTo stands; length is before requestID, opCode behind.
constexpr std::size_t kResponseTo = 8;
constexpr std::size_t kOpCode = 12;

}  // namespace

void ReplyChecker::expect(std::int32_t response_to) {
  response_to_ = response_to;
  received_ = 0;
}

bool ReplyChecker::feed(std::string_view bytes) {
  if (received_ < kHeaderBytes) {
    const std::size_t taken = std::min(bytes.size(), kHeaderBytes - received_);
    bytes.copy(header_.data() + received_, taken);
    received_ += taken;
    if (received_ < kHeaderBytes) return false;
    check_header();
    bytes.remove_prefix(taken);
  }
  const std::string_view expected = reply_.substr(received_, bytes.size());
  if (expected != bytes) throw std::runtime_error("a reply is not the one that was sent");
  received_ += bytes.size();
  return received_ == reply_.size();
}

void ReplyChecker::check_header() const {
  const std::string_view header(header_.data(), kHeaderBytes);
  const bool same_length = load_raw<std::int32_t>(header, 0) == load_raw<std::int32_t>(reply_, 0);
  const bool same_op_code = header.substr(kOpCode) == reply_.substr(kOpCode, 4);
  if (!same_length || !same_op_code) throw std::runtime_error("a reply has another header");
  if (load_raw<std::int32_t>(header, kResponseTo) != response_to_) {
    throw std::runtime_error("a reply answers another request");
  }
}

Client::Client(std::uint16_t port, const Transport& transport) : stream_(transport.connect(port)) {
  const int fd = stream_.fd().get();
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kReplyTimeout, sizeof kReplyTimeout);
  if (!stream_.handshake()) throw std::runtime_error("a TLS handshake takes too long");
}

void Client::exchange(const Work& work) {
  static std::vector<char> buffer(kReadBytes);
  OutgoingMessage request(work.request, ++request_id_, 0);
  while (!request.done()) {
    if (stream_.send(request) == Sent::failed) throw std::runtime_error("a connection was closed");
  }
  ReplyChecker checker(work.reply);
  checker.expect(request_id_);
  while (true) {
    const std::ptrdiff_t received = stream_.receive(buffer.data(), buffer.size());
    if (received <= 0) throw std::runtime_error(work.name + ": the reply did not come");
    if (checker.feed({buffer.data(), static_cast<std::size_t>(received)})) return;
  }
}

}  // namespace idproxy::bench
