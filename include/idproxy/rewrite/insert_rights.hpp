#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace idproxy::rewrite {

/// Remembers for one client's connection into which namespaces its user may insert, so that
/// {idproxy: "next"} need not ask the server each time. Forgets all of them with each message that
/// may change the user. Times are monotonic. Not thread-safe.
class InsertRights {
 public:
  /// How long an answer of the server counts.
  static constexpr std::chrono::seconds kTrusted{60};
  /// How many namespaces are remembered: the last ones that the server was asked for.
  static constexpr std::size_t kMost = 16;

  [[nodiscard]] bool has(std::string_view ns, std::chrono::nanoseconds now) const;
  /// The server has said that the user may insert into `ns`.
  void add(std::string_view ns, std::chrono::nanoseconds now);
  /// The connection's user may have changed.
  void forget() { known_.reset(); }

 private:
  struct Known {
    std::string ns;
    std::chrono::nanoseconds until;
  };
  // In the order of `until`. Null on most connections, which never ask for a value.
  std::unique_ptr<std::vector<Known>> known_;
};

}  // namespace idproxy::rewrite
