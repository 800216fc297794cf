#include "support/counter_simulation.hpp"

#include <gtest/gtest.h>

#include <cstddef>

// Many proxies on one counter, in simulated time; tests/bench/counter_simulation.cpp prints more.
namespace idproxy::ids {
namespace counter_simulation_test {

using namespace std::chrono_literals;
using test::Simulation;
using test::SimulationResult;

SimulationResult run(const Simulation& options) {
  return test::CounterSimulation(options).run();
}

/// What holds whatever the number of proxies and inserts.
void check(const Simulation& options, const SimulationResult& result) {
  EXPECT_EQ(result.twice, 0U);
  EXPECT_EQ(result.missing, result.passed + result.killed);
  EXPECT_FALSE(result.held_more_than_two);
  EXPECT_FALSE(result.believed_to_be_back);
  EXPECT_LE(result.largest_block, CounterSpec::Block::kMost);
  EXPECT_LE(result.most_late, 2 * RefillPace::kBlockLasts);
  EXPECT_LE(result.reads, options.proxies * (static_cast<std::size_t>(options.duration / 10s) + 1));
}

TEST(CounterSimulation, OneProxyLeavesNoGapAndKeepsTheOrder) {
  for (const double rate : {0.1, 1.0, 20.0, 200.0}) {
    SCOPED_TRACE(rate);
    Simulation options;
    options.inserts_per_second = rate;
    const SimulationResult result = run(options);
    check(options, result);
    EXPECT_EQ(result.missing, 0U);
    EXPECT_EQ(result.most_behind, 0);
    // It doubles up to the block that lasts ten seconds, then takes six a minute.
    EXPECT_LE(result.writes, 16U + 2 * 6);
    EXPECT_LE(result.reads, 6U);
  }
}

TEST(CounterSimulation, AQuietCounterOfManyProxiesHasHardlyAnyGaps) {
  Simulation options;
  options.proxies = 20;
  options.duration = 600s;
  const SimulationResult result = run(options);
  check(options, result);
  EXPECT_GT(result.used, 400U);
  EXPECT_LE(result.missing * 10, result.used);
  EXPECT_LE(result.writes, 2 * result.used);
  EXPECT_LE(result.p99_late, 20s);
}

TEST(CounterSimulation, ABusyCounterTakesHardlyAnyRoundTrips) {
  for (const std::size_t proxies : {std::size_t{1}, std::size_t{3}, std::size_t{50}}) {
    SCOPED_TRACE(proxies);
    Simulation options;
    options.proxies = proxies;
    options.inserts_per_second = 500;
    options.duration = 30s;
    const SimulationResult result = run(options);
    check(options, result);
    // Up to the first full block, and then as many as last.
    EXPECT_LE(result.writes, proxies * (16 + 12));
    EXPECT_LE(result.waited * 20, result.used);
    EXPECT_LE(result.missing * 20, result.used);
  }
}

TEST(CounterSimulation, BlocksOfAFixedSize) {
  Simulation options;
  options.block.size = 100;
  options.inserts_per_second = 200;
  const SimulationResult result = run(options);
  check(options, result);
  EXPECT_EQ(result.largest_block, 100U);
  EXPECT_LE(result.writes, result.used / 100 + 2);
  EXPECT_EQ(result.missing, 0U);
}

TEST(CounterSimulation, KilledProxiesLoseTwoBlocksAtMost) {
  Simulation options;
  options.proxies = 5;
  options.inserts_per_second = 50;
  options.duration = 200s;
  options.kills = 20;
  options.restarts = 20;
  const SimulationResult result = run(options);
  check(options, result);
  EXPECT_GT(result.killed, 0U);
  EXPECT_LE(result.killed, options.kills * 2 * result.largest_block);
}

}  // namespace counter_simulation_test
}  // namespace idproxy::ids
