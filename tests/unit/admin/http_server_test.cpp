#include "idproxy/admin/http_server.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace idproxy::admin {
namespace http_server_test {

using namespace std::chrono_literals;

constexpr std::size_t kLargePage = std::size_t{8} << 20;  // more than sockets take

/// A client that says exactly what it is told to.
class Client {
 public:
  explicit Client(const std::string& address, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(10))));
    peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): as the sockets API wants it
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&peer), sizeof peer) != 0) {
      throw std::runtime_error("cannot connect to " + address);
    }
    limit(10s);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool send(std::string_view text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  /// All until `end`, or until the connection ends.
  std::string receive_until(std::string_view end) {
    for (;;) {
      if (const auto at = received_.find(end); at != std::string::npos) {
        std::string head = received_.substr(0, at + end.size());
        received_.erase(0, head.size());
        return head;
      }
      if (!receive()) return std::exchange(received_, {});
    }
  }
  std::string receive_bytes(std::size_t count) {
    while (received_.size() < count && receive()) continue;
    std::string head = received_.substr(0, count);
    received_.erase(0, head.size());
    return head;
  }
  std::string receive_all() {
    while (receive()) continue;
    return std::exchange(received_, {});
  }
  /// One answer: its header, and its body after it.
  std::string receive_answer() {
    std::string answer = receive_until("\r\n\r\n");
    constexpr std::string_view kLength = "Content-Length: ";
    const auto at = answer.find(kLength);
    if (at == std::string::npos) return answer;
    return answer += receive_bytes(std::stoul(answer.substr(at + kLength.size())));
  }
  /// The server closes within so long, whatever it sends before.
  bool is_closed_within(std::chrono::milliseconds time) {
    limit(time);
    while (receive()) continue;
    const bool closed = ended_;
    limit(10s);
    return closed;
  }

 private:
  void limit(std::chrono::milliseconds time) const {
    const timeval value{.tv_sec = time.count() / 1000, .tv_usec = time.count() % 1000 * 1000};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
  }
  bool receive() {
    char some[65536];
    const ssize_t n = ::recv(socket_, some, sizeof some, 0);
    ended_ = n == 0 || (n < 0 && errno == ECONNRESET);
    if (n <= 0) return false;
    received_.append(some, static_cast<std::size_t>(n));
    return true;
  }

  int socket_;
  bool ended_ = false;
  std::string received_;
};

std::string get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

class EndpointTest : public ::testing::Test {
 protected:
  void start(HttpServerLimits limits = {}, bool has_elsewhere = false) {
    auto opened = HttpServer::open(io_, "127.0.0.1", 0, pages(), {"Admitted.example"}, limits,
                                   {.io = has_elsewhere ? &io_ : nullptr});
    ASSERT_TRUE(opened) << opened.error().text;
    server_ = std::move(*opened);
    address_ = server_->address();
    thread_ = std::jthread([this] { io_.run(); });
  }
  void TearDown() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    server_.reset();
  }
  [[nodiscard]] std::unique_ptr<Client> connect(int receive_buffer = 0) const {
    return std::make_unique<Client>(address_, receive_buffer);
  }
  [[nodiscard]] std::string ask(std::string_view request) const {
    const auto client = connect();
    client->send(request);
    return client->receive_answer();
  }
  /// A new client is served, and soon.
  [[nodiscard]] bool serves() const { return ask(get("/hello")).ends_with("\r\n\r\nhello\n"); }

  std::string address_;

 private:
  static Pages pages() {
    const auto page = [](HttpResponse response) {
      return [response](std::string_view) { return response; };
    };
    return {{"/hello", page({.body = "hello\n"})},
            {"/sick", page({.status = 503, .body = "sick\n"})},
            {"/other", page({.body = "x", .content_type = "text/other"})},
            {"/large", page({.body = std::string(kLargePage, 'x')})},
            {"/query",
             [](std::string_view query) {
               return HttpResponse{.body = "[" + std::string(query) + "]"};
             }},
            {"/fault",
             [](std::string_view) -> HttpResponse { throw std::runtime_error("on purpose"); }}};
  }

  boost::asio::io_context io_;
  std::unique_ptr<HttpServer> server_;
  std::jthread thread_;
};

