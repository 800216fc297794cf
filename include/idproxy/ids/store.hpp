#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/error.hpp"

namespace idproxy::ids {

class BlockCache;
class Fill;
class FreeValues;
class GaplessQueue;
class Guard;
class IndexRoom;
class MachineLease;
class RangeSet;
class Reservations;
struct CounterSpec;
struct CounterField;
struct GaplessSpec;
struct LeaseSpec;
struct RangesSpec;
struct ReserveSpec;
struct Sources;

/// A rule's demand for a unique index on its field.
enum class UniqueIndex {
  warn,     ///< the log warns if there is none
  require,  ///< without an index, the rule is not ready
  create,   ///< the proxy creates a missing index
  offer,    ///< for a check: as `warn`, where the proxy itself would create the index
};

/// Whether a rule assigns values in one collection.
struct Readiness {
  enum class Kind {
    ready,
    left_alone,  ///< a view or a time-series collection: no rule applies
    not_ready,   ///< inserts that need a value get `error`
  };
  Kind kind = Kind::ready;
  Error error{};
  bool is_time_series = false;  ///< left_alone
  /// As long as somebody holds it, the store forgets nothing of the collection.
  std::shared_ptr<const void> watched{};
};

/// A collection in which a rule assigns no values now.
struct NotReady {
  std::size_t rule_index;  ///< in file order
  std::string ns;          ///< "db.collection"
  Readiness readiness;     ///< never Kind::ready
};

/// The collections that a command changes, or whose indexes it does.
struct CatalogChange {
  std::string db;          ///< empty: of all databases
  std::string collection;  ///< empty: all of the database
  [[nodiscard]] bool includes(std::string_view in_db, std::string_view name) const {
    return db.empty() || (db == in_db && (collection.empty() || collection == name));
  }
  friend bool operator==(const CatalogChange&, const CatalogChange&) = default;
};

/// The numbers that a counter has left, as far as this process knows: others may have got some
/// meanwhile.
struct CounterNumbers {
  std::optional<std::int64_t> next;   ///< the next to hand out; nothing: not known, or none is left
  std::uint64_t held;                 ///< in memory
  std::optional<std::uint64_t> left;  ///< from `next` to max; nothing: not known
  /// Of a rule with ranges: those that have numbers left, and all of them.
  struct Ranges {
    std::uint64_t live = 0;
    std::uint64_t all = 0;
    friend bool operator==(const Ranges&, const Ranges&) = default;
  };
  std::optional<Ranges> ranges{};
  /// The counter is not there yet, and creating it takes reading a whole collection: the first
  /// insert waits for that.
  bool reads_all = false;
  /// How many numbers there are from the first to max; of ranges, in all of them; 0: not known.
  std::uint64_t all = 0;
  /// Of a template whose numbers have a width.
  struct Width {
    std::uint64_t left;  ///< numbers of at most that many digits, from `next` on
    std::uint64_t all;   ///< the same from the first number on
    friend bool operator==(const Width&, const Width&) = default;
  };
  std::optional<Width> width{};
};

/// How much of a space of random numbers is in use.
struct SpaceUse {
  std::optional<std::uint64_t> documents;  ///< estimated; nothing: never counted
  double fill;                             ///< 0 to 1
  double max_fill;                         ///< above it, no number is given out
  double space = 0;                        ///< how many numbers there are
};

/// The machine number of a rule whose ids have one.
struct MachineNumber {
  std::string lease{};                   ///< empty: the rule's own, which nobody leases
  std::optional<std::int32_t> number{};  ///< nothing: none now
};

/// The numbers of a rule in one collection.
struct RuleNumbers {
  std::size_t rule_index;  ///< in file order
  /// "db.collection"; of what several collections have in common, the rule's `ns`
  std::string ns;
  std::variant<CounterNumbers, SpaceUse, MachineNumber> numbers;
  std::string sequence{};  ///< a counter of one of several sequences: which, as JSON; else empty
  std::string period{};    ///< of a rule with `reset`, as period_of(); else empty
};

/// The keys of each index: dotted fields.
using UniqueIndexes = std::vector<std::vector<std::string>>;

/// Counts since the start. Each number is exact; together they are not a snapshot.
struct StoreCounts {
  std::uint64_t round_trips = 0;        ///< commands sent for counters; each retry counts
  std::uint64_t blocks = 0;             ///< allocated and used
  std::uint64_t blocks_dropped = 0;     ///< possibly allocated, but never used
  std::uint64_t numbers_allocated = 0;  ///< in the blocks that were used
  std::uint64_t numbers_returned = 0;   ///< given back to the store
  std::uint64_t heals = 0;
};

/// The id store as strategies and rules use it. It runs elsewhere, with threads of its own; no call
/// here waits for it. Objects that it returns may outlive it. Thread-safe.
class Store {
 public:
  using Version = std::atomic<std::uint64_t>;

  virtual ~Store() = default;

