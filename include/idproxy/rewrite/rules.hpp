#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "idproxy/ids/guard.hpp"
#include "idproxy/rewrite/rule.hpp"
#include "idproxy/rewrite/rule_outcomes.hpp"
#include "idproxy/rewrite/statements.hpp"

namespace idproxy::rewrite {

/// A field of a namespace, and the rule that fills it.
struct Assignment {
  /// Of a sequence: another proxy that writes all the time often takes the next number first.
  static constexpr std::uint32_t kAttemptsInTurn = 100;

  const Rule* rule;
  RuleOutcomes* outcomes;                 ///< the rule's
  std::size_t rule_index;                 ///< of the rule in its RuleSet
  std::vector<std::string> path;          ///< segments of rule->field
  std::string ns{};                       ///< "db.collection"
  std::shared_ptr<ids::Source> source{};  ///< of all values; null: `sequences` have them
  std::shared_ptr<ids::Sequences> sequences{};
  bool in_turn = false;                       ///< values are numbers without gaps: ids::Turn
  std::optional<ids::Error> not_ready{};      ///< set if no value can be generated now: why
  ids::Reservations* reservations = nullptr;  ///< where the values of inserts are reserved
  /// True for the `_id` that documents with a reserved value need: no rule of the configuration
  /// says so.
  bool implied = false;
  std::shared_ptr<ids::Guard> guard{};    ///< of the unique index that the rule demands
  ids::Store* store = nullptr;            ///< knows the collection's indexes; null: nobody does
  std::shared_ptr<const void> watched{};  ///< has the store know it: ids::Readiness
  [[nodiscard]] std::uint32_t attempts() const {
    if (rule->retry.attempts) return *rule->retry.attempts;
    if (in_turn) return kAttemptsInTurn;
    return source ? source->attempts() : ids::Source::kAttempts;
  }
  /// Of the rule in the file, from 0 on.
  [[nodiscard]] std::size_t place() const { return rule_index + rule->nones_before; }
  [[nodiscard]] bool is_id() const { return path.size() == 1 && path[0] == "_id"; }
  /// True if it can matter whether an ObjectId was made just now, and so by the driver.
  [[nodiscard]] bool may_depend_on_time() const {
    return is_id() || rule->assign == Assign::driver;
  }
};

/// The assignments for one namespace, in file order. No two fields are equal, or one a prefix of
/// the other. Says from the start which stages its writes have. Valid as long as its RuleSet.
class Plan {
 public:
  /// Whether the assignments have what their values come from. Without it, a plan only says which
  /// fields are filled.
  enum class Is { bound, outline };

  Plan() = default;
  explicit Plan(std::vector<Assignment> all, Is is = Is::bound);

  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }
  [[nodiscard]] bool empty() const { return all_.empty(); }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] const Assignment& operator[](std::size_t i) const { return all_[i]; }
  [[nodiscard]] const Assignment& front() const { return all_.front(); }

  [[nodiscard]] bool is_bound() const { return is_ == Is::bound; }
  /// True if some assignment has numbers without gaps.
  [[nodiscard]] bool takes_turns() const { return takes_turns_; }
  /// True if the values of inserts are reserved for some assignment.
  [[nodiscard]] bool reserves() const { return reserves_; }
  /// True if some rule demands a unique index.
  [[nodiscard]] bool is_guarded() const { return is_guarded_; }
  /// True for some Assignment::may_depend_on_time().
  [[nodiscard]] bool may_depend_on_time() const { return may_depend_on_time_; }
  /// True if an update can take away a value of some assignment: nobody can take an `_id`.
  [[nodiscard]] bool can_lose_values() const { return can_lose_values_; }

 private:
  std::vector<Assignment> all_;
  Is is_ = Is::bound;
  bool takes_turns_ = false;
  bool reserves_ = false;
  bool is_guarded_ = false;
  bool may_depend_on_time_ = false;
  bool can_lose_values_ = false;
};

/// Updates that take away values of a rule, for one reason.
struct TakenAway {
  const Assignment* assignment;
  LossReason reason;
  std::uint64_t updates;

  void count() const {
    assignment->outcomes->taken_away[static_cast<std::size_t>(reason)] += updates;
  }
};

/// Upserts that get no value of a rule, for one reason; or another command that stores documents to
/// which the rule is not applied.
struct Forwarded {
  const Assignment* assignment;
  ForwardReason reason;
  std::uint64_t upserts;
  /// True if the documents that they insert have a value of the client's own.
  bool brings_value = false;
  bool past_the_rules = false;  ///< by a command to which no rule applies

