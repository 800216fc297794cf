#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

/// Pages for operators and their programs by HTTP/1.1: GET and HEAD of a few paths, nothing else.
namespace idproxy::admin {

struct Answer {
  unsigned status = 200;
  std::string body{};
  std::string content_type = "text/plain; charset=utf-8";
};

/// Path -> what makes the answer to it, on the endpoint's thread. Whatever follows a `?` is
/// ignored.
using Pages = std::map<std::string, std::function<Answer()>, std::less<>>;

struct EndpointLimits {
  std::size_t connections = 64;  ///< beyond it the one that was idle for longest has to go
  std::size_t header_bytes = 8192;
  std::chrono::milliseconds request{
      10'000};  ///< from its first byte; and for the answer to be read
  std::chrono::milliseconds idle{60'000};
};

/// Serves the pages to any number of clients, none of which can hold up another. Not thread-safe:
/// it lives on the thread that runs `io`, or before and after that. Requests that it does not
/// answer with a page get 400, 404, 405, 413 (no request may have a body), 431 or 503 (too many
/// connections).
class Endpoint {
 public:
  /// `host` is an IP address; port 0: any free one. `io` and what the pages use outlive it. The
  /// error: "127.0.0.1:9216: Address already in use".
  [[nodiscard]] static boost::system::result<std::unique_ptr<Endpoint>, std::string> open(
      boost::asio::io_context& io, const std::string& host, std::uint16_t port, Pages pages,
      EndpointLimits limits = {});
  /// Closes everything.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] std::string address() const;  ///< "127.0.0.1:9216", with the port that was chosen

 private:
  struct Impl;
  explicit Endpoint(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // the conversations have it too: they end after close()
};

}  // namespace idproxy::admin
