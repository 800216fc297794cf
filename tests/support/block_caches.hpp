#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/ids/block_cache.hpp"
#include "support/fake_clock.hpp"

namespace idproxy::ids {

inline void PrintTo(const Range& range, std::ostream* out) {
  *out << range.first << "+" << range.count;
}

}  // namespace idproxy::ids

namespace idproxy::test {

using Ranges = std::vector<ids::Range>;

/// The answer to a request that waits for numbers.
struct Answer {
  std::optional<ids::Result<ids::Grant>> grant;
  int count = 0;

  /// Takes the numbers out of the grant.
  Ranges numbers() { return grant && *grant ? (*grant)->take() : Ranges(); }
  [[nodiscard]] std::optional<ids::Errc> error() const {
    if (!grant || *grant) return std::nullopt;
    return grant->error().code;
  }
};

class NotedWaiter final : public ids::Waiter {
 public:
  explicit NotedWaiter(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
  void answered(ids::Result<ids::Grant> grant) override {
    ++answer_->count;
    answer_->grant = std::move(grant);
  }

 private:
  std::shared_ptr<Answer> answer_;
};

/// A request in the queue.
struct Waiting {
  std::shared_ptr<Answer> answer = std::make_shared<Answer>();
  ids::Ticket ticket;
};

/// A cache with the test as its store. `value` is the counter document's value, the next number.
class BlockCaches {
 public:
  explicit BlockCaches(const ids::CounterSpec& spec, std::int64_t first = 1)
      : value(first),
        cache(std::make_shared<ids::BlockCache>(spec, clock, [this] { ++wakes; })),
        step_(spec.step) {}

  /// Takes numbers: one range in most tests. Keeps an error in `error`.
  Ranges take(std::uint64_t n) {
    Ranges out;
    const ids::Draw taken = cache->take(n, out);
    needs_store = taken.needs_store();
    error.reset();
    if (!taken && !needs_store) error = taken.error();
    return out;
  }
  Waiting ask(std::uint64_t n) {
    Waiting waiting;
    waiting.ticket = cache->ask(n, std::make_unique<NotedWaiter>(waiting.answer));
    return waiting;
  }

  /// Does the next job as a store would; false if there is none.
  bool work() {
    const auto job = cache->begin();
    if (job) do_job(*job);
    return job.has_value();
  }
  ids::BlockOutcome do_job(const ids::CounterJob& job) {
    using Reply = ids::CounterReply;
    jobs.push_back(job);
    if (job.kind == ids::CounterJob::Kind::give_back) {
      const auto count = static_cast<std::int64_t>(job.unused.count);
      const bool ours = job.unused.first + step_ * count == value;
      if (ours) value = job.unused.first;
      return cache->finish({ours ? Reply::Kind::given_back : Reply::Kind::overtaken});
    }
    if (job.kind == ids::CounterJob::Kind::confirm) {
      return cache->finish({Reply::Kind::stands, {value, 0}});
    }
    const std::int64_t first = value;
    value += step_ * static_cast<std::int64_t>(job.count);
    return cache->finish({Reply::Kind::allocated, {first, job.count}});
  }
  /// Answers the next job with `kind`; false if there is none.
  bool fail(ids::CounterReply::Kind kind = ids::CounterReply::Kind::failed) {
    const auto job = cache->begin();
    if (!job) return false;
    jobs.push_back(*job);
    cache->finish({kind, {}, "the reason"});
    return true;
  }

  FakeClock clock;
  std::int64_t value;
  int wakes = 0;
  std::vector<ids::CounterJob> jobs;
  bool needs_store = false;         // result of the last take()
  std::optional<ids::Error> error;  // error of the last take()
  std::shared_ptr<ids::BlockCache> cache;

 private:
  std::int64_t step_;
};

}  // namespace idproxy::test
