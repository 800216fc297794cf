#include "comparison.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "load_generator.hpp"
#include "meter.hpp"
#include "process.hpp"
#include "report.hpp"
#include "stub_server.hpp"
#include "work.hpp"

namespace idproxy::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono_literals::operator""ms;

constexpr double kMost = 1.05;
constexpr auto kSlice = 40ms;
constexpr auto kWarmUp = 10ms;
constexpr std::size_t kFewestPasses = 10;

/// Where the median of all possible passes lies, in 99 of 100 cases.
struct Interval {
  double low;
  double high;
};

/// By the ranks of the values, so that it does not matter how they are distributed.
Interval interval_of_median(std::vector<double> values) {
  std::ranges::sort(values);
  const auto count = static_cast<double>(values.size());
  constexpr double kDeviations = 2.58;
  const double rank = std::floor((count - kDeviations * std::sqrt(count)) / 2);
  const auto low = static_cast<std::size_t>(std::max(rank, 0.0));
  return {values[low], values[values.size() - 1 - low]};
}

/// One program under one load.
class Side {
 public:
  Side(const Target& target, const Work& work, const Transport& transport, StubServer& stub)
      : meter_(target.process), load_(target.port, work, transport, stub) {}

  void measure() {
    load_.run(kWarmUp);
    const double before = meter_.read();
    operations_ += static_cast<double>(load_.run(kSlice));
    used_ += meter_.read() - before;
  }
  double cost() const { return used_ / operations_; }

 private:
  Meter meter_;
  LoadGenerator load_;
  double used_ = 0;
  double operations_ = 0;
};

/// What is known of one work: costs of an operation, pass by pass.
struct Costs {
  explicit Costs(const Work& measured) : work(measured) {}

  const Work& work;
  std::vector<double> before{};
  std::vector<double> now{};
  std::vector<double> ratios{};

  bool decided() const {
    if (ratios.size() < kFewestPasses) return false;
    const Interval interval = interval_of_median(ratios);
    return interval.high <= kMost || interval.low > kMost;
  }
  bool loss() const { return median(ratios) > kMost && interval_of_median(ratios).low > 1; }
};

class Comparison {
 public:
  explicit Comparison(const Options& options) : options_(options) {
    pin_process(0, {cores_.load});
    for (const Work& work : works_) {
      const bool named = work.name.find(options_.only) != std::string::npos;
      if (options_.only.empty() ? work.quick : named) costs_.emplace_back(work);
    }
    if (costs_.empty()) throw std::runtime_error("no work has such a name");
  }

  bool run() {
    const auto end = Clock::now() + options_.duration;
    const auto open = [](const Costs& costs) { return !costs.decided(); };
    while (std::ranges::any_of(costs_, open) && (passes_ < kFewestPasses || Clock::now() < end)) {
      measure_pass();
    }
    for (const Costs& costs : costs_) print_line(costs);
    std::printf("%s\n", require_clean(findings_).c_str());
    return std::ranges::none_of(costs_, &Costs::loss);
  }

 private:
  /// Of processes that were started for it: two of the same program can differ by some per cent, by
  /// where their memory happens to lie.
  void measure_pass() {
    const Variant old{.name = "before", .program = options_.against};
    const Variant ours{.name = "now"};
    const bool forth = passes_++ % 2 == 0;
    const Target first = launcher_.start(forth ? old : ours);
    const Target second = launcher_.start(forth ? ours : old);
    const Target& before = forth ? first : second;
    const Target& now = forth ? second : first;
    if (passes_ == 1) print_head(Meter(now.process));
    for (Costs& costs : costs_) {
      if (!costs.decided()) measure(before, now, costs);
    }
  }

  void measure(const Target& before, const Target& now, Costs& costs) {
    Side old(before, costs.work, transport_, stub_);
    Side ours(now, costs.work, transport_, stub_);
    for (Side* side : {&old, &ours, &ours, &old}) side->measure();
    costs.before.push_back(old.cost());
    costs.now.push_back(ours.cost());
    costs.ratios.push_back(ours.cost() / old.cost());
  }

  static void print_head(const Meter& meter) {
    std::printf("%-40s %12s %12s  ratio (99 %% interval)\n",
                meter.counts_instructions() ? "thousand instructions per operation"
                                            : "us of CPU time per operation",
                "before", "now");
  }

  static void print_line(const Costs& costs) {
    const Interval interval = interval_of_median(costs.ratios);
    const char* verdict = costs.loss()             ? "LOSS"
                          : interval.high <= kMost ? "no loss"
                                                   : "no loss as far as can be seen";
    std::printf("%-40s %12.2f %12.2f  %.3f (%.3f–%.3f) of %zu passes: %s\n",
                costs.work.name.c_str(), median(costs.before), median(costs.now),
                median(costs.ratios), interval.low, interval.high, costs.ratios.size(), verdict);
  }

  const Options& options_;
  Cores cores_ = choose_cores();
  Transport transport_;
  std::vector<Work> works_ = make_works();
  Findings findings_;
  StubServer stub_{works_, transport_, findings_};
  Launcher launcher_{options_.programs, stub_.ports(), cores_.proxy, {}};
  std::vector<Costs> costs_;
  std::size_t passes_ = 0;
};

}  // namespace

bool compare(const Options& options) {
  return Comparison(options).run();
}

}  // namespace idproxy::bench
