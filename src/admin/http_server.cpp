#include "idproxy/admin/http_server.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <list>
#include <optional>
#include <utility>

#include "admin/admitted_hosts.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::admin {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr auto kUse = asio::as_tuple(asio::use_awaitable);

// Pause after an error that accept() would repeat at once, such as EMFILE.
constexpr std::chrono::milliseconds kAcceptPause = 100ms;
// How long to read from a client that keeps sending after an error response. Closing at once would
// send a reset, which may overtake the response.
constexpr std::chrono::milliseconds kLinger = 1000ms;
constexpr std::size_t kReadSize = 4096;
// Connections beyond the limit for those who want a page that is made at once, such as /livez,
// while all others wait for one that is made elsewhere.
constexpr std::size_t kBrief = 32;

/// One client's connection, listed in `all` during its lifetime.
class Connection {
 public:
  Connection(tcp::socket socket, std::list<Connection*>& all)
      : stream(std::move(socket)), all_(all), place_(all.insert(all.end(), this)) {}
  ~Connection() { all_.erase(place_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Of a request: no byte has come, its header is not whole yet, or it is. In the order in which
  /// they give way, and the oldest first.
  enum class Stage { idle, incomplete, whole };
  void begin(Stage next) {
    stage = next;
    since = std::chrono::steady_clock::now();
  }

  beast::tcp_stream stream;
  Stage stage = Stage::idle;
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();

 private:
  std::list<Connection*>& all_;
  std::list<Connection*>::iterator place_;
};

using Request = http::request<http::empty_body>;

/// Logs the exception that ended a coroutine, if any.
void log_end(const std::exception_ptr& thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    log::event(log::Level::error, "admin_failed", "an internal error on admin.listen",
               {{"reason", error.what()}});
  }
}

HttpResponse status_response(unsigned status) {
  return {.status = status,
          .body = std::string(http::obsolete_reason(http::int_to_status(status))) + "\n"};
}

/// For a request whose host is not one of AdmittedHosts.
HttpResponse misdirected() {
  return {.status = 421,
          .body =
              "To permit requests for this host name, add it to admin.hosts in the "
              "configuration of mongo-idproxy, and restart it.\n"};
}

/// "/metrics?x=1" and "http://host/metrics?x=1" have the same path and query.
struct Target {
  std::optional<std::string_view> authority{};  ///< "host"; nothing in the first form
  std::string_view path;
  std::string_view query{};
};

Target split(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  Target parts;
  if (target.starts_with(kScheme)) {
    target.remove_prefix(kScheme.size());
    parts.authority = target.substr(0, target.find_first_of("/?"));
    target.remove_prefix(parts.authority->size());
  }
  const std::size_t path = std::min(target.find('?'), target.size());
  parts.path = path == 0 ? "/" : target.substr(0, path);
  if (path < target.size()) parts.query = target.substr(path + 1);
  return parts;
}

// A page may use its own style, script, pictures and figures, and nothing else, so that a name that
// got into it unescaped could do no harm. Figures age: nobody is to keep them.
constexpr std::string_view kHeaders =
    "Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n";

/// The whole response as bytes. Beast's serializer, made for bodies of any kind, takes longer to
/// compile than everything else in this file.
std::string text_of(const Request& request, bool keep_alive, const HttpResponse& response) {
  const bool old = request.version() < 11;
  std::string text = old ? "HTTP/1.0 " : "HTTP/1.1 ";
  text += std::to_string(response.status) + " ";
  text += http::obsolete_reason(http::int_to_status(response.status));
  text += "\r\nContent-Type: " + response.content_type + "\r\n";
  text += kHeaders;
  if (response.status == 405) text += "Allow: GET, HEAD\r\n";
  if (old && keep_alive) text += "Connection: keep-alive\r\n";
  if (!old && !keep_alive) text += "Connection: close\r\n";
  text += "Content-Length: " + std::to_string(response.body.size()) + "\r\n\r\n";
  if (request.method() != http::verb::head) text += response.body;
  return text;
}

/// Parses the header, the first `size` bytes. Returns 200, or the status of the error.
unsigned read(std::string& received, std::size_t size,
              http::request_parser<http::empty_body>& parser) {
  parser.header_limit(static_cast<std::uint32_t>(size));
  error_code error;
  parser.put(asio::buffer(received, size), error);
  received.erase(0, size);
  if (error == http::error::body_limit) return 413;
  if (error) return 400;
  return parser.is_done() ? 200 : 413;
}

asio::awaitable<bool> write(Connection& connection, std::chrono::milliseconds limit,
                            const std::string& response) {
  connection.stream.expires_after(limit);
  const auto [error, size] =
      co_await asio::async_write(connection.stream, asio::buffer(response), kUse);
  co_return !error;
}

/// Reads until the client has the response and closes its end.
asio::awaitable<void> linger(Connection& connection) {
  error_code ignored;
  connection.stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  connection.stream.expires_after(kLinger);
  std::array<char, kReadSize> rest{};
  for (;;) {
    const auto [error, size] = co_await connection.stream.async_read_some(asio::buffer(rest), kUse);
    if (error) co_return;
  }
}

}  // namespace

