// What a counter costs, loses and disorders with many proxies and many inserts: the proxies' own
// code in simulated time. Prints the table of docs/counters.md#many-proxies.

#include "support/counter_simulation.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace {

using idproxy::test::CounterSimulation;
using idproxy::test::Simulation;
using idproxy::test::SimulationResult;
using namespace std::chrono_literals;

// By then blocks have their size.
constexpr std::chrono::seconds kWarmUp{20};

/// Enough inserts for a slow rate, and not too many for a high one.
std::chrono::seconds duration_for(double rate) {
  if (rate >= 1e6) return kWarmUp + 10s;
  return kWarmUp + (rate <= 1 ? 1000s : 100s);
}

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string per_second(std::uint64_t count, std::chrono::seconds duration) {
  const double rate = static_cast<double>(count) / static_cast<double>(duration.count());
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), rate < 10 ? "%.1f" : "%.0f", rate);
  return text.data();
}

std::string share(std::uint64_t part, std::uint64_t whole) {
  std::array<char, 32> text{};
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  std::snprintf(text.data(), text.size(), percent < 10 ? "%.1f %%" : "%.0f %%", percent);
  return text.data();
}

std::string seconds(std::chrono::milliseconds late) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(late.count()) / 1000);
  return text.data();
}

void print_row(std::size_t proxies, double rate) {
  Simulation options;
  options.proxies = proxies;
  options.inserts_per_second = rate;
  options.warm_up = kWarmUp;
  options.duration = duration_for(rate);
  const std::chrono::seconds counted = options.duration - options.warm_up;
  const SimulationResult steady = CounterSimulation(options).run();
  // Each tenth proxy is killed once, and each tenth stopped and started, at least one.
  options.kills = options.restarts = std::max<std::size_t>(proxies / 10, 1);
  const SimulationResult shaken = CounterSimulation(options).run();
  std::printf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", grouped(proxies).c_str(),
              grouped(static_cast<std::uint64_t>(rate)).c_str(),
              per_second(steady.writes, counted).c_str(), per_second(steady.reads, counted).c_str(),
              share(steady.missing, steady.used).c_str(),
              grouped(shaken.killed / options.kills).c_str(), seconds(steady.p99_late).c_str(),
              grouped(static_cast<std::uint64_t>(steady.most_behind)).c_str());
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::printf(
      "| Proxies | Inserts/s | Writes/s | Reads/s | Gaps | Lost per crash | Late, p99 | Most "
      "behind "
      "|\n|---|---|---|---|---|---|---|---|\n");
  constexpr std::array<std::size_t, 5> kProxies{1, 10, 100, 1000, 10'000};
  constexpr std::array<double, 4> kRates{1, 100, 10'000, 1e6};
  for (const std::size_t proxies : kProxies) {
    for (const double rate : kRates) print_row(proxies, rate);
  }
  return 0;
}
