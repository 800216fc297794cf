#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "idproxy/base/bytes.hpp"

namespace idproxy::ids {

/// How to write a number in a document.
struct NumberFormat {
  enum class Output { int64, int32, string };
  Output output = Output::int64;
  std::uint32_t pad = 0;  ///< string: minimum digits; zeros fill up
  std::string prefix;     ///< string
  std::string suffix;     ///< string
  friend bool operator==(const NumberFormat&, const NumberFormat&) = default;
};

/// A field that is filled from a counter.
struct CounterField {
  std::string ns;     ///< glob over "db.collection"
  std::string field;  ///< dotted path
  NumberFormat format;
  friend bool operator==(const CounterField&, const CounterField&) = default;
};

/// Where a counter is stored, and the form of its document (docs/counters.md#layouts):
/// {key_field: key, <filter>, value_field: V}.
struct CounterPlace {
  enum class ValueIs {
    next,  ///< V is the next number to hand out
    last,  ///< V is the last number handed out
  };
  std::string db;
  std::string collection;
  std::string key_field = "_id";
  std::string key;
  std::string value_field;
  ValueIs value_is = ValueIs::next;
  std::string filter;      ///< BSON document: more fields that must match; empty: none
  std::string store_db{};  ///< the id store's database, in which no rule applies
  /// "db.collection"
  [[nodiscard]] std::string ns() const { return db + "." + collection; }
  friend bool operator==(const CounterPlace&, const CounterPlace&) = default;
};

/// A counter as its rule describes it (docs/strategies.md#counter).
struct CounterSpec {
  CounterPlace place;
  std::int64_t start = 1;
  std::int64_t step = 1;                                        ///< -65535..65535, not 0
  std::int64_t max = std::numeric_limits<std::int64_t>::max();  ///< step < 0: the lowest number
  struct Block {
    std::uint32_t size = 100;
    bool adaptive = false;
    std::uint32_t min = 1;
    std::uint32_t max = 10'000;
    std::chrono::milliseconds target{10'000};
    double prefetch = 0.5;
    bool give_back = true;
    std::chrono::milliseconds idle{60'000};
    friend bool operator==(const Block&, const Block&) = default;
  } block;
  struct Heal {
    enum class Mode { max, gap, off };
    Mode mode = Mode::max;
    std::uint32_t after = 2;
    std::int64_t max_jump = 1'000'000'000;
    bool at_start = false;
    friend bool operator==(const Heal&, const Heal&) = default;
  } heal;
  /// How long the store may read a collection without a usable index before it creates the counter;
  /// 0: not at all.
  std::chrono::milliseconds scan{60'000};
  struct OnStoreDown {
    enum class Action { fail, wait };
    Action action = Action::fail;
    std::chrono::milliseconds wait{1000};
    friend bool operator==(const OnStoreDown&, const OnStoreDown&) = default;
  } on_store_down;
  friend bool operator==(const CounterSpec&, const CounterSpec&) = default;
};

/// A rule's counter, and the field that the rule fills from it.
struct CounterUse {
  CounterSpec spec;
  CounterField field;
  /// True: each collection has a counter of its own, whose key is "<db>.<collection>.<field>"; in
  /// the spec's key and the field's ns, "<db>.<collection>" is then the rule's glob. False: the
  /// spec names one counter for all collections.
  bool per_namespace = false;
};

}  // namespace idproxy::ids