  /// The numbers that this process holds of one counter document. Every caller that names this
  /// document gets the same object, through whichever Store of the process. `field` is one more
  /// field that is filled from the counter: creating or healing the counter takes the numbers in
  /// that field into account.
  virtual std::shared_ptr<BlockCache> counter(const CounterSpec& spec,
                                              const CounterField& field) = 0;
  /// The same, for a rule's own counter, before any of its collections is used: the store checks at
  /// once whether the counter can give numbers. If it cannot, not_ready() has the reason.
  virtual std::shared_ptr<BlockCache> announce(const CounterSpec& spec, const CounterField& field) {
    return counter(spec, field);
  }
  /// The ranges of a rule, which the store looks at, and makes if they are missing, from the first
  /// call on. Every caller that names this collection gets the same object, through whichever Store
  /// of the process, until the spec changes. `field` as in counter(). Null: this store has none.
  virtual std::shared_ptr<RangeSet> ranges(const RangesSpec& /*spec*/,
                                           const CounterField& /*field*/,
                                           const Sources& /*sources*/) {
    return nullptr;
  }
  /// A sequence without gaps. Every caller that names it gets the same object as long as its spec
  /// does not change, through whichever Store of the process. From the first call on, the store
  /// finds out which number is next. Null if the store has no sequences.
  virtual std::shared_ptr<GaplessQueue> sequence(const GaplessSpec& /*spec*/) { return nullptr; }
  /// The machine number of this process. Every caller that names the lease gets the same object,
  /// through whichever Store of the process. From the first call on, the store claims a number,
  /// until nobody holds the object any more. `field`: one that rules fill with ids that have it.
  /// Null: the store has none.
  virtual std::shared_ptr<MachineLease> lease(const LeaseSpec& /*spec*/,
                                              const CounterField& /*field*/,
                                              const Sources& /*sources*/) {
    return nullptr;
  }
  /// The proxy collection of a rule. Every caller that names it gets the same object as long as its
  /// spec does not change, through whichever Store of the process. From the first call on, the
  /// store checks whether values can be reserved, and deletes orphans. Null if the store reserves
  /// nothing.
  virtual std::shared_ptr<Reservations> reservations(const ReserveSpec& /*spec*/) {
    return nullptr;
  }
  /// A client's transaction has ended, or perhaps. `transaction` as for TurnTaker. `is_durable`: it
  /// has been committed, and no failover undoes that.
  virtual void transaction_ended(const std::string& /*transaction*/, bool /*is_durable*/) {}
  /// How full a rule's space of random numbers is in one collection. `ns`: "db.collection".
  virtual std::shared_ptr<Fill> fill(std::string_view ns, std::string_view field) = 0;
  /// Looks up which values of that space are free. Null: the store does not.
  virtual std::shared_ptr<FreeValues> free_values(std::string_view /*ns*/,
                                                  std::string_view /*field*/) {
    return nullptr;
  }

  /// Returns whether the rule is ready in this collection, as far as is known now and apart from
  /// its guard. From the first call on, the store checks the collection. `rule_index`: in file
  /// order.
  virtual Readiness readiness(std::size_t rule_index, std::string_view db,
                              std::string_view collection) = 0;
  /// The guard of a rule that demands a unique index in this collection; null: it demands none. The
  /// store looks at the collection when a write asks, and every minute.
  virtual std::shared_ptr<Guard> guard(std::size_t /*rule_index*/, std::string_view /*db*/,
                                       std::string_view /*collection*/) {
    return nullptr;
  }
  /// A client's command that makes this change is about to be sent. The store forgets what it knows
  /// of these collections, and looks at them again once the returned object has been destroyed. The
  /// caller must destroy it when the command has been answered.
  [[nodiscard]] virtual std::shared_ptr<void> change(const CatalogChange& /*change*/) {
    return nullptr;
  }
  /// The server has refused a client's createIndexes because of other indexes, which may be those
  /// that the store has made: makes room for it once it is asked. `indexes`: the array in the
  /// command. Null: the store makes no indexes.
  [[nodiscard]] virtual std::shared_ptr<IndexRoom> index_room(const CatalogChange& /*in*/,
                                                              Bytes /*indexes*/) {
    return nullptr;
  }
  /// The unique indexes of a collection, without that on `_id`, as the last inspection has found
  /// them; nothing: there was none, and the store looks soon. `ns`: "db.collection".
  [[nodiscard]] virtual std::optional<UniqueIndexes> unique_indexes(std::string_view /*ns*/) {
    return std::nullopt;
  }
  /// A number that changes whenever an answer of readiness() may have changed. A reference, because
  /// every insert reads it; valid as long as the store.
  [[nodiscard]] virtual const Version& version() const = 0;

  /// For logs and status: the collections in which rules assign no values, as far as is known now,
  /// including spaces of random numbers that are full and counters that are exhausted (for a
  /// counter of several collections, the rule's `ns`); at most `most_per_rule` collections of each
  /// rule. Collections that a rule names literally are known from the start, and are also listed if
  /// they are left alone; collections that match a wildcard are known after the first call of
  /// readiness() for them. While the store is down, only announced counters that hold no numbers
  /// are listed.
  [[nodiscard]] virtual std::vector<NotReady> not_ready(std::size_t most_per_rule) const = 0;
  /// For status and metrics: the numbers of counters and spaces of random numbers that rules use,
  /// at most `most_per_rule` collections of each rule.
  [[nodiscard]] virtual std::vector<RuleNumbers> numbers(std::size_t most_per_rule) const = 0;
  [[nodiscard]] virtual StoreCounts counts() const = 0;
};

}  // namespace idproxy::ids
