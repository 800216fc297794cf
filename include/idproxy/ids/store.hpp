#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/ids/error.hpp"

namespace idproxy::ids {

class BlockCache;
class Fill;
struct CounterSpec;
struct CounterField;

/// What a rule wants of the unique index that guards its field.
enum class UniqueIndex {
  warn,     ///< the log says that there is none
  require,  ///< without one the rule is not ready
  create,   ///< made where there is none
};

/// Whether a rule gives values in one collection.
struct Readiness {
  enum class Kind {
    ready,
    left_alone,  ///< a view or a time-series collection: no rule applies
    not_ready,   ///< what needs a value is answered with `error`
  };
  Kind kind = Kind::ready;
  Error error{};
};

/// A collection in which a rule gives no values now.
struct NotReady {
  std::size_t rule_index;  ///< in file order
  std::string ns;          ///< "db.collection"
  Readiness readiness;     ///< never ready
};

/// What a store has done since the start; each number is exact, together they are no snapshot.
struct StoreCounts {
  std::uint64_t round_trips = 0;        ///< commands sent for counters
  std::uint64_t blocks = 0;             ///< allocated, and used
  std::uint64_t blocks_dropped = 0;     ///< allocated, perhaps, and never used
  std::uint64_t numbers_allocated = 0;  ///< in those that were used
  std::uint64_t numbers_returned = 0;   ///< given back to the store
  std::uint64_t heals = 0;
};

/// What strategies and rules need of the id store, which is elsewhere and has threads of its own:
/// nothing here waits for it. Thread-safe. What it hands out can be kept longer than it.
class Store {
 public:
  virtual ~Store() = default;

  /// The values of one counter document that this process holds; one object for all who name that
  /// document, through whichever Store of the process. `field` is one more field that is filled
  /// from it: what it holds counts when the counter is created or healed.
  virtual std::shared_ptr<BlockCache> counter(const CounterSpec& spec,
                                              const CounterField& field) = 0;
  /// How full the space of a rule of random numbers is in one collection. `ns`: "db.collection".
  virtual std::shared_ptr<Fill> fill(std::string_view ns, std::string_view field) = 0;

  /// As far as it is known at this moment. Asking makes the collection one that is looked at.
  /// `rule_index`: in file order.
  virtual Readiness readiness(std::size_t rule_index, std::string_view db,
                              std::string_view collection) = 0;
  /// Another number than before once an answer of readiness() may have changed.
  [[nodiscard]] virtual std::uint64_t version() const = 0;

  /// For people: where rules give no values, as far as it is known at this moment, spaces of random
  /// numbers that are full, and counters that are exhausted (of one that serves several
  /// collections, the rule's `ns`); of each rule at most so many collections. What a rule names
  /// literally is known from the start, and listed too if it is left alone; what wildcards match,
  /// once readiness() has been asked about it. That the store does not answer is not seen here.
  [[nodiscard]] virtual std::vector<NotReady> not_ready(std::size_t most_per_rule) const = 0;
  [[nodiscard]] virtual StoreCounts counts() const = 0;
};

}  // namespace idproxy::ids
