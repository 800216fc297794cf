#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/rule_source.hpp"

namespace idproxy::id_store {

/// A counter of some rules, as the servers have it; or a sequence without gaps, whose document has
/// the floor, the highest number that a proxy is known to have stored.
struct StoredCounter {
  std::string key;        ///< as people read it: text, or JSON
  ids::CounterSpec spec;  ///< of a range: `start` and `max` are its first and its last number
  std::vector<ids::CounterField> fields;  ///< all that it fills
  std::vector<std::string> rules;         ///< "shop.*, number", in file order
  std::string document{};                 ///< BSON, as last read; empty: it does not exist yet
  StoredValue value{};                    ///< in the document
  /// The next number, perhaps beyond max; nothing: the document does not say, or int64 ends there.
  std::optional<std::int64_t> next{};
  std::uint64_t left = 0;  ///< how many numbers there are from `next` to max
  /// Why nobody can tell which documents have its numbers; empty: the fields do.
  std::string unreadable{};
  bool is_gapless = false;
  bool is_past = false;  ///< of another period than now, for a rule with `reset`

  [[nodiscard]] bool exists() const { return !document.empty(); }
  [[nodiscard]] std::string ns() const { return spec.place.ns(); }
};

/// The numbers in the documents that a counter serves.
struct StoredNumbers {
  std::optional<std::int64_t> most{};  ///< the one furthest ahead; nothing: there is none
  bool is_guarded = false;             ///< a unique index refuses a number that is given out twice
  std::string unknown{};               ///< why `most` is not known, for people; empty: it is
};

/// The numbers of all ranges in one collection.
struct AllRanges;

/// Reads and sets counters beside the proxies that use them. Blocks. One thread at a time.
class StoredCounters {
 public:
  /// `options` and `clock` as for Store. The error of each function: what went wrong, for people,
  /// in `reason`.
  StoredCounters(const Options& options, const Clock& clock);
  ~StoredCounters();

  /// The counters and sequences without gaps of rules, in file order; of a rule for which documents
  /// or the date choose one, or with wildcards, those that exist. Of ranges all. Other rules are
  /// left out.
  [[nodiscard]] ids::Result<std::vector<StoredCounter>> find(
      std::span<const ids::RuleSource::About* const> rules);
  /// Reads through indexes only; which collections and indexes there are, of all ranges once.
  [[nodiscard]] ids::Result<StoredNumbers> read(const StoredCounter& counter);
  /// The same. A sequence without gaps goes on behind what is stored: sets its next number.
  [[nodiscard]] ids::Result<StoredNumbers> look_at(StoredCounter& counter);
  /// Sets a counter that exists, so that it gives out `next` next, unless it has changed since it
  /// was read: then reads it again, and returns false. Waits for a majority.
  [[nodiscard]] ids::Result<bool> set_next(StoredCounter& counter, std::int64_t next);

 private:
  struct Found {
    std::vector<StoredCounter> all;
    std::unordered_map<std::string, std::size_t> by_document;

    void add(StoredCounter counter, const ids::RuleSource::About& rule);
  };
  [[nodiscard]] ids::Result<void> find(const ids::RuleSource::About& rule, Found& found);
  [[nodiscard]] ids::Result<void> find_ranges(const ids::RuleSource::About& rule, Found& found);
  [[nodiscard]] ids::Error failure(const mongo::Reply& reply, const std::string& db) const;

  const Clock& clock_;
  const std::string uri_key_;
  const mongo::Pool pool_;
  mongo::Client client_;
  std::map<std::string, AllRanges> ranges_;  // by their collection, once found
};

}  // namespace idproxy::id_store
