#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/ids/check_digits.hpp"
#include "idproxy/ids/permutation.hpp"

namespace idproxy::ids {

/// How to write a number in a document.
struct NumberFormat {
  enum class Output { int64, int32, string };
  Output output = Output::int64;
  std::uint32_t pad = 0;                ///< string: minimum digits; zeros fill up
  std::string prefix;                   ///< string
  std::string suffix;                   ///< string
  std::string alphabet = "0123456789";  ///< string: the digits, the one for 0 first
  /// Writes the number's text in place of its digits; `alphabet` is that of the text. Null: none.
  SharedPermutation permutation{};

  Check check = Check::none;  ///< string: of all digits of the text, prefix and suffix included
  enum class Part { prefix, suffix };
  Part check_in = Part::suffix;  ///< where the check digits stand
  std::size_t check_at = 0;      ///< how many bytes of that part stand in front of them

  /// string: for texts whose prefix and suffix vary. A regular expression (PCRE) that they match,
  /// with one group: the number. Such a format reads stored texts, but writes none; `prefix` is
  /// what all of them begin with. Empty: prefix and suffix are always the same.
  std::string pattern{};
  friend bool operator==(const NumberFormat&, const NumberFormat&) = default;
};

/// A field that is filled from a counter.
struct CounterField {
  std::string ns;     ///< glob over "db.collection"
  std::string field;  ///< dotted path
  NumberFormat format;
  /// A BSON document {field: value, …}: the counter's numbers are in the documents that match it.
  /// Empty: in all.
  std::string scope{};
  /// True: equal values belong to several counters, and nothing in a document tells them apart. So
  /// stored values say nothing about this counter.
  bool repeats = false;
  Exceptions except{};  ///< of `ns`
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
  /// Field with the last number of a range (range_spec.hpp); empty: the counter is not a range.
  std::string max_field{};
  enum class KeyIs {
    text,
    document,  ///< `key` holds a BSON document
    /// No counter: a rule has several beside each other, by their documents. The store only checks
    /// whether it can keep counters there.
    family,
  };
  KeyIs key_is = KeyIs::text;
  /// The layout that mongoose-sequence has: {name_field: name, scope_field: null, value_field: V},
  /// and of a sequence {name_field: name, scope_field: {field: value, …}, value_field: V}, with a
  /// unique index on the two fields. Empty: any other layout.
  std::string name_field{};
  std::string scope_field{};
  /// "db.collection"
  [[nodiscard]] std::string ns() const { return db + "." + collection; }
  [[nodiscard]] bool is_range() const { return !max_field.empty(); }
  [[nodiscard]] bool is_family() const { return key_is == KeyIs::family; }
  [[nodiscard]] bool has_document_key() const { return key_is == KeyIs::document; }
  /// True for a sequence whose key is the document in `scope_field`, so that `filter` has its name.
  [[nodiscard]] bool is_scope() const { return !scope_field.empty() && key_field == scope_field; }
  friend bool operator==(const CounterPlace&, const CounterPlace&) = default;
};

/// A counter as its rule describes it (docs/strategies.md#counter).
struct CounterSpec {
  CounterPlace place;
  std::int64_t start = 1;
  std::int64_t step = 1;                                        ///< -65535..65535, not 0
  std::int64_t max = std::numeric_limits<std::int64_t>::max();  ///< step < 0: the lowest number
  Permutation::Seal seal{};  ///< empty: the numbers are not hidden
  struct Block {
    static constexpr std::uint32_t kMost = 10'000;
    /// Numbers that are fetched at once, 1..kMost. Nothing (`auto`): as many as were used in the
    /// last ten seconds.
    std::optional<std::uint32_t> size{};
    /// With a fixed size: fetches the next block when less than this part of one is left.
    double prefetch = 0.5;
    /// With a fixed size: gives back what is left after this time without demand.
    std::chrono::milliseconds idle{60'000};
    /// The most numbers in a block, except for a batch that needs more.
    [[nodiscard]] std::uint32_t most() const { return size.value_or(kMost); }
    friend bool operator==(const Block&, const Block&) = default;
  } block;
  struct Heal {
    enum class Mode { max, gap, off };
    Mode mode = Mode::max;
    std::uint32_t after = 2;
    std::int64_t max_jump = 1'000'000'000;
    bool at_start = false;
    std::string by{};  ///< of hidden numbers: the field with the time at which they were given
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

}  // namespace idproxy::ids
