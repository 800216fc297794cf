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
#include <string_view>
#include <vector>

#include "idproxy/base/listen_fault.hpp"

/// Serves pages to operators and their programs by HTTP/1.1: GET and HEAD of a few paths.
namespace idproxy::admin {

struct HttpResponse {
  unsigned status = 200;
  std::string body{};
  std::string content_type = "text/plain; charset=utf-8";
};

/// Makes a page, on the server's thread. `query`: what follows the "?" in the request's target, as
/// it is there; valid during the call.
using Page = std::function<HttpResponse(std::string_view query)>;
using Pages = std::map<std::string, Page, std::less<>>;  ///< by their paths

struct HttpServerLimits {
  /// A further one closes the one that was idle longest, or that has waited longest for the rest of
  /// a request.
  std::size_t connections = 64;
  std::size_t header_bytes = 8192;
  std::chrono::milliseconds request{
      10'000};  ///< from its first byte to its last; again until the client has the response
  std::chrono::milliseconds idle{60'000};
  /// A client that has connected, got an answer or begun a request has this long to go on before
  /// its connection may be closed for a further one.
  std::chrono::milliseconds begins{1000};
};

/// Pages that take longer, made on the thread that runs `io`: there as many wait at a time as there
/// may be connections, and a further one is 503. Some more connections are permitted then, for
/// pages that are made at once. Without `io` there are none.
struct PagesElsewhere {
  boost::asio::io_context* io = nullptr;
  Pages pages{};
};

/// Serves the pages; a slow client does not hold up others. Not thread-safe: use it on the thread
/// that runs `io`, or before and after that. Errors are 400, 404, 405, 413 (a request with a body),
/// 421 (for another host), 431 and 503 (too many connections). Every response forbids browsers to
/// load anything from elsewhere, to show it inside another page, and to keep it.
class HttpServer {
 public:
  /// Listens at `host`, an IP address; port 0: any free port. It answers requests for that address
  /// (any address if it is 0.0.0.0 or ::), for localhost and for `names`, which are host names or
  /// addresses. `io` and everything the pages use must outlive the server. The error's text:
  /// "127.0.0.1:27216: Address already in use".
  [[nodiscard]] static boost::system::result<std::unique_ptr<HttpServer>, ListenFault> open(
      boost::asio::io_context& io, const std::string& host, std::uint16_t port, Pages pages,
      const std::vector<std::string>& names = {}, HttpServerLimits limits = {},
      PagesElsewhere elsewhere = {});
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
