#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "certificates.hpp"
#include "process.hpp"
#include "server.hpp"
#include "stub_server.hpp"

namespace idproxy::bench {

/// What stands between the load and the stub server, in the order of the table's columns.
enum class TargetKind { haproxy, nginx, envoy, relay, idproxy };
inline constexpr std::array kTargetKinds{TargetKind::haproxy, TargetKind::nginx, TargetKind::envoy,
                                         TargetKind::relay, TargetKind::idproxy};

std::string_view name_of(TargetKind kind);

/// By kind: a program to measure; an empty path leaves its column out.
using Programs = std::array<std::string, kTargetKinds.size()>;

constexpr std::size_t index_of(TargetKind kind) {
  return static_cast<std::size_t>(kind);
}

/// A running program under test.
struct Target {
  std::string name;  ///< of its column
  std::uint16_t port;
  Child process;
};

inline constexpr std::size_t kMaxConnections = 4000;  ///< of each: tables are made for them

/// How a mongo-idproxy differs from the one that is measured beside other programs.
struct Variant {
  std::string name;
  std::string program{};  ///< empty: the launcher's
  int threads = 1;
  int rules = 0;  ///< further ones, of other collections, before those that apply
  std::size_t max_connections = kMaxConnections;
};

enum class ListensOn { port, unix_socket };

/// Starts programs under test, each with a configuration and a log in a temporary directory.
class Launcher {
 public:
  /// With `tls` all of them end it on the client's side and, with both `sides`, begin it on the
  /// server's, which they verify; only haproxy and mongo-idproxy can be started then, or if they
  /// listen on a Unix socket.
  Launcher(Programs programs, StubPorts stub, int core, std::optional<CertificateFiles> tls,
           TlsSides sides = TlsSides::both, ListensOn listens_on = ListensOn::port);
  ~Launcher();  ///< shows the logs if an exception is on its way
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  bool has(TargetKind kind) const { return !programs_[index_of(kind)].empty(); }

  /// Returns when it accepts connections. Throws std::runtime_error with the end of its log when it
  /// does not come up.
  Target start(TargetKind kind);
  Target start(const Variant& variant);
  Target start_haproxy(int threads);
  /// All that there are.
  std::vector<Target> start_all();

 private:
  std::vector<std::string> command(TargetKind kind, std::uint16_t port) const;
  Target start(std::string name, std::uint16_t port, std::vector<std::string> command);
  std::vector<std::string> haproxy_command(std::uint16_t port, int threads) const;
  std::string write_haproxy_config(std::uint16_t port, int threads) const;
  std::string write_nginx_config(std::uint16_t port) const;
  std::string write_envoy_config(std::uint16_t port) const;
  std::string write_idproxy_config(const Variant& variant, std::uint16_t port) const;

  Programs programs_;
  StubPorts stub_;
  int core_;
  std::optional<CertificateFiles> tls_;
  TlsSides sides_;
  ListensOn listens_on_;
  TemporaryDirectory directory_;
  std::vector<std::string> started_;
};

}  // namespace idproxy::bench
