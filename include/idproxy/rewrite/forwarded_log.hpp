#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "idproxy/rewrite/forward_reason.hpp"

namespace idproxy::rewrite {

/// When the log says that upserts pass without a value of one rule: once an hour for each namespace
/// and reason. Thread-safe.
class ForwardedLog {
 public:
  static constexpr std::chrono::hours kEvery{1};
  /// A client can name any number of namespaces. Those beyond share one line for each reason.
  static constexpr std::size_t kMostLines = 1000;

  /// Event: `upserts` more have passed. Returns how many have since the last line, if the log
  /// should have a line now. `ns`: "db.collection"; `now` is monotonic.
  [[nodiscard]] std::optional<std::uint64_t> add(std::string_view ns, ForwardReason reason,
                                                 std::uint64_t upserts,
                                                 std::chrono::nanoseconds now);

 private:
  struct Line {
    std::optional<std::chrono::nanoseconds> logged{};
    std::uint64_t upserts = 0;  // since then
  };
  using Key = std::pair<std::string, ForwardReason>;

  Line& line(std::string_view ns, ForwardReason reason, std::chrono::nanoseconds now);

  std::mutex mutex_;  // guards lines_
  std::map<Key, Line> lines_;
};

}  // namespace idproxy::rewrite