TEST_F(EndpointTest, AnswersAPage) {
  start();
  EXPECT_EQ(ask(get("/hello")),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; "
            "connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
            "form-action 'none'\r\n"
            "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
            "Cache-Control: no-store\r\nContent-Length: 6\r\n\r\nhello\n");
  EXPECT_TRUE(ask(get("/sick")).starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_NE(ask(get("/other")).find("Content-Type: text/other\r\n"), std::string::npos);
}

TEST_F(EndpointTest, GivesAPageTheQuery) {
  start();
  const std::pair<const char*, const char*> kCases[] = {
      {"/query", "[]"},
      {"/query?", "[]"},
      {"/query?rules=failing&x=%20?y", "[rules=failing&x=%20?y]"},
      {"http://localhost/query?a=/b", "[a=/b]"},
  };
  for (const auto& [target, body] : kCases) EXPECT_TRUE(ask(get(target)).ends_with(body)) << target;
}

TEST_F(EndpointTest, SaysWhatToConfigureForAnotherHost) {
  start();
  const std::string answer = ask("GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 421 Misdirected Request\r\n")) << answer;
  EXPECT_NE(answer.find("admin.hosts"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("evil"), std::string::npos) << answer;
}

TEST_F(EndpointTest, AnswersHeadWithoutTheBody) {
  start();
  const auto client = connect();
  client->send("HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/hello"));
  const std::string head = client->receive_until("\r\n\r\n");
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(head.find("Content-Length: 6\r\n"), std::string::npos);
  EXPECT_TRUE(client->receive_answer().starts_with("HTTP/1.1 200 OK\r\n"));
}

struct Case {
  const char* name;
  std::string request;
  unsigned status;
};

class Requests : public EndpointTest, public ::testing::WithParamInterface<Case> {};

TEST_P(Requests, AreAnswered) {
  start();
  const std::string answer = ask(GetParam().request);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::to_string(GetParam().status)) ||
              answer.starts_with("HTTP/1.0 " + std::to_string(GetParam().status)))
      << answer;
  EXPECT_NE(answer.find("\r\nContent-Security-Policy: default-src 'none'; "), std::string::npos);
  EXPECT_TRUE(serves());
}

