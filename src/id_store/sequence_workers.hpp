#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "id_store/counter_workers.hpp"
#include "id_store/mongo.hpp"
#include "id_store/sequence_document.hpp"
#include "id_store/store_metrics.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/ids/gapless_queue.hpp"

namespace idproxy::id_store {

/// The sequences without gaps of this process and the threads that do their jobs. Looks at each
/// sequence when it is first asked for, and every 2 s until that succeeds, so that not_ready() has
/// the reason before the first insert. Thread-safe.
class SequenceWorkers {
 public:
  /// The arguments must outlive it. Threads start when there is work for them.
  SequenceWorkers(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics);
  SequenceWorkers(const SequenceWorkers&) = delete;
  SequenceWorkers& operator=(const SequenceWorkers&) = delete;
  /// Waits for the threads, as long as it takes.
  ~SequenceWorkers();

  /// `watch` identifies the watch that asks; newer ones are larger. If the spec of a newer watch
  /// differs from the one before, the sequence begins anew: it looks what is stored.
  [[nodiscard]] std::shared_ptr<ids::GaplessQueue> sequence(const ids::GaplessSpec& spec,
                                                            std::uint64_t watch);
  void transaction_ended(const std::string& transaction);
  /// Waits until every sequence has been looked at once, at most for `limit`.
  void await_looks(std::chrono::milliseconds limit);

  /// The sequences that give no numbers now.
  [[nodiscard]] std::vector<CounterWorkers::NotReady> not_ready() const;
  /// All sequences, with their next numbers.
  [[nodiscard]] std::vector<CounterWorkers::InUse> in_use() const;
  /// The writes that wait for their turn.
  [[nodiscard]] std::size_t waiting() const;

  /// Keeps the floors and ends the threads. False if a thread still runs after `limit`.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);

 private:
  struct Sequence {
    explicit Sequence(const ids::GaplessSpec& spec) : document(spec) {}
    std::shared_ptr<ids::GaplessQueue> queue;
    std::weak_ptr<ids::GaplessQueue> lent;  // the same object; gone when nobody uses it
    // Used only by the thread that set `running`.
    SequenceDocument document;
    std::string reported;          // the reason that the log has
    bool is_beyond_width = false;  // the log has it
    // Under the lock.
    std::uint64_t watch = 0;
    bool queued = false;
    bool running = false;
    bool woken_meanwhile = false;
    bool looked = false;
    bool is_refused = false;                      // SequenceDocument::is_refused
    std::optional<std::chrono::nanoseconds> due;  // the time in due_
  };
  using Shared = std::shared_ptr<Sequence>;

  void wake(const Shared& sequence);
  void run();
  bool do_job(Sequence& sequence);
  void report(Sequence& sequence, const ids::GaplessJob& job, const ids::GaplessReply& reply);
  static void look_at_width(Sequence& sequence, std::optional<std::int64_t> number);

  // Under the lock.
  [[nodiscard]] Shared make(const ids::GaplessSpec& spec);
  [[nodiscard]] static std::shared_ptr<ids::GaplessQueue> lend(Sequence& sequence);
  [[nodiscard]] static bool is_unused(const Sequence& sequence);
  void forget_if_unused(const Shared& sequence);
  void schedule(const Shared& sequence);
  void start_thread();
  void enqueue(const Shared& sequence);
  std::optional<std::chrono::nanoseconds> enqueue_due();
  [[nodiscard]] Shared next(std::unique_lock<std::mutex>& lock);
  void sweep();
  [[nodiscard]] std::vector<Shared> all() const;

  const mongo::Pool& pool_;
  const Clock& clock_;
  StoreMetrics& metrics_;
  const std::shared_ptr<ids::TransactionSequences> transactions_ =
      std::make_shared<ids::TransactionSequences>();

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  std::condition_variable looked_;
  std::map<std::string, Shared> sequences_;                               // by name
  std::multimap<std::chrono::nanoseconds, std::weak_ptr<Sequence>> due_;  // when to look for jobs
  std::size_t sweep_at_;
  std::deque<Shared> queue_;
  std::vector<std::thread> threads_;
  std::size_t running_ = 0;
  std::size_t idle_ = 0;  // threads that wait for work
  bool stopping_ = false;
};

}  // namespace idproxy::id_store
