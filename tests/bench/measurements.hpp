#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stub_server.hpp"
#include "targets.hpp"
#include "transport.hpp"
#include "work.hpp"

namespace idproxy::bench {

/// One value per round. A column that is not measured is empty.
using Rounds = std::array<std::vector<double>, kTargetKinds>;

struct Effort {
  std::size_t rounds;
  std::chrono::milliseconds slice;  ///< of load on one target in one round
  std::size_t latency_operations;   ///< on one target in one round
};

struct CpuCost {
  Rounds target_us;   ///< used by the program under test per operation
  Rounds per_second;  ///< operations
};

/// Runs the same closed loop through each target in turn, round by round.
CpuCost measure_cpu(const std::vector<Target>& targets, StubServer& stub, const Work& work,
                    const Transport& transport, const Effort& effort);

struct AddedLatency {
  Rounds p50_us;
  Rounds p99_us;
};

/// What a target adds to the latency of a direct connection measured in the same round, with one
/// connection. The caller has pinned all processes to one core.
AddedLatency measure_latency(const std::vector<Target>& targets, std::uint16_t stub_port,
                             const Work& work, const Transport& transport, const Effort& effort);

struct MemoryUse {
  double at_start_mb;     ///< resident
  double per_idle_kib;    ///< anonymous, per connection, after one ping each
  double after_work_kib;  ///< the same when each has carried the largest request and reply
};

/// `target` must be freshly started.
MemoryUse measure_memory(const Target& target, const std::vector<Work>& works,
                         const Transport& transport, std::size_t connections);

}  // namespace idproxy::bench
