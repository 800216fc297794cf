#include "measurements.hpp"

#include <algorithm>
#include <deque>
#include <string_view>
#include <thread>

#include "client.hpp"
#include "load_generator.hpp"

namespace idproxy::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;
using std::chrono_literals::operator""s;

/// A target that has been idle for a while starts with cold caches.
constexpr int kWarmUpFraction = 5;
constexpr std::size_t kWarmUpOperations = 200;

/// Time for a proxy to give back what it only kept for the moment.
constexpr auto kSettle = 2s;

/// Every second round runs backwards, so that no target always follows the same other one.
std::vector<std::size_t> order_of_round(std::size_t round, std::size_t count) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = round % 2 == 0 ? i : count - 1 - i;
  return order;
}

std::vector<Column> columns_of(const Targets& targets) {
  std::vector<Column> columns;
  for (const Target* target : targets) columns.push_back({target->name, {}});
  return columns;
}

double measure_slice(const Target& target, LoadGenerator& load, std::chrono::nanoseconds slice) {
  load.run(slice / kWarmUpFraction);
  const auto before = target.process.cpu_time();
  const auto operations = static_cast<double>(load.run(slice));
  return Microseconds(target.process.cpu_time() - before).count() / operations;
}

struct Percentiles {
  double p50_us;
  double p99_us;
};

Percentiles time_operations(Client& client, const Work& work, std::size_t count) {
  for (std::size_t i = 0; i < kWarmUpOperations; ++i) client.exchange(work);
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) {
    const auto start = Clock::now();
    client.exchange(work);
    times.push_back(Microseconds(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return {times[count / 2], times[count * 99 / 100]};
}

const Work& largest(const std::vector<Work>& works, std::string Work::* part) {
  return *std::max_element(works.begin(), works.end(), [&](const Work& a, const Work& b) {
    return (a.*part).size() < (b.*part).size();
  });
}

}  // namespace

std::vector<Column> measure_cpu(const Targets& targets, StubServer& stub, const Work& work,
                                const Transport& transport, const Effort& effort) {
  std::deque<LoadGenerator> loads;
  for (const Target* target : targets) loads.emplace_back(target->port, work, transport, stub);
  std::vector<Column> columns = columns_of(targets);
  for (std::size_t round = 0; round < effort.rounds; ++round) {
    for (const std::size_t i : order_of_round(round, targets.size())) {
      columns[i].rounds.push_back(measure_slice(*targets[i], loads[i], effort.slice));
    }
  }
  return columns;
}

AddedLatency measure_latency(const Targets& targets, std::uint16_t stub_port, const Work& work,
                             const Transport& transport, const Effort& effort) {
  Client direct(stub_port, transport);
  std::deque<Client> clients;
  for (const Target* target : targets) clients.emplace_back(target->port, transport);
  AddedLatency added{columns_of(targets), columns_of(targets)};
  for (std::size_t round = 0; round < effort.rounds; ++round) {
    const Percentiles base = time_operations(direct, work, effort.latency_operations);
    for (const std::size_t i : order_of_round(round, targets.size())) {
      const Percentiles through = time_operations(clients[i], work, effort.latency_operations);
      added.p50_us[i].rounds.push_back(through.p50_us - base.p50_us);
      added.p99_us[i].rounds.push_back(through.p99_us - base.p99_us);
    }
  }
  return added;
}

MemoryUse measure_memory(const Target& target, const std::vector<Work>& works,
                         const Transport& transport, std::size_t connections) {
  const Memory start = target.process.memory();
  std::deque<Client> clients;
  const auto growth_per_connection = [&] {
    std::this_thread::sleep_for(kSettle);
    const double grown = target.process.memory().anonymous_kib - start.anonymous_kib;
    return grown / static_cast<double>(connections);
  };
  for (std::size_t i = 0; i < connections; ++i) {
    clients.emplace_back(target.port, transport);
    clients.back().exchange(works.front());
  }
  const double per_idle_kib = growth_per_connection();
  for (Client& client : clients) {
    client.exchange(largest(works, &Work::request));
    client.exchange(largest(works, &Work::reply));
  }
  return {start.resident_kib / 1024, per_idle_kib, growth_per_connection()};
}

}  // namespace idproxy::bench
