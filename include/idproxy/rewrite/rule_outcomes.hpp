#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "idproxy/ids/error.hpp"

namespace idproxy::rewrite {

/// Why an upsert, or another command that stores documents, goes to the server without a value of a
/// rule (docs/duplicates.md#upserts, #writes-past-the-rules).
enum class ForwardReason : std::uint8_t {
  configured,               ///< the rule says `upserts: forward`
  replacement,              ///< a replacement, in which only the client can put `_id`
  replacement_loses_field,  ///< a replacement without the field: a matching document loses its own
  empty_update,             ///< {}, which mongod takes for a replacement
  filter_names_field,       ///< the filter names the field, a part of its path or something below
  update_names_field,       ///< the update does so
  pipeline_replaces,        ///< a pipeline with a stage that can remove the value again
  filter_fixes_id,  ///< a pipeline whose filter names `_id`: it cannot tell an insert from a match
  /// The value depends on fields of the document (scope, template) that the upsert does not fix.
  depends_on_document,
  reserved,              ///< the value must be reserved for a document whose `_id` is known
  too_large,             ///< the statement is so large that a value might make it exceed the limit
  unknown_form,          ///< a form that the proxy does not know
  merge,                 ///< no upsert: an aggregation with $merge, which the server writes itself
  out,                   ///< the same with $out
  apply_ops,             ///< no upsert: an insert within applyOps
  time_series,           ///< no upsert: an insert into a time-series collection
  filter_repeats_field,  ///< a replacement whose filter may name a field twice
};
inline constexpr std::size_t kForwardReasons =
    static_cast<std::size_t>(ForwardReason::filter_repeats_field) + 1;

/// The reason as metrics, status and log spell it, such as "filter_names_field".
[[nodiscard]] std::string_view name_of(ForwardReason reason);
/// The remedy, as half a sentence for the log and for errors. `field`: the rule's.
[[nodiscard]] std::string_view way_out_of(ForwardReason reason, std::string_view field);

/// Why an update goes to the server although it takes away a stored value of a rule, or sets
/// another one (docs/keep.md).
enum class LossReason : std::uint8_t {
  off,            ///< a replacement without the field, and the rule says `keep: off`
  server_time,    ///< the replacement has a Timestamp(0, 0), for which the server puts its time
  dollar_name,    ///< the replacement has a name that begins with $
  repeated_name,  ///< the replacement has a name twice
  array_filters,  ///< the statement has arrayFilters, or constants
  other_form,     ///< the replacement has no document where the field's path goes on
  filter_names_field,    ///< an upsert beside other statements, whose filter names the field
  filter_repeats_field,  ///< an upsert beside other statements, whose filter may name one twice
  too_deep,
  too_large,
  encrypted,     ///< the driver encrypts fields of the collection (Queryable Encryption)
  unset,         ///< $unset
  sets,          ///< $set or another operator sets a value, perhaps the same
  sets_missing,  ///< the update sets null, or what the rule calls missing
  renames,       ///< $rename
  pipeline,      ///< a pipeline that can change the field
  unknown_form,  ///< a form that the proxy does not know
};
inline constexpr std::size_t kLossReasons = static_cast<std::size_t>(LossReason::unknown_form) + 1;

/// As for ForwardReason.
[[nodiscard]] std::string_view name_of(LossReason reason);
[[nodiscard]] std::string_view way_out_of(LossReason reason);

/// When the log has a line about something that may happen often: once in a while for each thing
/// and kind, with the number of events since the last one. Thread-safe.
class RareLines {
 public:
  /// A client can name any number of things. Those beyond share one line for each kind.
  static constexpr std::size_t kMostLines = 1000;

  explicit RareLines(std::chrono::nanoseconds every) : every_(every) {}

  /// Event: it has happened `events` more times. Returns how often it has since the last line, if
  /// the log should have a line now. `kind` has static lifetime; `now` is monotonic.
  [[nodiscard]] std::optional<std::uint64_t> add(std::string_view thing, std::string_view kind,
                                                 std::uint64_t events,
                                                 std::chrono::nanoseconds now);

 private:
  struct Line {
    std::optional<std::chrono::nanoseconds> logged{};
    std::uint64_t events = 0;  // since then
  };
  using Key = std::pair<std::string, std::string_view>;

  Line& line(std::string_view thing, std::string_view kind, std::chrono::nanoseconds now);

  const std::chrono::nanoseconds every_;
  std::mutex mutex_;  // guards lines_
  std::map<Key, Line> lines_;
};

/// The writes of one rule that the proxy has refused, until somebody takes them. Thread-safe.
class RefusedWrites {
 public:
  /// A client can name any number of collections. Those beyond count as of "".
  static constexpr std::size_t kMost = 1000;
  struct Key {
    std::string ns;
    std::string reason;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Refused {
    std::uint64_t writes = 0;
    std::shared_ptr<const ids::NumberHolder> holder{};  ///< of the last one; null: no transaction
  };
  using All = std::map<Key, Refused>;

  void add(Key key, std::shared_ptr<const ids::NumberHolder> holder);
  /// Those since the last call.
  [[nodiscard]] All take();

