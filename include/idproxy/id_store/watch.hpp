#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/glob.hpp"
#include "idproxy/base/typed_command.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/reservations.hpp"
#include "idproxy/ids/store.hpp"

namespace idproxy::id_store {

class Store;

/// The part of a rule that the id store needs for its checks of collections. It checks as much as
/// its user may.
struct WatchedRule {
  std::string ns;     ///< glob over "db.collection"
  std::string field;  ///< dotted path
  ids::UniqueIndex unique_index = ids::UniqueIndex::warn;
  bool counts_documents = false;  ///< to know how many of the random numbers are in use
  std::string space{};            ///< random numbers: any text that changes with their space
  bson::Type value_type = bson::Type::int64;  ///< of the rule's values
  /// Documents that differ in one of these fields may have equal values.
  std::vector<std::string> scope{};
  /// True if other documents may have equal values, too, because a field that the proxy does not
  /// know distinguishes them.
  bool repeats = false;
  /// The reservations of its values, if there are any. Then `unique_index: warn` gives no warning.
  std::optional<ids::ReserveSpec> reserve{};
  Exceptions except{};  ///< of `ns`
  [[nodiscard]] bool matches(std::string_view concrete_ns) const {
    return glob_matches(ns, except, concrete_ns);
  }
  friend bool operator==(const WatchedRule&, const WatchedRule&) = default;
};

inline constexpr const char* kNoUniqueIndex =
    "no unique index keeps a value from being stored twice";

/// A unique index that a rule's field lacks.
struct MissingIndex {
  std::string ns;     ///< of the first collection
  Commands commands;  ///< which make it
  /// Why an index that looks sufficient is not: "", or " (number_1 does not do: …)".
  std::string why_not;
  std::size_t collections = 1;  ///< that lack it
  friend bool operator==(const MissingIndex&, const MissingIndex&) = default;
};

/// The id store for one set of rules, made by Store::watch(). Must not be used after that Store is
/// destroyed. Any thread may drop the last reference, which never blocks. Thread-safe.
class Watch final : public ids::Store {
 public:
  ~Watch() override;

  /// Event: the rules have announced what they have. Until then a counter that rules share serves
  /// those of the watch before as well.
  void rules_are_made();
  /// Waits until the collections and the announced counters of the rules have been checked once or
  /// cannot be checked now, at most for `limit`.
  void await_first_inspection(std::chrono::milliseconds limit);

  std::shared_ptr<ids::BlockCache> counter(const ids::CounterSpec& spec,
                                           const ids::CounterField& field) override;
  std::shared_ptr<ids::BlockCache> announce(const ids::CounterSpec& spec,
                                            const ids::CounterField& field) override;
  std::shared_ptr<ids::RangeSet> ranges(const ids::RangesSpec& spec, const ids::CounterField& field,
                                        const ids::Sources& sources) override;
  std::shared_ptr<ids::GaplessQueue> sequence(const ids::GaplessSpec& spec) override;
  std::shared_ptr<ids::MachineLease> lease(const ids::LeaseSpec& spec,
                                           const ids::CounterField& field,
                                           const ids::Sources& sources) override;
  std::shared_ptr<ids::Reservations> reservations(const ids::ReserveSpec& spec) override;
  void transaction_ended(const std::string& transaction, bool is_durable) override;
  std::shared_ptr<ids::Fill> fill(std::string_view ns, std::string_view field) override;
  std::shared_ptr<ids::FreeValues> free_values(std::string_view ns,
                                               std::string_view field) override;
  ids::Readiness readiness(std::size_t rule_index, std::string_view db,
                           std::string_view collection) override;
  std::shared_ptr<ids::Guard> guard(std::size_t rule_index, std::string_view db,
                                    std::string_view collection) override;
  [[nodiscard]] std::shared_ptr<void> change(const ids::CatalogChange& change) override;
  [[nodiscard]] std::shared_ptr<ids::IndexRoom> index_room(const ids::CatalogChange& in,
                                                           Bytes indexes) override;
  [[nodiscard]] std::optional<ids::UniqueIndexes> unique_indexes(std::string_view ns) override;
  [[nodiscard]] const Version& version() const override;
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t most_per_rule) const override;
  /// The number of collections in which each rule gives no values, as in not_ready(), in file
  /// order.
  [[nodiscard]] std::vector<std::size_t> not_ready_counts() const;
  /// The rules, in file order, whose field no unique index guards in some collection: those with
  /// UniqueIndex::warn, and with UniqueIndex::offer, whose index a proxy would make, which are
  /// ready all the same; and those with UniqueIndex::require, which are not.
  [[nodiscard]] std::map<std::size_t, MissingIndex> lack_index() const;
  /// The part of not_ready() that is about counters that rules announced and about collections of
  /// reservations. It is for the log, which gets the other reasons as events.
  [[nodiscard]] std::vector<ids::NotReady> counters_not_ready() const;
  /// Why the last check of collections reached no server, for people; nothing if it reached one.
  [[nodiscard]] std::optional<std::string> why_down() const;
  [[nodiscard]] std::vector<ids::RuleNumbers> numbers(std::size_t most_per_rule) const override;
  [[nodiscard]] ids::StoreCounts counts() const override;

 private:
  friend class id_store::Store;
  struct Impl;
  explicit Watch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::id_store