  void count() const {
    assignment->outcomes->forwarded[static_cast<std::size_t>(reason)] += upserts;
  }
};

/// The namespaces into which some client may insert, as a server has said. Remembers the last
/// 131,072, or up to twice as many. Thread-safe.
class AdmittedNamespaces {
 public:
  [[nodiscard]] bool has(const std::string& ns) const {
    const std::scoped_lock lock(mutex_);
    return recent_.contains(ns) || older_.contains(ns);
  }
  void add(const std::string& ns) {
    constexpr std::size_t kMost = 131'072;
    const std::scoped_lock lock(mutex_);
    if (recent_.size() == kMost) older_ = std::exchange(recent_, {});
    recent_.insert(ns);
  }

 private:
  mutable std::mutex mutex_;  // guards all that follows
  std::unordered_set<std::string> recent_;
  std::unordered_set<std::string> older_;
};

/// The rules of a configuration. Immutable except for the outcomes of the rules and what they are
/// admitted to, so that all io threads share one object. A reload creates another one; exchanges
/// that have begun keep theirs.
class RuleSet {
 public:
  /// `store_db`: the database of the id store, which no rule touches. `store`: null if no strategy
  /// needs one. A rule whose source equals that of a rule in `before` takes over that rule's
  /// strategy, which continues its sequence of values, and its outcomes. Several rules with equal
  /// sources are matched in order.
  RuleSet(std::vector<Rule> rules, std::string store_db,
          std::shared_ptr<ids::Store> store = nullptr, const RuleSet* before = nullptr);

  /// For each field, the first rule that matches. Empty if no rule applies, and always for views
  /// and time-series collections as far as the store knows them, for system.*, $cmd and the like,
  /// for the databases admin, local, config and `store_db`, and for the store's collections in
  /// other databases. Valid until version() changes.
  [[nodiscard]] Plan plan(std::string_view db, std::string_view collection) const;
  /// The same before anybody may have the store look at the collection, or make something for it:
  /// for each field, the first rule that matches. plan() without a store, and for collections that
  /// the store looks at from the start, since no rule for them has wildcards or needs more then.
  [[nodiscard]] Plan outline(std::string_view db, std::string_view collection) const;
  /// The rules that would apply to a time-series collection, for each field the first one; empty
  /// for everything else, as far as the store knows. Valid as plan() is.
  [[nodiscard]] Plan bypassed(std::string_view db, std::string_view collection) const;
  /// Where plan() may be asked for. Empty after a reload.
  [[nodiscard]] AdmittedNamespaces& admitted() const { return *admitted_; }
  [[nodiscard]] std::uint64_t version() const { return version_->load(); }
  /// False if no rule applies to collections of this name in any database.
  [[nodiscard]] bool possible(std::string_view collection) const;
  /// True if a rule may apply to one of the changed collections.
  [[nodiscard]] bool concerns(const ids::CatalogChange& change) const;
  /// As ids::Store::change().
  [[nodiscard]] std::shared_ptr<void> change(const ids::CatalogChange& change) const {
    return store_ == nullptr ? nullptr : store_->change(change);
  }
  /// The position in the file of a rule that has its index made in that collection.
  [[nodiscard]] std::optional<std::size_t> index_maker(const ids::CatalogChange& in) const;
  /// As ids::Store::index_room(). Only with an index_maker().
  [[nodiscard]] std::shared_ptr<ids::IndexRoom> index_room(const ids::CatalogChange& in,
                                                           Bytes indexes) const {
    return store_ == nullptr ? nullptr : store_->index_room(in, indexes);
  }
  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  /// The outcomes of the rule at this position in the file.
  [[nodiscard]] RuleOutcomes& outcomes(std::size_t rule_index) const {
    return *outcomes_[rule_index];
  }
  /// The sum of one counter over all rules.
  template <class Counter>
  [[nodiscard]] std::uint64_t sum(Counter RuleOutcomes::* counter) const {
    std::uint64_t total = 0;
    for (const auto& rule : outcomes_) total += ((*rule).*counter).load();
    return total;
  }
  /// True if some rule has to know when transactions end.
  [[nodiscard]] bool follows_transactions() const { return follows_transactions_; }
  /// As ids::Store's.
  void transaction_ended(const std::string& transaction, bool is_durable) const {
    if (store_ != nullptr) store_->transaction_ended(transaction, is_durable);
  }
  /// Null if no strategy needs a store.
  [[nodiscard]] const ids::Store* store() const { return store_.get(); }

