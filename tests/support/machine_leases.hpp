#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "idproxy/ids/machine_lease.hpp"
#include "support/block_caches.hpp"
#include "support/fake_clock.hpp"
#include "support/fake_store.hpp"

namespace idproxy::test {

/// The machine numbers of a lease, as servers have them, with a clock of their own.
struct MachineStore {
  struct Number {
    const void* owner = nullptr;
    std::chrono::nanoseconds expires{};
    std::int64_t ceiling = 0;
  };
  std::map<std::int32_t, Number> numbers;
  std::chrono::nanoseconds now{1};
  bool is_down = false;

  [[nodiscard]] ids::LeaseReply run(const void* owner, const ids::LeaseJob& job) {
    using Kind = ids::LeaseReply::Kind;
    if (is_down) return {Kind::failed, 0, 0, 0, {ids::Errc::unavailable, "down"}};
    if (job.kind == ids::LeaseJob::Kind::claim) return claim(owner, job);
    Number& its = numbers[job.number];
    if (its.owner != owner) {
      return {job.kind == ids::LeaseJob::Kind::renew ? Kind::gone : Kind::released};
    }
    if (job.kind == ids::LeaseJob::Kind::release) {
      its = {nullptr, now, job.ceiling};
      return {Kind::released};
    }
    its.expires = now + job.spec.ttl;
    its.ceiling = std::max(its.ceiling, job.ceiling);
    return {Kind::held, job.number, 0, its.ceiling};
  }

 private:
  [[nodiscard]] ids::LeaseReply claim(const void* owner, const ids::LeaseJob& job) {
    std::optional<std::int32_t> best;
    for (std::int32_t n = 0; n < job.spec.numbers; ++n) {
      const Number& its = numbers[n];
      const bool is_free = its.expires < now && its.ceiling <= job.most_ceiling;
      if (!is_free || !job.spec.may_have(n)) continue;
      if (!best || its.ceiling < numbers[*best].ceiling) best = n;
    }
    if (!best) {
      return {ids::LeaseReply::Kind::none, 0, 0, 0, {ids::Errc::unavailable, "all are held"}};
    }
    const std::int64_t floor = numbers[*best].ceiling;
    numbers[*best] = {owner, now + job.spec.ttl, std::max(floor, job.ceiling)};
    return {ids::LeaseReply::Kind::held, *best, floor, numbers[*best].ceiling};
  }
};

/// One process: a lease with the test as its task.
class LeaseHolder {
 public:
  LeaseHolder(MachineStore& store, const ids::LeaseSpec& spec, ids::Sources sources,
              std::shared_ptr<std::atomic<std::int64_t>> process_used =
                  std::make_shared<std::atomic<std::int64_t>>(0))
      : store_(store),
        lease(std::make_shared<ids::MachineLease>(
            spec, sources, [this] { ++woken; }, std::move(process_used))) {
    lease->announce();
    woken = 0;
  }

  /// Does what the store's task does; returns the number of jobs.
  int work() {
    int jobs = 0;
    while (const auto job = lease->begin()) {
      lease->finish(store_.run(lease.get(), *job));
      ++jobs;
    }
    return jobs;
  }
  [[nodiscard]] Waiting ask(const ids::SnowflakeLayout& layout, std::uint64_t n) const {
    Waiting waiting;
    waiting.ticket = lease->ask(layout, n, std::make_unique<NotedWaiter>(waiting.answer));
    return waiting;
  }

 private:
  MachineStore& store_;

 public:
  int woken = 0;
  std::shared_ptr<ids::MachineLease> lease;
};

/// A store with one lease, of which every rule gets a number at once.
class LeasingStore final : public FakeStore {
 public:
  std::shared_ptr<ids::MachineLease> lease(const ids::LeaseSpec& spec,
                                           const ids::CounterField& /*field*/,
                                           const ids::Sources& sources) override {
    holder.emplace(machines, spec, sources);
    holder->work();
    return holder->lease;
  }
  MachineStore machines;
  std::optional<LeaseHolder> holder;
};

}  // namespace idproxy::test