struct HttpServer::Impl {
  Impl(asio::io_context& io, Pages all_pages, HttpServerLimits all_limits,
       PagesElsewhere other_pages)
      : acceptor(io),
        pages(std::move(all_pages)),
        limits(all_limits),
        elsewhere(std::move(other_pages)) {}

  ListenFault listen(const std::string& host, std::uint16_t port,
                     const std::vector<std::string>& names) {
    error_code error;
    const auto ip = asio::ip::make_address(host, error);
    if (error) return ListenFault(host + ": not an IP address");
    try {
      acceptor = tcp::acceptor(acceptor.get_executor(), tcp::endpoint(ip, port));
    } catch (const boost::system::system_error& refused) {
      const std::string shown = ip.is_v6() ? "[" + host + "]" : host;
      return {shown + ":" + std::to_string(port), refused.code()};
    }
    hosts.emplace(ip, names);
    return {};
  }

  static asio::awaitable<void> accept(std::shared_ptr<Impl> impl) {
    asio::steady_timer pause(impl->acceptor.get_executor());
    for (;;) {
      auto [error, socket] = co_await impl->acceptor.async_accept(kUse);
      if (!impl->acceptor.is_open()) co_return;
      if (error) {
        pause.expires_after(kAcceptPause);
        co_await pause.async_wait(kUse);
      } else if (impl->make_room()) {
        co_spawn(impl->acceptor.get_executor(), converse(impl, std::move(socket)), log_end);
      } else {
        refuse(std::move(socket));
      }
    }
  }

  /// True if a request, or the rest of it, may be on its way to the connection.
  [[nodiscard]] bool may_go_on(const Connection& connection) const {
    return std::chrono::steady_clock::now() - connection.since < limits.begins;
  }

  bool make_room() {
    if (connections.size() < limits.connections) return true;
    const auto oldest = std::ranges::min_element(connections, {}, [](const Connection* each) {
      return std::pair(each->stage, each->since);
    });
    const bool gives_way =
        oldest != connections.end() && (*oldest)->stage != Connection::Stage::whole;
    const bool is_more_permitted =
        elsewhere.io != nullptr && connections.size() < limits.connections + kBrief;
    if (!gives_way || (is_more_permitted && may_go_on(**oldest))) return is_more_permitted;
    (*oldest)->stage = Connection::Stage::whole;  // chosen only once, though it counts until its
                                                  // coroutine has ended
    (*oldest)->stream.close();
    return true;
  }