 private:
  void take_over(const RuleSet& before);
  void prepare_reservations();
  [[nodiscard]] std::vector<Assignment> matching(std::string_view db, std::string_view collection,
                                                 const std::string& ns) const;
  void add_id(std::vector<Assignment>& plan) const;
  [[nodiscard]] bool is_untouchable(std::string_view db, std::string_view collection,
                                    const std::string& ns) const;

  std::shared_ptr<ids::Store> store_;  // first, so that it outlives what it has given to strategies
  const ids::Store::Version* version_;  // of store_; without one, a number that never changes
  std::vector<Rule> rules_;
  std::vector<std::shared_ptr<RuleOutcomes>> outcomes_;           // by rule
  std::vector<std::shared_ptr<ids::Reservations>> reservations_;  // by rule; null: none
  std::vector<Rule> id_rules_;  // by rule: of a rule with reservations, that for the _id
  std::shared_ptr<RuleOutcomes> id_outcomes_ = std::make_shared<RuleOutcomes>();
  std::unique_ptr<AdmittedNamespaces> admitted_ = std::make_unique<AdmittedNamespaces>();
  std::string store_db_;
  std::vector<std::string> store_namespaces_;
  bool follows_transactions_ = false;
};

/// Caches the plans of the namespaces that one io thread has seen. Not thread-safe. A reload
/// replaces it.
class Namespaces {
 public:
  explicit Namespaces(std::shared_ptr<const RuleSet> rules)
      : rules_(std::move(rules)),
        version_(rules_->version()),
        write_fields_(std::make_unique<WriteFields>()) {}

  /// The plan of a namespace; null if no rule applies. An outline until the namespace is admitted.
  /// Shared, because exchanges may outlive this cache; the plan keeps its RuleSet alive. The
  /// reference is valid until the next call.
  [[nodiscard]] const std::shared_ptr<const Plan>& plan(std::string_view db,
                                                        std::string_view collection) {
    return known(db, collection).plan;
  }
  /// The rules that do not apply to inserts into this namespace because it is a time-series
  /// collection; empty for others. Valid until the next call.
  [[nodiscard]] std::span<const Forwarded> bypassed(std::string_view db,
                                                    std::string_view collection) {
    return known(db, collection).bypassed;
  }
  /// The plan of these rules; null if there are none.
  [[nodiscard]] const std::shared_ptr<const Plan>& time_series(std::string_view db,
                                                               std::string_view collection) {
    return known(db, collection).time_series;
  }
  [[nodiscard]] bool possible(std::string_view collection);
  /// Event: a client of this or another thread may insert into the namespace, so that the store may
  /// look at it and make what the rules need there.
  void admit(std::string_view db, std::string_view collection);
  [[nodiscard]] const std::shared_ptr<const RuleSet>& rules() const { return rules_; }
  /// For the writes that the thread reads.
  [[nodiscard]] WriteFields& write_fields() { return *write_fields_; }

 private:
  struct Known {
    std::shared_ptr<const Plan> plan{};
    std::shared_ptr<const Plan> time_series{};  // for bypassed
    std::vector<Forwarded> bypassed{};
  };
  [[nodiscard]] const Known& known(std::string_view db, std::string_view collection);
  [[nodiscard]] const Known& other(std::string_view db, std::string_view collection);
  [[nodiscard]] Known look_up(std::string_view db, std::string_view collection) const;
  [[nodiscard]] bool may_be_bound(const Known& known, std::string_view db,
                                  std::string_view collection) const;
  using Plans = std::unordered_map<std::string, Known>;
  [[nodiscard]] const Known* find(std::string_view db, std::string_view collection);
  const Known& add(Known known);
  void forget();

  std::shared_ptr<const RuleSet> rules_;
  std::uint64_t version_;  // the version of rules_ that the plans are for
  Plans outlines_;         // of whatever name a client says
  Plans recent_;           // of admitted namespaces
  Plans older_;            // the same; those that are used move to recent_
  std::unordered_map<std::string, bool> collections_;
  std::string key_;
  // The last answer: classify() looks the same plan up several times, and so does the next insert.
  std::string last_db_;
  std::string last_collection_;
  const Known* last_ = nullptr;
  std::unique_ptr<WriteFields> write_fields_;
};

}  // namespace idproxy::rewrite
