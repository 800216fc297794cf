#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "id_store/collection_scans.hpp"
#include "id_store/number_texts.hpp"
#include "id_store/numbers.hpp"
#include "id_store/store_metrics.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/grant.hpp"

namespace idproxy::id_store {

/// Logs the events of one counter: each change once, not each attempt. Shows no values of documents
/// except the counter's numbers. One thread at a time.
class CounterEvents {
 public:
  explicit CounterEvents(const ids::CounterSpec& spec);

  /// "db.collection key"
  [[nodiscard]] const std::string& counter() const { return counter_; }

  /// `warning` says what is unusual; empty: nothing.
  void created(std::int64_t first, std::string_view warning) const;
  /// The counters' unique index is missing and cannot be made.
  void index_refused(const std::string& reason, const Commands& by_hand) const;
  void healed(std::int64_t first, std::string_view how) const;
  void went_backwards() const;
  /// Others have stored numbers of this process; it held `skipped` more of those.
  void numbers_taken(std::uint64_t skipped) const;
  /// Unused numbers that nobody will use: not empty.
  void numbers_lost(std::span<const ids::Range> numbers) const;
  void block_dropped(std::string_view reason) const;
  void jump_too_large(std::int64_t from, std::int64_t most) const;
  /// The counter gives no numbers: its max is reached, or it is refused for another reason.
  void gives_no_numbers(const ids::Error& why);
  void not_healed(const std::string& reason);
  /// The cause of the last exhausted() or not_healed() has gone, if there was one.
  void ready_again();
  /// Numbers have been allocated.
  void went_well(std::int64_t first, std::int64_t last, std::span<const ids::CounterField> fields);

 private:
  [[nodiscard]] bool is_news(const std::string& reason);
  void look_at_width(std::int64_t last, std::span<const ids::CounterField> fields);

  std::string counter_;
  std::int64_t start_;
  std::int64_t step_;
  bool is_range_;
  std::string reason_;  // the last logged reason; empty: the last allocation succeeded
  bool is_known_ = false;
  bool is_beyond_javascript_ = false;
  bool is_beyond_width_ = false;
};

/// A job under way.
struct CounterRun {
  const ids::CounterSpec& spec;
  const Numbers& numbers;
  mongo::Client& client;
  const ids::CounterJob& job;
  std::span<const ids::CounterField> fields;
  /// The numbers to allocate; fewer than the job's near int64's end.
  std::uint64_t count = job.count;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::string unreached{};    ///< why the last command reached no server; empty if it did
  bool met_by_check = false;  ///< the job failed in what a check does, too
  bool not_healed = false;    ///< CounterReply::Kind::not_healed
};

/// The counter has given out all its numbers.
[[nodiscard]] inline ids::Error at_max(const ids::CounterSpec& spec) {
  return ids::handed_out_up_to(spec.max);
}

/// What a heal does.
struct HealTarget {
  std::int64_t first;  ///< the first number that may be given out
  bool by_gap;         ///< numbers after `first` may be taken: look for free ones
  /// The counter need not move: these of the process's numbers are taken.
  std::optional<std::vector<ids::Range>> taken{};
};

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
  CounterDocument(ids::CounterSpec spec, StoreMetrics& metrics, CollectionScans& scans);

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
  [[nodiscard]] CounterEvents& events() { return events_; }

 private:
  using Run = CounterRun;
  /// The job's reply; nothing: try again.
  using Attempt = std::optional<ids::CounterReply>;
  struct Found {
    bool exists = false;
    StoredValue value;
    StoredValue last{};       ///< of a range: its last number
    bool lacks_seal = false;  ///< seal() must come before numbers are allocated
    [[nodiscard]] bool has_value() const {
      return exists && value.kind != StoredValue::Kind::missing;
    }
  };

  ids::CounterReply carry_out(Run& run);
  ids::CounterReply repeat(Run& run, Attempt (CounterDocument::*attempt)(Run&));
  Attempt allocate(Run& run);
  Attempt use(Run& run, Bytes pre_image);
  Attempt explain_no_match(Run& run);
  Attempt seal(Run& run, const Found& found);
  Attempt allocate_what_fits(Run& run, const mongo::Reply& reply);
  Attempt create(Run& run, bool exists);
  [[nodiscard]] mongo::Reply write_nothing(mongo::Client& client) const;
  ids::Result<Checked> check(Run& run, Demand demand);
  ids::Result<std::int64_t> check_existing(Run& run, const StoredValue& value);
  Attempt heal(Run& run);
  ids::Result<HealTarget> heal_target(Run& run, std::int64_t stands);
  Attempt raise(Run& run, std::int64_t stands, std::int64_t from);
  Attempt allocate_in_range(Run& run, std::optional<std::int64_t> from);
  Attempt use_in_range(Run& run, Bytes pre_image, std::optional<std::int64_t> from);
  Attempt explain_range(Run& run, const Found& found);
  Attempt fill_gap(Run& run, std::int64_t value, std::int64_t from);
  ids::CounterReply give_back(Run& run);
  ids::CounterReply confirm(Run& run) const;

  [[nodiscard]] ids::Result<Found> read(Run& run) const;
  struct NewCounter {
    std::int64_t first;
    std::string_view warning;  ///< empty: none
    bool by_scan = false;
    bool was_used = false;  ///< somebody had numbers of the counter, which has gone
  };
  [[nodiscard]] ids::Result<NewCounter> first_of_new(Run& run, bool exists);
  Attempt create_at(Run& run, bool exists, const NewCounter& created);
  [[nodiscard]] ids::Result<bool> was_given_out(Run& run, bool exists) const;
  [[nodiscard]] ids::Result<void> mark(Run& run);
  [[nodiscard]] ids::Result<NewCounter> first_free_of_new(FieldNumbers& stored, NewCounter created,
                                                          std::uint64_t count);
  [[nodiscard]] Attempt allocated(Run& run, std::int64_t first, std::uint64_t count);
  /// After a failed write: tries again if little time has passed, else fails the job.
  [[nodiscard]] Attempt after_failure(Run& run, const mongo::Reply& reply, bool gives_numbers);

  [[nodiscard]] ids::Error answer_to(Run& run, const mongo::Reply& reply) const;

  [[nodiscard]] mongo::Document query(const mongo::Document& value) const;
  /// findAndModify, if the counter's value meets the condition.
  template <class Update>
  [[nodiscard]] mongo::Reply change(mongo::Client& client, const mongo::Document& value,
                                    const Update& update) const {
    return client.write(
        spec_.place.db,
        {{"findAndModify", spec_.place.collection}, {"query", query(value)}, {"update", update}});
  }
  [[nodiscard]] mongo::Document bound(std::int64_t increment) const;
  [[nodiscard]] ids::Error not_an_integer() const;

  const ids::CounterSpec spec_;
  const Numbers numbers_;
  mongo::Document identity_;  // {key_field: key, …filter}
  StoreMetrics& metrics_;
  CollectionScans& scans_;
  CounterEvents events_;
  bool marked_ = false;      // certainly
  bool mark_first_ = false;  // it failed: before the next allocation
  bool converts_ = false;  // the last value was a double: the next allocation converts it to int64
  std::string unreached_;
  bool met_by_check_ = false;
  std::optional<std::int64_t>
      taken_up_to_;  // where a new counter's search for free numbers goes on
};

}  // namespace idproxy::id_store
