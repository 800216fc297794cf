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

/// Serves pages to operators and their programs by HTTP/1.1: GET and HEAD of a few paths.
namespace idproxy::admin {

struct HttpResponse {
  unsigned status = 200;
  std::string body{};
  std::string content_type = "text/plain; charset=utf-8";
};

/// Path -> function that makes the response, called on the server's thread. The server ignores
/// a query string.
using Pages = std::map<std::string, std::function<HttpResponse()>, std::less<>>;

struct HttpServerLimits {
  std::size_t connections = 64;  ///< a further one closes the one that was idle longest
  std::size_t header_bytes = 8192;
  std::chrono::milliseconds request{
      10'000};  ///< from its first byte to its last; again until the client has the response
  std::chrono::milliseconds idle{60'000};
};

/// Serves the pages; a slow client does not hold up others. Not thread-safe: use it on the thread
/// that runs `io`, or before and after that. Errors are 400, 404, 405, 413 (a request with a body),
/// 431 and 503 (too many connections).
class HttpServer {
 public:
  /// Listens at `host`, an IP address; port 0: any free port. `io` and everything the pages use
  /// must outlive the server. The error is a text: "127.0.0.1:27216: Address already in use".
  [[nodiscard]] static boost::system::result<std::unique_ptr<HttpServer>, std::string> open(
      boost::asio::io_context& io, const std::string& host, std::uint16_t port, Pages pages,
      HttpServerLimits limits = {});
  /// Closes everything.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] std::string address() const;  ///< "127.0.0.1:27216", with the actual port

 private:
  struct Impl;
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // also held by coroutines of connections, which end after close()
};

}  // namespace idproxy::admin
