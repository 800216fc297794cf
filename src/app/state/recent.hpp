#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "idproxy/id_store/store_statistics.hpp"
#include "idproxy/metrics/metrics.hpp"
#include "idproxy/net/server_statistics.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app::state {

/// How high a figure has been since the start, and in the last ten minutes. Sampled once a second.
struct Peak {
  std::uint64_t most = 0;
  std::uint64_t most_lately = 0;
};

/// The last ten minutes of the proxy, second by second, for charts. One thread. Times are
/// monotonic.
class Recent {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr std::size_t kSeconds = 600;

  /// What is charted: rates per second, but for `clients` (a number) and p50 and p99 (seconds, from
  /// a request to its reply).
  enum Chart : std::size_t {
    requests,
    values,
    duplicates,
    clients,
    p50,
    p99,
    bytes,
    store_round_trips
  };
  static constexpr std::array<const char*, 8> kNames{
      "requests", "values", "duplicates", "clients", "p50", "p99", "bytes", "store_round_trips"};
  enum Gauge : std::size_t { open_clients, in_flight, waiting, held_bytes };
  static constexpr std::size_t kGauges = 4;

  /// Takes a sample, unless the last one is younger than a second.
  void sample(const net::ServerStatistics& net, const id_store::StoreStatistics& store,
              const rewrite::RuleSet& rules, Time now);

  /// Event: from now on there are other rules.
  void forget_rules() { given_.clear(); }
  /// Has seen these gauges now, between samples: what was the most once stays so.
  void see(const net::ServerStatistics& net, const id_store::StoreStatistics& store);

  /// The oldest first, kSeconds at most; nothing where there was nothing to measure.
  [[nodiscard]] std::vector<std::optional<double>> series(Chart chart) const;
  [[nodiscard]] Peak peak(Gauge gauge) const;
  /// The values that a rule gave per second in the last five seconds.
  [[nodiscard]] double values_per_second(std::size_t rule_index) const;
  /// How long the server took lately to answer; nothing: nobody asked it.
  struct Quantiles {
    double p50;
    double p99;
  };
  [[nodiscard]] std::optional<Quantiles> reply_time(const std::string& server) const;

 private:
  struct Second {
    std::array<std::optional<double>, kNames.size()> charts{};
    std::array<std::uint64_t, kGauges> gauges{};
  };
  /// Counts since the start.
  struct Totals {
    std::array<double, kNames.size()> counts{};  // by Chart, of those that are rates
    metrics::HistogramValues reply_time{};
  };
  /// What the windows below begin with.
  struct Mark {
    Time at{};
    std::unordered_map<std::string, metrics::HistogramValues> reply_times{};
  };
  struct Given {
    Time at{};
    std::vector<std::uint64_t> values{};  // by rule
  };
  void mark(const net::ServerStatistics& net, Time now);

  std::deque<Second> seconds_;
  std::array<std::uint64_t, kGauges> most_{};
  std::array<std::uint64_t, kGauges> seen_{};  // since the last sample, the most
  Totals before_;
  std::optional<Time> at_;
  std::deque<Mark> marks_;   // of the last minute
  std::deque<Given> given_;  // of the last five seconds
};

/// The duration that `part` (0 to 1) of the observations do not exceed, interpolated within its
/// bucket, in seconds; nothing if there is none.
[[nodiscard]] std::optional<double> quantile(const metrics::HistogramValues& values, double part);

}  // namespace idproxy::app::state
