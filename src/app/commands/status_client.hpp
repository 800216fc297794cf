#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/json/value.hpp>
#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "app/json_view.hpp"
#include "idproxy/app/command_line.hpp"
#include "idproxy/net/options.hpp"

/// Asks a running proxy for /status.json.
namespace idproxy::app::commands {

/// Which running proxy a command asks.
struct AdminOptions {
  std::string file{};   ///< the configuration, for its admin.listen
  std::string admin{};  ///< "HOST:PORT" in place of that; empty: not given
};

/// Bounds on what is asked of whatever listens at admin.listen.
struct FetchLimits {
  std::chrono::milliseconds time{5000};  ///< from the look-up of the name to the last byte
  std::size_t body_bytes = std::size_t{8}
                           << 20;  ///< eight times that where all rules are asked for
};

/// Why there is no document: "connect: Connection refused".
struct FetchFailure {
  std::string reason;
};

/// A proxy's state, as it has sent it.
struct StatusDocument {
  std::string text;
  boost::json::value value;
  boost::asio::ip::tcp::endpoint from{};  ///< who was asked
  [[nodiscard]] JsonView view() const { return JsonView(value); }
};

/// "HOST:PORT" or "[ADDRESS]:PORT"; of anything else nothing.
[[nodiscard]] std::optional<net::Endpoint> read_admin_option(const std::string& text);

/// Where the proxy of this command answers: what --admin says, else admin.listen of the
/// configuration, whose other keys may have errors. Prints why there is no address, and returns the
/// exit code.
[[nodiscard]] boost::system::result<net::Endpoint, ExitCode> find_admin(
    const AdminOptions& options);

/// `query`: "" or "?name=value", percent-encoded. Waits; one connection per call.
[[nodiscard]] boost::system::result<StatusDocument, FetchFailure> fetch_status(
    const net::Endpoint& admin, std::string_view query = {}, FetchLimits limits = {});

/// The process that has sent it; 0: it does not say.
[[nodiscard]] int pid_of(const StatusDocument& document);

/// Prints that the proxy at `admin` does not answer, and how to see whether it runs. Returns the
/// exit code.
ExitCode print_no_answer(const net::Endpoint& admin, const FetchFailure& failure);

}  // namespace idproxy::app::commands