 private:
  std::mutex mutex_;  // guards refused_
  All refused_;
};

/// The requests that wait for a value of one rule, or for their turn. Thread-safe.
class WaitingRequests {
 public:
  /// One of them, until it is destroyed. The WaitingRequests must outlive it.
  class Place {
   public:
    Place(WaitingRequests& all, std::chrono::nanoseconds since);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

   private:
    WaitingRequests& all_;
    std::multiset<std::chrono::nanoseconds>::iterator at_;
  };
  struct Summary {
    std::size_t number = 0;
    std::chrono::nanoseconds oldest{};  ///< since when that waits; monotonic. 0: none does
  };
  [[nodiscard]] Summary summary() const;

 private:
  mutable std::mutex mutex_;  // guards since_
  std::multiset<std::chrono::nanoseconds> since_;
};

/// A counter to which every thread adds all the time: each in a cell of its own, so that no cache
/// line goes from one processor to another. Thread-safe.
class SpreadCounter {
 public:
  void operator+=(std::uint64_t n) { cells_[own()].count.fetch_add(n, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t load() const {
    std::uint64_t sum = 0;
    for (const Cell& cell : cells_) sum += cell.count.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  // More threads share them.
  static constexpr std::size_t kCells = 8;
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> count{0};
  };

  [[nodiscard]] static std::size_t own() {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t mine = threads.fetch_add(1, std::memory_order_relaxed) % kCells;
    return mine;
  }

  std::array<Cell, kCells> cells_{};
};

/// Counts what happened to one rule's values since the start. Thread-safe. Each counter is exact;
/// together they are not a snapshot.
struct RuleOutcomes {
  using Counter = std::atomic<std::uint64_t>;
  SpreadCounter assigned;  ///< values sent in documents and upserts
  Counter resent{0};       ///< re-sends of documents with a fresh value
  Counter cured{0};        ///< documents stored thanks to a fresh value
  Counter given_up{0};     ///< duplicates of the rule's values that clients got
  Counter foreign{0};      ///< duplicates on other keys, in documents with a value of the rule
  Counter transient{0};    ///< transactions that clients were told to run again
  Counter surfaced{0};     ///< duplicates of the rule's values, in transactions, that clients got
  Counter unacknowledged{0};  ///< values in documents of unacknowledged writes (w: 0)
  Counter handed_out{0};      ///< values given to applications that asked for them
  Counter refused{0};         ///< writes that the proxy itself has answered with an error
  Counter not_permitted{0};   ///< writes of clients that may not write there, as the server says
  std::atomic<std::int64_t> last_assigned{0};        ///< when; monotonic, in ns; 0: never
  std::array<Counter, kForwardReasons> forwarded{};  ///< upserts without a value, by ForwardReason
  RareLines forwarded_log{std::chrono::hours(1)};    ///< by namespace and reason
  std::array<Counter, kLossReasons> taken_away{};    ///< updates, by LossReason
  RareLines taken_away_log{std::chrono::hours(1)};   ///< by namespace and reason
  RareLines not_permitted_log{std::chrono::minutes(1)};  ///< by user and namespace
  RefusedWrites refusals;                                ///< of `refused`, for the log
  WaitingRequests waiting;
  /// True once the log has said that all documents of an insert had an _id from their driver.
  std::atomic<bool> driver_made_logged{false};
  /// True once the log has said that a document was sent with a zero that the rule leaves.
  std::atomic<bool> zero_logged{false};
  /// True once the log has said that a server left out documents without a word.
  std::atomic<bool> lost_logged{false};

  /// Event: that many values go to the server for the first time. `now` is monotonic.
  void sent(std::size_t values, bool acknowledged, std::chrono::nanoseconds now) {
    if (values == 0) return;
    assigned += values;
    // Nobody looks more closely, and other threads need not read it anew for each write.
    constexpr std::chrono::nanoseconds kExact = std::chrono::milliseconds(1);
    const std::int64_t last = last_assigned.load(std::memory_order_relaxed);
    if (last == 0 || now.count() - last >= kExact.count()) {
      last_assigned.store(now.count(), std::memory_order_relaxed);
    }
    if (!acknowledged) unacknowledged += values;
  }

  /// Event: the proxy refuses a write into `ns`.
  void refuse(std::string ns, std::string reason,
              std::shared_ptr<const ids::NumberHolder> holder = nullptr) {
    ++refused;
    refusals.add({std::move(ns), std::move(reason)}, std::move(holder));
  }

  /// Event: a value of this rule has aborted a transaction. True if the client may be told to run
  /// it again; false if that has happened `most` times in a row, the first of them at most kRow
  /// ago, so that running it again seems useless. `now` is monotonic.
  [[nodiscard]] bool may_run_again(std::chrono::nanoseconds now, std::uint32_t most);
  /// Event: an insert with a value of this rule has succeeded inside a transaction, which ends the
  /// row.
  void went_well() {
    if (aborts_.load(std::memory_order_relaxed) != 0) aborts_ = 0;
  }
  [[nodiscard]] bool in_a_row() const { return aborts_.load(std::memory_order_relaxed) != 0; }

  static constexpr std::chrono::seconds kRow{10};

 private:
  // Not updated together: racing threads may count one abort more or less.
  std::atomic<std::uint32_t> aborts_{0};
  std::atomic<std::int64_t> first_abort_{0};
};

}  // namespace idproxy::rewrite
