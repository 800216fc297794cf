#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "id_store/collection_scans.hpp"
#include "id_store/counter_events.hpp"
#include "id_store/counter_run.hpp"
#include "id_store/store_metrics.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::id_store {

/// Carries out the jobs of one counter (docs/strategies.md#counter):
///
///   allocate   findAndModify {query: {_id: key, V: {$type: numbers, $lte: max}},
///                             update: {$inc: {V: step * n}}, w: majority}
///   create     insert {_id: key, V: first}, then allocate; once per object, mark
///   mark       update {q: {_id: place}, u: {$setOnInsert: …}, upsert: true, w: majority}
///   heal       findAndModify {…, update: [{$set: {V: {$add: [{$max: [{$toLong: V}, M]}, …]}}}]}
///   gap        findAndModify {query: {_id: key, V: v}, update: {$set: {V: behind the free ones}}}
///   give back  findAndModify {query: {_id: key, V: end}, update: {$set: {V: first unused}}}
///   confirm    findAndModify {query: {_id: key, V: {$type: numbers}}, update: {$inc: {V: 0}}}
///
/// A range (CounterPlace::is_range) is not created here, and allocates and heals by
///
///   findAndModify {query: {_id: key, V: …, $expr: {$lte: [V, MAX]}},
///                  update: [{$set: {V: {$min: [{$add: [V, n]}, {$add: [MAX, 1]}]}}}]}
///
/// One thread at a time.
class CounterDocument {
 public:
  /// `metrics` and `scans` outlive it.
  CounterDocument(ids::CounterSpec spec, StoreMetrics& metrics, CollectionScans& scans)
      : counter_{std::move(spec), metrics, scans} {}

  /// `fields`: all fields that this counter fills.
  [[nodiscard]] ids::CounterReply run(mongo::Client& client, const ids::CounterJob& job,
                                      std::span<const ids::CounterField> fields);
  /// Checks whether the store can do jobs: sends a write that matches no document.
  void probe(mongo::Client& client);
  enum class Demand { none, waits };
  struct Checked {
    /// The number that the job would get first, unless others get it before; nothing: finding it
    /// takes a scan, and this process makes none.
    std::optional<std::int64_t> first{};
    /// There is no counter, and creating it takes a scan.
    bool reads_all = false;
  };
  /// Checks whether run() could do the job (allocate or heal), without doing it: the store's user
  /// may write, and the counter exists or its first number can be found. If somebody waits for
  /// numbers, creates a missing counter. The error is what run() would reply.
  [[nodiscard]] ids::Result<Checked> check(mongo::Client& client,
                                           std::span<const ids::CounterField> fields,
                                           const ids::CounterJob& job, Demand demand);
  /// False if the last job, probe() or check() reached no server.
  [[nodiscard]] bool reached() const { return unreached_.empty(); }
  /// Why not, in the words of libmongoc or the server; for the log, not for clients.
  [[nodiscard]] const std::string& unreached() const { return unreached_; }
  /// True if the last run() failed before it wrote, in what check() does as well.
  [[nodiscard]] bool met_by_check() const { return met_by_check_; }
  [[nodiscard]] CounterEvents& events() { return counter_.events; }

 private:
  CounterState counter_;
  std::string unreached_;
  bool met_by_check_ = false;
};

}  // namespace idproxy::id_store
