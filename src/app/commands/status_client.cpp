#include "app/commands/status_client.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/system/system_error.hpp>
#include <cstdint>
#include <future>
#include <iostream>
#include <utility>
#include <vector>

#include "app/apart.hpp"
#include "app/config_file.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/base/server_address.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::commands {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

using Fetched = boost::system::result<StatusDocument, FetchFailure>;

constexpr int kHttp11 = 11;
constexpr unsigned kMisdirected = 421;
constexpr const char* kStranger = "what answers there is no mongo-idproxy, or an older one";

/// What has gone wrong so far, if anything: the step is named in the failure.
struct Answer {
  std::string step = "connect";
  asio::ip::tcp::endpoint from{};
  std::optional<http::response<http::string_body>> response;
};

using Addresses = std::vector<asio::ip::tcp::endpoint>;

/// The addresses of a host, or why there is none.
boost::system::result<Addresses, std::string> look_up(const std::string& host, std::uint16_t port) {
  asio::io_context io;
  boost::system::error_code error;
  const auto found = asio::ip::tcp::resolver(io).resolve(host, std::to_string(port), error);
  if (error) return "look up: " + error.message();
  return Addresses(found.begin(), found.end());
}

/// The same, in time: the name service may be silent, and cannot be interrupted. Its thread is left
/// behind then.
boost::system::result<Addresses, std::string> find(const net::Endpoint& admin,
                                                   std::chrono::milliseconds limit) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(admin.host, error);
  if (!error) return Addresses{{address, admin.port}};
  auto found = ask_apart<boost::system::result<Addresses, std::string>>(
      [host = admin.host, port = admin.port] { return look_up(host, port); });
  if (found.wait_for(limit) == std::future_status::ready) return found.get();
  return "the name service has not told the address of " + admin.host + " within " +
         duration_text(limit);
}

/// Throws boost::system::system_error.
asio::awaitable<void> exchange(const net::Endpoint& admin, Addresses addresses, std::string target,
                               FetchLimits limits, Answer& answer) {
  auto executor = co_await asio::this_coro::executor;
  beast::tcp_stream stream(executor);
  stream.expires_after(limits.time);
  answer.from = co_await stream.async_connect(addresses, asio::use_awaitable);
  answer.step = "send";
  http::request<http::empty_body> request(http::verb::get, target, kHttp11);
  request.set(http::field::host, admin.text());
  request.set(http::field::connection, "close");
  co_await http::async_write(stream, request, asio::use_awaitable);
  answer.step = "read";
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(limits.body_bytes);
  co_await http::async_read(stream, buffer, parser, asio::use_awaitable);
  answer.response = parser.release();
}

std::string reason_of(const std::string& step, const boost::system::error_code& error,
                      FetchLimits limits) {
  if (error == beast::error::timeout) return "no answer within " + duration_text(limits.time);
  if (error == http::error::body_limit) {
    return "the answer is larger than " + size_text(static_cast<std::int64_t>(limits.body_bytes));
  }
  return step + ": " + error.message();
}

/// Runs the exchange to its end, or until the time is over. Returns the failure's reason, or "".
std::string run(const net::Endpoint& admin, const std::string& target, FetchLimits limits,
                Answer& answer) {
  if (target.find("rules=") != std::string::npos) limits.body_bytes *= 8;
  const auto until = std::chrono::steady_clock::now() + limits.time;
  auto addresses = find(admin, limits.time);
  if (!addresses) return addresses.error();
  const auto left = until - std::chrono::steady_clock::now();
  asio::io_context io(1);
  auto done = asio::co_spawn(io, exchange(admin, *std::move(addresses), target, limits, answer),
                             asio::use_future);
  if (io.run_for(left); !io.stopped()) {
    return reason_of(answer.step, beast::error::timeout, limits);
  }
  try {
    done.get();
  } catch (const boost::system::system_error& error) {
    return reason_of(answer.step, error.code(), limits);
  }
  return {};
}

Fetched failed(std::string reason) {
  return FetchFailure{std::move(reason)};
}