  /// Does not wait: the socket's send buffer is empty.
  static void refuse(tcp::socket socket) {
    const std::string answer = text_of(Request(), false, status_response(503));
    error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(answer), ignored);
  }

  static asio::awaitable<void> converse(std::shared_ptr<Impl> impl, tcp::socket socket) {
    Connection connection(std::move(socket), impl->connections);
    std::string received;
    bool goes_on = true;
    while (goes_on) {
      goes_on = co_await impl->await_request(connection, received) &&
                co_await impl->answer_one(connection, received);
    }
  }

  /// False if no request comes.
  asio::awaitable<bool> await_request(Connection& connection, std::string& received) const {
    if (!received.empty()) co_return true;  // the client did not wait for the last response
    connection.begin(Connection::Stage::idle);
    connection.stream.expires_after(limits.idle);
    received.resize(std::min(kReadSize, limits.header_bytes));
    const auto [error, size] =
        co_await connection.stream.async_read_some(asio::buffer(received), kUse);
    received.resize(size);
    co_return !error;
  }

  /// False if no further request may follow on this connection.
  asio::awaitable<bool> answer_one(Connection& connection, std::string& received) {
    connection.begin(Connection::Stage::incomplete);
    connection.stream.expires_after(limits.request);  // for the whole request, not for each read
    // Beast's own read does not limit a header whose lines come one by one.
    const auto [error, size] = co_await asio::async_read_until(
        connection.stream, asio::dynamic_buffer(received, limits.header_bytes), "\r\n\r\n", kUse);
    connection.stage = Connection::Stage::whole;
    if (error && error != asio::error::not_found) co_return false;
    http::request_parser<http::empty_body> parser;
    const unsigned status = error ? 431 : read(received, size, parser);
    const bool keep_alive = status == 200 && parser.get().keep_alive();
    HttpResponse made = status_response(status);
    if (status == 200) made = co_await respond(parser.get());
    const std::string response = text_of(parser.get(), keep_alive, made);
    if (!co_await write(connection, limits.request, response)) co_return false;
    if (!keep_alive) co_await linger(connection);
    co_return keep_alive;
  }

  asio::awaitable<HttpResponse> respond(const Request& request) {
    // No browser sends HTTP/1.0, and its other clients may leave out the host.
    const std::size_t host_fields = request.count(http::field::host);
    if (host_fields > 1 || (host_fields == 0 && request.version() >= 11)) {
      co_return status_response(400);
    }
    const Target target = split({request.target().data(), request.target().size()});
    if (host_fields == 1 && !is_admitted(request[http::field::host])) co_return misdirected();
    if (target.authority && !hosts->admit(*target.authority)) co_return misdirected();
    const auto found = pages.find(target.path);
    const auto other = elsewhere.pages.find(target.path);
    const bool is_here = found != pages.end();
    if (!is_here && other == elsewhere.pages.end()) co_return status_response(404);
    if (request.method() != http::verb::get && request.method() != http::verb::head) {
      co_return status_response(405);
    }
    if (is_here) co_return page(found->second, target.query);
    if (waiting == limits.connections) co_return status_response(503);
    ++waiting;
    HttpResponse made = co_await asio::co_spawn(
        *elsewhere.io, make(&other->second, std::string(target.query)), asio::use_awaitable);
    --waiting;
    co_return made;
  }

  static asio::awaitable<HttpResponse> make(const Page* each, std::string query) {
    co_return page(*each, query);
  }

  [[nodiscard]] bool is_admitted(boost::string_view host) const {
    return hosts->admit({host.data(), host.size()});
  }

  [[nodiscard]] static HttpResponse page(const Page& make, std::string_view query) {
    try {
      return make(query);
    } catch (const std::exception& error) {
      log::event(log::Level::error, "admin_page_failed", "cannot make a page",
                 {{"reason", error.what()}});
      return status_response(500);
    }
  }

  void close() {
    error_code ignored;
    acceptor.close(ignored);
    for (Connection* each : connections) each->stream.close();
  }

  tcp::acceptor acceptor;
  Pages pages;
  HttpServerLimits limits;
  PagesElsewhere elsewhere;
  std::size_t waiting = 0;             // for pages that are made there
  std::optional<AdmittedHosts> hosts;  // once it listens
  std::list<Connection*> connections;
};

HttpServer::HttpServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  impl_->close();
}

boost::system::result<std::unique_ptr<HttpServer>, ListenFault> HttpServer::open(
    asio::io_context& io, const std::string& host, std::uint16_t port, Pages pages,
    const std::vector<std::string>& names, HttpServerLimits limits, PagesElsewhere elsewhere) {
  auto impl = std::make_shared<Impl>(io, std::move(pages), limits, std::move(elsewhere));
  if (ListenFault fault = impl->listen(host, port, names); !fault.text.empty()) return fault;
  co_spawn(io, Impl::accept(impl), log_end);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::string HttpServer::address() const {
  error_code ignored;
  const tcp::endpoint endpoint = impl_->acceptor.local_endpoint(ignored);
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(endpoint.port());
}

}  // namespace idproxy::admin
