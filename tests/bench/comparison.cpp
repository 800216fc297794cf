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
constexpr auto kSlice = 60ms;
constexpr auto kWarmUp = 10ms;
constexpr std::size_t kFewestRounds = 12;

/// Where the median of all possible rounds lies, in 99 of 100 cases.
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

struct Side {
  Meter meter;
  LoadGenerator load;
  std::vector<double> costs{};  ///< of an operation, by round

  double measure() {
    load.run(kWarmUp);
    const double before = meter.read();
    const auto operations = static_cast<double>(load.run(kSlice));
    costs.push_back((meter.read() - before) / operations);
    return costs.back();
  }
};

const char* verdict(const std::vector<double>& ratios, Interval interval) {
  if (interval.high <= kMost) return "no loss";
  if (median(ratios) > kMost && interval.low > 1) return "LOSS";
  return "not certain: no loss as far as can be seen";
}

class Comparison {
 public:
  explicit Comparison(const Options& options) : options_(options) { pin_process(0, {cores_.load}); }

  bool run() {
    std::vector<Work> chosen;
    for (const Work& work : works_) {
      const bool named = work.name.find(options_.only) != std::string::npos;
      if (options_.only.empty() ? work.quick : named) chosen.push_back(work);
    }
    if (chosen.empty()) throw std::runtime_error("no work has such a name");
    const bool instructions = Meter(before_.process).counts_instructions();
    std::printf("%s per operation                       before       now  ratio (99 %% interval)\n",
                instructions ? "thousand instructions" : "us of CPU time       ");
    bool good = true;
    for (const Work& work : chosen) good &= measure(work, options_.duration / chosen.size());
    std::printf("%s\n", require_clean(findings_).c_str());
    return good;
  }

 private:
  bool measure(const Work& work, Clock::duration duration) {
    const auto end = Clock::now() + duration;
    Side before{Meter(before_.process), LoadGenerator(before_.port, work, transport_, stub_)};
    Side now{Meter(now_.process), LoadGenerator(now_.port, work, transport_, stub_)};
    std::vector<double> ratios;
    Interval interval{};
    do {
      measure_round(before, now, ratios);
      interval = interval_of_median(ratios);
    } while (ratios.size() < kFewestRounds ||
             (interval.low <= kMost && interval.high > kMost && Clock::now() < end));
    const std::string_view found = verdict(ratios, interval);
    std::printf("  %-38s %14.2f %9.2f  %.3f (%.3f..%.3f) of %zu rounds  %s\n", work.name.c_str(),
                median(before.costs), median(now.costs), median(ratios), interval.low,
                interval.high, ratios.size(), found.data());
    std::fflush(stdout);
    return found != "LOSS";
  }

  /// Every second round runs backwards.
  static void measure_round(Side& before, Side& now, std::vector<double>& ratios) {
    const bool forth = ratios.size() % 2 == 0;
    (forth ? before : now).measure();
    (forth ? now : before).measure();
    ratios.push_back(now.costs.back() / before.costs.back());
  }

  const Options& options_;
  Cores cores_ = choose_cores();
  Transport transport_;
  std::vector<Work> works_ = make_works();
  Findings findings_;
  StubServer stub_{works_, transport_, findings_};
  Launcher launcher_{options_.programs, stub_.ports(), cores_.proxy, {}};
  Target before_ = launcher_.start(Variant{.name = "before", .program = options_.against});
  Target now_ = launcher_.start(Variant{.name = "now"});
};

}  // namespace

bool compare(const Options& options) {
  return Comparison(options).run();
}

}  // namespace idproxy::bench
