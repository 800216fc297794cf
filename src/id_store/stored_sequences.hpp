#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "id_store/reports.hpp"
#include "id_store/scheduler.hpp"
#include "id_store/sequence_document.hpp"
#include "id_store/store_metrics.hpp"
#include "id_store/things.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/gapless_queue.hpp"

namespace idproxy::id_store {

/// The sequences without gaps of this process, each a task. Looks at a sequence when it is first
/// asked for, and every 2 s until that succeeds, so that not_ready() has the reason before the
/// first insert. Thread-safe.
class StoredSequences {
 public:
  /// The arguments must outlive it, the scheduler's threads must not.
  StoredSequences(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics,
                  Scheduler& scheduler);

  /// If a newer watch has another spec, the sequence begins anew: it looks what is stored.
  [[nodiscard]] std::shared_ptr<ids::GaplessQueue> sequence(const ids::GaplessSpec& spec,
                                                            std::uint64_t watch);
  void transaction_ended(const std::string& transaction, bool is_durable);

  /// The sequences that give no numbers now.
  [[nodiscard]] std::vector<NotReadyReport> not_ready() const;
  /// All sequences, with their next numbers.
  [[nodiscard]] std::vector<InUse> in_use() const;
  /// The writes that wait for their turn.
  [[nodiscard]] std::size_t waiting() const;

  /// Refuses requests from now on. The tasks keep the floors.
  void stop();

 private:
  struct Sequence : Thing<Sequence> {
    Sequence(StoredSequences& owner, const ids::GaplessSpec& spec);
    std::shared_ptr<ids::GaplessQueue> queue;
    std::weak_ptr<ids::GaplessQueue> lent;  // the same object; gone when nobody uses it
    // Of the task.
    SequenceDocument document;
    std::string reported;          // the reason that the log has
    bool is_beyond_width = false;  // the log has it
    // Under the lock.
    bool looked = false;
    bool is_refused = false;  // SequenceDocument::is_refused
    Scheduler::Task task;
  };
  using Shared = std::shared_ptr<Sequence>;

  [[nodiscard]] std::optional<Scheduler::Time> run(Sequence& sequence);
  [[nodiscard]] bool do_job(Sequence& sequence);

  const mongo::Pool& pool_;
  const Clock& clock_;
  StoreMetrics& metrics_;
  Scheduler& scheduler_;
  const std::shared_ptr<ids::TransactionSequences> transactions_ =
      std::make_shared<ids::TransactionSequences>();
  Things<Sequence, &Sequence::queue> sequences_;
};

}  // namespace idproxy::id_store
