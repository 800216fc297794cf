#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "id_store/collection_watch.hpp"

namespace idproxy::id_store {

/// All that an inspection knows.
struct InspectionState : Surroundings {
  std::map<std::string, CollectionWatch, std::less<>> watches{};  ///< by namespace
  Agenda databases_due{};                                         ///< that are to be checked
  std::deque<std::shared_ptr<ids::FreeValues>> lookups{};
  Time all_databases_due = Inquiry::kNever;
  bool was_down = false;  ///< ever
  std::size_t sweep_databases_at = kMostUnused;
  std::size_t sweep_collections_at = kMostUnused;
  std::uint64_t asked = 0;
};

/// The watches of the collections of one list of rules, without threads and connections, and their
/// next request. Each Watch for these rules holds it; when the last one lets go of it, the
/// Inspector stops asking for these rules. Not thread-safe: the Inspector has the lock. Times are
/// monotonic. When there are many collections or databases, it forgets those that nobody uses, that
/// is whose guards and spaces nobody holds, that no rule names literally, and about which nobody
/// has asked lately. What each call costs hardly depends on how many there are.
class Inspection {
 public:
  using Time = Inquiry::Time;
  static constexpr Time kNever = Inquiry::kNever;

  /// The threads that send a request.
  enum class Asks {
    checks,   ///< all that are due but `indexes`, first those that writes wait for
    awaited,  ///< only those that writes wait for
    indexes,  ///< makes indexes of collections that exist, which can take hours, and drops some
  };

  /// Takes over the knowledge of `before`, if not null, about collections that these rules touch,
  /// too. Missing parts belong to the first checks. Answers to requests of `before` go to both
  /// objects.
  Inspection(std::vector<WatchedRule> rules, Time now, const Inspection* before = nullptr);

  [[nodiscard]] const std::vector<WatchedRule>& rules() const { return state_->rules; }

  // As Watch's. For anything that is not known yet, next() returns a request.
  [[nodiscard]] ids::Readiness readiness(std::size_t rule_index, std::string_view db,
                                         std::string_view collection, Time now);
  [[nodiscard]] std::shared_ptr<ids::Guard> guard(std::size_t rule_index, std::string_view db,
                                                  std::string_view collection, Time now);
  /// The reference is valid until the next call.
  [[nodiscard]] const SpaceWatch& space(std::string_view ns, std::string_view field, Time now);
  /// Event: these values are to be looked up.
  void look_up(std::shared_ptr<ids::FreeValues> values);
  /// Event: a guard has this request. Its collection comes before all others.
  void need(const ids::Guard& guard, ids::Guard::Need need, Time now);
  /// Has guards call `tell`, and free values `look_up`.
  void tell(ids::Guard::Tell tell, ids::FreeValues::Tell look_up = {});
  /// Event: a change is about to be sent. Forgets what is known of these collections, and does not
  /// check them before end_change().
  void begin_change(const ids::CatalogChange& change, Time now);
  void end_change(const ids::CatalogChange& change, Time now);
  /// The guards that may have to answer writes since the last call.
  [[nodiscard]] std::vector<std::shared_ptr<ids::Guard>> take_answers() {
    return std::exchange(state_->answers, {});
  }
  [[nodiscard]] std::optional<ids::UniqueIndexes> unique_indexes(std::string_view ns, Time now);
  [[nodiscard]] std::uint64_t version() const { return state_->version; }
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t most_per_rule) const;
  /// As Watch's.
  [[nodiscard]] std::map<std::size_t, MissingIndex> lack_index() const;
  /// The spaces of random numbers whose limits are known, as ids::Store::numbers().
  [[nodiscard]] std::vector<ids::RuleNumbers> spaces() const;
  /// Why the last request reached no server; nothing if it reached one.
  [[nodiscard]] const std::optional<std::string>& why_down() const { return state_->down; }
  /// True if next() has had something new to return since the last call.
  [[nodiscard]] bool take_news() { return std::exchange(state_->has_news, false); }

  /// The next request that is due; not returned again before learn() has its answer.
  [[nodiscard]] std::optional<InspectionRequest> next(Asks asks, Time now);
  /// `answer`: what ask() returns for it.
  template <class Request, class Answer>
  void learn(const Request& request, const Answer& answer, Time now) {
    reached(answer, now);
    note(request, answer, now);
  }
  /// The request that makes it, with what the rules have made there.
  [[nodiscard]] MakeRoom request_for(std::shared_ptr<ids::IndexRoom> room) const;
  /// When next() has something; kNever: not before something changes.
  [[nodiscard]] Time due(Asks asks) const;
  /// True once everything that rules name literally, or that was known before, has been checked, or
  /// no server could be reached.
  [[nodiscard]] bool is_checked() const;
  /// The events since the last call.
  [[nodiscard]] std::vector<LogEvent> take_log_events(Time now);
  /// When to call take_log_events() even if there has been no answer.
  [[nodiscard]] Time log_events_due() const { return state_->fills_due; }
  /// For an object that must not write to the log: another one does.
  void drop_log_events() { state_->log_events.clear(); }

 private:
  void reached(const ServerAnswer& answer, Time now);
  void note(const ListDatabases& request, const DatabaseList& answer, Time now);
  void note(const ListCollections& request, const CollectionList& answer, Time now);
  void note(const LookUpValues& /*request*/, const ServerAnswer& /*answer*/, Time /*now*/) {}
  void note(const MakeRoom& request, const DroppedIndex& answer, Time now);
  template <class Request, class Answer>
  void note(const Request& request, const Answer& answer, Time now) {
    const auto found = state_->watches.find(request.ns.text());
    // It may have been forgotten meanwhile.
    if (found != state_->watches.end()) found->second.learn(request, answer, now);
  }

  std::unique_ptr<InspectionState> state_ = std::make_unique<InspectionState>();
};

}  // namespace idproxy::id_store