INSTANTIATE_TEST_SUITE_P(
    HttpServer, Requests,
    ::testing::Values(
        Case{"query", get("/hello?a=b"), 200},
        Case{"absolute", get("http://localhost:1/hello?x"), 200},
        Case{"absolute_without_path", get("http://localhost"), 404},
        Case{"absolute_without_path_but_query", get("http://localhost?/hello"), 404},
        Case{"absolute_elsewhere", get("http://evil.example/hello"), 421},
        Case{"absolute_with_user", get("http://localhost@evil.example/hello"), 421},
        Case{"absolute_to_us_for_another",
             "GET http://localhost/hello HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421},
        Case{"configured_host", "GET /hello HTTP/1.1\r\nHost: admitted.EXAMPLE:80\r\n\r\n", 200},
        Case{"bound_host", "GET /hello HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", 200},
        Case{"another_host", "GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421},
        Case{"another_address", "GET /hello HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", 421},
        Case{"empty_host", "GET /hello HTTP/1.1\r\nHost:\r\n\r\n", 421},
        Case{"another_host_and_page", "GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421},
        Case{"two_hosts", "GET /hello HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", 400},
        Case{"http_1_0_elsewhere", "GET /hello HTTP/1.0\r\nHost: evil.example\r\n\r\n", 421},
        Case{"http_1_0_absolute_elsewhere", "GET http://evil.example/hello HTTP/1.0\r\n\r\n", 421},
        Case{"http_1_0", "GET /hello HTTP/1.0\r\n\r\n", 200},
        Case{"no_host", "GET /hello HTTP/1.1\r\n\r\n", 400},
        Case{"unknown_path", get("/hell"), 404}, Case{"path_below", get("/hello/"), 404},
        Case{"dots", get("/x/../hello"), 404}, Case{"empty_path", get(""), 400},
        Case{"unknown_path_and_method", "POST /x HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
        Case{"post", "POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405},
        Case{"unknown_method", "FROB /hello HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
        Case{"body", "GET /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 413},
        Case{"endless_body",
             "GET /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 413},
        Case{"chunks",
             "POST /hello HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
             "chunked\r\n\r\n3\r\nabc\r\n",
             413},
        Case{"both_lengths",
             "GET /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nTransfer-Encoding: "
             "chunked\r\n\r\n0\r\n\r\n",
             400},
        Case{"no_http", "nonsense\r\n\r\n", 400},
        Case{"tls", std::string("\x16\x03\x01\0\x01\r\n\r\n", 9), 400},
        Case{"http_2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
        Case{"header_8k_and_more",
             "GET /hello HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(8192, 'x') + "\r\n\r\n",
             431},
        Case{"header_1m",
             "GET /hello HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(1 << 20, 'x'), 431},
        Case{"many_headers",
             [] {
               std::string request = "GET /hello HTTP/1.1\r\nHost: localhost\r\n";
               for (int i = 0; i < 2000; ++i) request += "A: b\r\n";
               return request + "\r\n";
             }(),
             431},
        Case{"target_1m", "GET /" + std::string(1 << 20, 'x'), 431},
        Case{"fault", get("/fault"), 500}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_F(EndpointTest, SaysWhichMethodsThereAre) {
  start();
  const std::string answer = ask("DELETE /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(answer.find("Allow: GET, HEAD\r\n"), std::string::npos) << answer;
}

TEST_F(EndpointTest, AnswersOneRequestAfterTheOther) {
  start();
  const auto client = connect();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(client->send(get(i % 10 == 9 ? "/none" : "/hello")));
    ASSERT_TRUE(client->receive_answer().ends_with(i % 10 == 9 ? "Not Found\n" : "hello\n"));
  }
}

TEST_F(EndpointTest, AnswersRequestsThatDoNotWait) {
  start();
  const auto client = connect();
  std::string requests;
  for (int i = 0; i < 500; ++i) requests += get(i % 2 == 0 ? "/hello" : "/sick");
  ASSERT_TRUE(client->send(requests));
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(client->receive_answer().ends_with(i % 2 == 0 ? "hello\n" : "sick\n"));
  }
}

TEST_F(EndpointTest, TakesARequestInPieces) {
  start();
  const auto client = connect();
  for (const char c : get("/hello")) ASSERT_TRUE(client->send({&c, 1}));
  EXPECT_TRUE(client->receive_answer().ends_with("hello\n"));
}

TEST_F(EndpointTest, ClosesAsTheClientWishes) {
  start();
  for (const std::string request :
       {"GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /hello HTTP/1.0\r\n\r\n"}) {
    const auto client = connect();
    client->send(request);
    EXPECT_TRUE(client->receive_answer().ends_with("hello\n"));
    EXPECT_TRUE(client->is_closed_within(5s)) << request;
  }
  const auto client = connect();
  client->send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(client->receive_answer().ends_with("hello\n"));
  client->send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(client->receive_answer().ends_with("hello\n"));
}

TEST_F(EndpointTest, ClosesBehindARequestThatItCannotRead) {
  start();
  const auto client = connect();
  client->send("nonsense\r\n\r\n" + get("/hello"));
  const std::string all = client->receive_all();
  EXPECT_TRUE(all.starts_with("HTTP/1.1 400")) << all;
  EXPECT_EQ(all.find("200 OK"), std::string::npos) << "what follows may be part of it";
}

TEST_F(EndpointTest, EndsARequestThatDribblesIn) {
  start({.request = 300ms});
  const auto client = connect();
  const std::string request = get("/hello");
  const auto start = std::chrono::steady_clock::now();
  for (const char c : request) {
    if (!client->send({&c, 1}) || client->is_closed_within(20ms)) break;
  }
  EXPECT_TRUE(client->is_closed_within(5s));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 300ms);
  EXPECT_TRUE(serves());
}

TEST_F(EndpointTest, EndsAClientThatIsIdle) {
  start({.request = 10s, .idle = 200ms});
  const auto silent = connect();
  const auto served = connect();
  served->send(get("/hello"));
  EXPECT_TRUE(served->receive_answer().ends_with("hello\n"));
  EXPECT_TRUE(silent->is_closed_within(5s));
  EXPECT_TRUE(served->is_closed_within(5s));
}

TEST_F(EndpointTest, IsNotHeldUpByAReaderThatDoesNotRead) {
  start({.request = 500ms});
  const auto deaf = connect(4096);
  deaf->send(get("/large"));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(serves());
  std::this_thread::sleep_for(700ms);
  EXPECT_LT(deaf->receive_all().size(), kLargePage);
}

TEST_F(EndpointTest, SendsALargePageToASlowReader) {
  start();
  const auto slow = connect(4096);
  slow->send(get("/large"));
  EXPECT_GT(slow->receive_answer().size(), kLargePage);
}

TEST_F(EndpointTest, ClosesTheOldestIdleConnectionForANewOne) {
  start({.connections = 64});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 64; ++i) {
    clients.push_back(connect());
    clients.back()->send(get("/hello"));
    EXPECT_TRUE(clients.back()->receive_answer().ends_with("hello\n"));
  }
  // The first has been heard of last now: the second has to go.
  clients[0]->send(get("/hello"));
  EXPECT_TRUE(clients[0]->receive_answer().ends_with("hello\n"));
  EXPECT_TRUE(serves());
  EXPECT_TRUE(clients[1]->is_closed_within(5s));
  clients[0]->send(get("/hello"));
  EXPECT_TRUE(clients[0]->receive_answer().ends_with("hello\n"));
}

TEST_F(EndpointTest, ClosesNoConnectionOnWhichARequestMayBegin) {
  start({.connections = 2, .begins = 1h}, true);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 2 + 32; ++i) clients.push_back(connect());
  for (const auto& each : clients) {
    each->send(get("/hello"));
    EXPECT_TRUE(each->receive_answer().ends_with("hello\n"));
  }
  EXPECT_TRUE(serves()) << "there is no more room, and the oldest goes";
  EXPECT_TRUE(clients[0]->is_closed_within(5s));
}

TEST_F(EndpointTest, ServesWhereManyRequestsAreIncomplete) {
  start({.connections = 2, .begins = 1h}, true);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(connect());
    clients.back()->send("G");
  }
  EXPECT_TRUE(serves());
  EXPECT_TRUE(clients[0]->is_closed_within(5s)) << "the oldest gives way";
}

TEST_F(EndpointTest, RefusesWhereAllConnectionsAreBusy) {
  start({.connections = 4, .request = 3s});
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 4; ++i) {  // with answers of which nobody reads the rest
    busy.push_back(connect(4096));
    busy.back()->send(get("/large"));
    EXPECT_EQ(busy.back()->receive_bytes(1), "H");
  }
  const std::string answer = connect()->receive_until("\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_NE(answer.find("X-Content-Type-Options: nosniff\r\n"), std::string::npos) << answer;
  const auto end = std::chrono::steady_clock::now() + 10s;
  while (!serves() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(serves());
}

TEST_F(EndpointTest, EndsWithClientsInEveryState) {
  start();
  const auto idle = connect();
  const auto writing = connect();
  writing->send("GET /hel");
  const auto deaf = connect(4096);
  deaf->send(get("/large"));
  EXPECT_TRUE(serves());
  TearDown();  // nothing leaks, nothing is used again (sanitizers)
  EXPECT_THROW((void)connect(), std::runtime_error);
}

/// The only socket of this process that listens.
int listening_socket() {
  for (int socket = 0; socket < 1024; ++socket) {
    int listens = 0;
    socklen_t size = sizeof listens;
    ::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    if (listens != 0) return socket;
  }
  return -1;
}

TEST(HttpServer, EndsInThePauseAfterAClientThatCouldNotBeAccepted) {
  boost::asio::io_context io;
  auto server = HttpServer::open(io, "127.0.0.1", 0, {});
  ASSERT_TRUE(server);
  io.poll();
  ::shutdown(listening_socket(), SHUT_RD);  // accept() fails from now on
  io.poll();
  server->reset();
  io.run_for(10s);
  EXPECT_TRUE(io.stopped()) << "it goes on trying";
}

TEST(HttpServer, SaysWhyItCannotListen) {
  boost::asio::io_context io;
  const auto one = HttpServer::open(io, "127.0.0.1", 0, {});
  ASSERT_TRUE(one);
  const std::string address = (*one)->address();
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(10)));
  EXPECT_EQ(HttpServer::open(io, "127.0.0.1", port, {}).error().text,
            address + ": Address already in use");
  EXPECT_EQ(HttpServer::open(io, "nonsense", 1, {}).error().text, "nonsense: not an IP address");
  EXPECT_EQ(HttpServer::open(io, "192.0.2.1", 1, {}).error().text,
            "192.0.2.1:1: Cannot assign requested address");
}

}  // namespace http_server_test
}  // namespace idproxy::admin
