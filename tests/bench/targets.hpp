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
enum class TargetKind { haproxy, relay, idproxy };
inline constexpr std::size_t kTargetKinds = 3;

constexpr std::size_t column_of(TargetKind kind) {
  return static_cast<std::size_t>(kind);
}
std::string_view name_of(TargetKind kind);

/// A program to measure; an empty path leaves its column out.
using Programs = std::array<std::string, kTargetKinds>;

/// A running program under test.
struct Target {
  TargetKind kind;
  std::uint16_t port;
  Child process;
};

/// Starts programs under test, each with a configuration and a log in a temporary directory.
class Launcher {
 public:
  /// With `tls` all of them end it on the client's side and begin it on the server's, which they
  /// verify.
  Launcher(Programs programs, StubPorts stub, int core, std::optional<CertificateFiles> tls);
  ~Launcher();  ///< shows the log of mongo-idproxy if an exception is on its way
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  bool has(TargetKind kind) const { return !programs_[column_of(kind)].empty(); }

  /// Returns when it accepts connections. Throws std::runtime_error with the end of its log when it
  /// does not come up.
  Target start(TargetKind kind) const;
  std::vector<Target> start_all() const;

 private:
  std::vector<std::string> command(TargetKind kind, std::uint16_t port) const;
  std::string write_haproxy_config(std::uint16_t port) const;
  std::string write_idproxy_config(std::uint16_t port) const;
  std::string file(TargetKind kind, std::string_view extension) const;

  Programs programs_;
  StubPorts stub_;
  int core_;
  std::optional<CertificateFiles> tls_;
  TemporaryDirectory directory_;
};

}  // namespace idproxy::bench
