#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "stream.hpp"
#include "transport.hpp"
#include "work.hpp"

namespace idproxy::bench {

/// Compares a reply with the expected one while it comes in, in any pieces: every byte but the
/// requestID, which is the server's own.
class ReplyChecker {
 public:
  /// `reply` must outlive it.
  explicit ReplyChecker(std::string_view reply) : reply_(reply) {}

  /// Starts anew, for the reply to that request.
  void expect(std::int32_t response_to);

  /// True when the reply is complete. Throws std::runtime_error on the first unexpected byte.
  bool feed(std::string_view bytes);

 private:
  void check_header() const;

  std::string_view reply_;
  std::int32_t response_to_ = 0;
  std::size_t received_ = 0;
  std::array<char, kHeaderBytes> header_{};
};

/// One blocking connection that sends a request and waits for its reply.
class Client {
 public:
  /// Throws std::system_error when nobody listens, std::runtime_error when a handshake fails.
  Client(std::uint16_t port, const Transport& transport);

  /// Throws std::runtime_error when the reply is wrong or does not come.
  void exchange(const Work& work);

  const Stream& stream() const { return stream_; }

 private:
  Stream stream_;
  std::int32_t request_id_ = 0;
};

}  // namespace idproxy::bench
