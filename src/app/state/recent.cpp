#include "app/state/recent.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace idproxy::app::state {
namespace {

using namespace std::chrono_literals;

constexpr auto kSecond = 1s;
constexpr auto kMarkEvery = 10s;
constexpr std::size_t kMarks = 7;  // the last minute
constexpr std::size_t kGiven = 6;  // the last five seconds

std::array<std::uint64_t, Recent::kGauges> gauges_of(const net::ServerStatistics& net,
                                                     const id_store::StoreStatistics& store) {
  std::array<std::uint64_t, Recent::kGauges> gauges{};
  for (const auto& server : net.listeners) gauges[Recent::in_flight] += server.in_flight;
  gauges[Recent::open_clients] = net.connections_open;
  gauges[Recent::waiting] =
      net.buffered_waiting + store.requests_waiting + store.reservations_waiting;
  gauges[Recent::held_bytes] = net.buffered_bytes;
  return gauges;
}

/// What came after `before`.
metrics::HistogramValues since(const metrics::HistogramValues& before,
                               const metrics::HistogramValues& now) {
  metrics::HistogramValues result = now;
  for (std::size_t i = 0; i < result.counts.size(); ++i) {
    result.counts[i] -= std::min(result.counts[i], before.counts[i]);
  }
  result.sum_seconds -= before.sum_seconds;
  return result;
}

}  // namespace

std::optional<double> quantile(const metrics::HistogramValues& values, double part) {
  const auto all = std::accumulate(values.counts.begin(), values.counts.end(), std::uint64_t{0});
  if (all == 0) return std::nullopt;
  double rank = part * static_cast<double>(all);
  double lower = 0;
  for (std::size_t i = 0; i < values.kBounds.size(); ++i) {
    const auto count = static_cast<double>(values.counts[i]);
    const double upper = values.kBounds[i];
    if (rank <= count && count > 0) return lower + (upper - lower) * rank / count;
    rank -= count;
    lower = upper;
  }
  return lower;  // longer than any bound
}

void Recent::sample(const net::ServerStatistics& net, const id_store::StoreStatistics& store,
                    const rewrite::RuleSet& rules, Time now) {
  using rewrite::RuleOutcomes;
  if (at_ && now - *at_ < kSecond) return;
  Totals totals;
  see(net, store);
  Second second{.gauges = std::exchange(seen_, {})};
  for (const auto& server : net.listeners) {
    totals.counts[requests] += static_cast<double>(server.requests);
    totals.counts[bytes] += static_cast<double>(server.bytes_sent + server.bytes_received);
    totals.reply_time += server.reply_time;
  }
  totals.counts[values] = static_cast<double>(rules.sum(&RuleOutcomes::assigned));
  totals.counts[duplicates] =
      static_cast<double>(rules.sum(&RuleOutcomes::resent) + rules.sum(&RuleOutcomes::given_up));
  totals.counts[store_round_trips] = static_cast<double>(store.round_trips);
  second.charts[clients] = static_cast<double>(net.connections_open);
  if (at_) {
    const double seconds = std::chrono::duration<double>(now - *at_).count();
    for (const Chart each : {requests, values, duplicates, bytes, store_round_trips}) {
      // A reload that forgets a rule, or a member that leaves, takes its counts along.
      second.charts[each] = std::max(0.0, totals.counts[each] - before_.counts[each]) / seconds;
    }
    const metrics::HistogramValues lately = since(before_.reply_time, totals.reply_time);
    second.charts[p50] = quantile(lately, 0.5);
    second.charts[p99] = quantile(lately, 0.99);
  }
  seconds_.push_back(second);
  if (seconds_.size() > kSeconds) seconds_.pop_front();
  before_ = totals;
  at_ = now;
  mark(net, now);
  Given given{.at = now};
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    given.values.push_back(rules.outcomes(i).assigned.load());
  }
  given_.push_back(std::move(given));
  if (given_.size() > kGiven) given_.pop_front();
}

void Recent::see(const net::ServerStatistics& net, const id_store::StoreStatistics& store) {
  const auto gauges = gauges_of(net, store);
  for (std::size_t i = 0; i < kGauges; ++i) {
    most_[i] = std::max(most_[i], gauges[i]);
    seen_[i] = std::max(seen_[i], gauges[i]);
  }
}

/// Begins a window every ten seconds.
void Recent::mark(const net::ServerStatistics& net, Time now) {
  if (!marks_.empty() && now - marks_.back().at < kMarkEvery) return;
  Mark next{.at = now};
  for (const auto& server : net.listeners) {
    next.reply_times[server.server] = server.reply_time;
  }
  marks_.push_back(std::move(next));
  if (marks_.size() > kMarks) marks_.pop_front();
}

std::vector<std::optional<double>> Recent::series(Chart chart) const {
  std::vector<std::optional<double>> series;
  series.reserve(seconds_.size());
  for (const Second& each : seconds_) series.push_back(each.charts[chart]);
  return series;
}

Peak Recent::peak(Gauge gauge) const {
  Peak peak{.most = most_[gauge], .most_lately = seen_[gauge]};
  for (const Second& each : seconds_) {
    peak.most_lately = std::max(peak.most_lately, each.gauges[gauge]);
  }
  return peak;
}

double Recent::values_per_second(std::size_t rule_index) const {
  if (given_.size() < 2) return 0;
  const Given& begin = given_.front();
  const Given& end = given_.back();
  if (rule_index >= begin.values.size() || rule_index >= end.values.size()) return 0;
  const std::uint64_t before = begin.values[rule_index];
  const double given =
      static_cast<double>(end.values[rule_index] - std::min(before, end.values[rule_index]));
  return given / std::chrono::duration<double>(end.at - begin.at).count();
}

std::optional<Recent::Quantiles> Recent::reply_time(const std::string& server) const {
  if (marks_.empty()) return std::nullopt;
  const auto end = marks_.back().reply_times.find(server);
  const auto begin = marks_.front().reply_times.find(server);
  if (end == marks_.back().reply_times.end()) return std::nullopt;
  const metrics::HistogramValues lately =
      begin == marks_.front().reply_times.end() ? end->second : since(begin->second, end->second);
  const auto half = quantile(lately, 0.5);
  if (!half) return std::nullopt;
  return Quantiles{*half, *quantile(lately, 0.99)};
}

}  // namespace idproxy::app::state