/// Parses a document that looks like a proxy's.
Fetched document_of(std::string text, const asio::ip::tcp::endpoint& from) {
  StatusDocument document{std::move(text), {}, from};
  boost::system::error_code error;
  document.value = boost::json::parse(document.text, error);
  if (error) return failed(std::string(kStranger) + " (JSON: " + error.message() + ")");
  if (document.view()["phase"].text().empty()) return failed(kStranger);
  return document;
}

bool is_ip(const std::string& host, bool (asio::ip::address::*is_such)() const) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host, error);
  return !error && (address.*is_such)();
}

/// An address that a listener has; a client needs another one for "all".
net::Endpoint reachable(net::Endpoint listen) {
  if (is_ip(listen.host, &asio::ip::address::is_unspecified)) {
    listen.host = is_ip(listen.host, &asio::ip::address::is_v6) ? "::1" : "127.0.0.1";
  }
  return listen;
}

ExitCode print_without_address(const std::string& file, const std::string& fault) {
  return end_with(ExitCode::config, file + ": " + fault);
}

}  // namespace

std::optional<net::Endpoint> read_admin_option(const std::string& text) {
  auto parts = split_host_port(text);
  if (!parts || parts->port == 0 || parts->host.empty()) return std::nullopt;
  if (!parts->bracketed && parts->host.find(':') != std::string::npos) return std::nullopt;
  return reachable({std::move(parts->host), parts->port, {}});
}

boost::system::result<net::Endpoint, ExitCode> find_admin(const AdminOptions& options) {
  if (!options.admin.empty()) {
    auto endpoint = read_admin_option(options.admin);
    if (endpoint) return *std::move(endpoint);
    return end_with(ExitCode::usage,
                    "--admin: must be HOST:PORT, as in 127.0.0.1:27216 or [::1]:27216, is '" +
                        shown(options.admin) + "'; see --help");
  }
  const auto opened = ConfigFile::open(options.file);
  if (!opened) return opened.error();
  const config::Config& config = opened->loaded.config;
  const std::vector<FileFinding>& findings = opened->loaded.findings;
  const bool has_fault = std::ranges::any_of(findings, [&](const FileFinding& finding) {
    return finding.severity == FileFinding::Severity::error &&
           (!config.admin || finding.key == "admin" || finding.key.starts_with("admin."));
  });
  if (has_fault) {
    opened->print_findings(std::cerr);
    return ExitCode::config;
  }
  if (!config.admin) {
    return print_without_address(
        options.file,
        "admin.listen is null, so that the proxy does not answer this command: set it, as in "
        "admin: {listen: \"127.0.0.1:27216\"}, and restart the proxy");
  }
  if (config.admin->port == 0) {
    return print_without_address(options.file,
                                 "admin.listen has port 0, any free one: the log says which "
                                 "(admin_listening); give --admin HOST:PORT");
  }
  return reachable(*config.admin);
}

Fetched fetch_status(const net::Endpoint& admin, std::string_view query, FetchLimits limits) {
  Answer answer;
  const std::string fault = run(admin, "/status.json" + std::string(query), limits, answer);
  if (!fault.empty()) return failed(fault);
  auto& response = *answer.response;
  if (response.result_int() == kMisdirected) {
    return failed("the proxy does not know itself by the name '" + admin.host +
                  "': add it to admin.hosts");
  }
  if (response.result() != http::status::ok) {
    return failed(std::string(kStranger) + " (HTTP " + std::to_string(response.result_int()) + ")");
  }
  return document_of(std::move(response.body()), answer.from);
}

int pid_of(const StatusDocument& document) {
  constexpr double kMost = 1 << 22;  // PID_MAX_LIMIT of Linux
  const double pid = document.view()["pid"].number().value_or(0);
  return pid >= 1 && pid <= kMost ? static_cast<int>(pid) : 0;
}

ExitCode print_no_answer(const net::Endpoint& admin, const FetchFailure& failure) {
  std::cerr << "mongo-idproxy: no answer from the proxy at " << admin.text() << ": "
            << printable(failure.reason) << "\nDoes it run? systemctl status mongo-idproxy\n";
  return ExitCode::unavailable;
}

}  // namespace idproxy::app::commands
