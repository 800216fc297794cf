#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "report.hpp"
#include "stub_server.hpp"
#include "targets.hpp"
#include "transport.hpp"
#include "work.hpp"

namespace idproxy::bench {

/// In the order in which they were started.
using Targets = std::vector<const Target*>;

struct Effort {
  std::size_t rounds;
  std::chrono::milliseconds slice;  ///< of load on one target in one round
  std::size_t latency_operations;   ///< on one target in one round
};

/// Runs the same closed loop through each target in turn, round by round: CPU time in us that the
/// target used per operation.
std::vector<Column> measure_cpu(const Targets& targets, StubServer& stub, const Work& work,
                                const Transport& transport, const Effort& effort);

struct AddedLatency {
  std::vector<Column> p50_us;
  std::vector<Column> p99_us;
};

/// What a target adds to the latency of a direct connection measured in the same round, with one
/// connection. The caller has pinned all processes to one core.
AddedLatency measure_latency(const Targets& targets, std::uint16_t stub_port, const Work& work,
                             const Transport& transport, const Effort& effort);

struct MemoryUse {
  double at_start_mb;     ///< resident
  double per_idle_kib;    ///< anonymous, per connection, after one ping each
  double after_work_kib;  ///< the same when each has carried the largest request and reply
};

/// `target` must be freshly started.
MemoryUse measure_memory(const Target& target, const std::vector<Work>& works,
                         const Transport& transport, std::size_t connections);

}  // namespace idproxy::bench
