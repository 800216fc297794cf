#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "id_store/index.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/id_store/watch.hpp"
#include "idproxy/ids/fill.hpp"
#include "idproxy/ids/free_values.hpp"
#include "idproxy/ids/guard.hpp"
#include "idproxy/ids/index_room.hpp"
#include "idproxy/log/log.hpp"

/// The state and the decisions of the Inspector, without threads and connections: its knowledge of
/// collections, and its next request.
namespace idproxy::id_store {

/// Why no rule applies to a collection.
enum class LeftAlone : std::uint8_t { view, time_series };
using LeftAloneByName = std::map<std::string, LeftAlone, std::less<>>;

/// A request about a collection, or about a whole database.
struct CatalogRequest {
  enum class Kind {
    left_alone,  ///< which collections of the database are views or time-series collections
    indexes,
    documents,   ///< their number, and how many have a number or string in each of `fields`
    make_index,  ///< a unique one, in the form that fits the documents
    databases,   ///< their names
    values,      ///< which of those that random numbers may become are taken
    yield,       ///< drop the proxy's own index in favour of the application's
    make_room,   ///< replace the proxy's own indexes that are in the way of a client's
  };
  Kind kind;
  Namespace ns;                       ///< left_alone: the collection is empty
  UniqueField field{};                ///< make_index, yield
  std::vector<UniqueField> advise{};  ///< indexes: unless an index guards them, find an IndexOffer
  std::vector<UniqueField> made{};    ///< make_room: those whose indexes the proxy makes
  std::vector<std::string> fields{};  ///< documents only
  bool lists_all = false;             ///< left_alone: the other collections, too
  bool is_anew = false;               ///< indexes: which collection it is, too
  std::uint64_t epoch = 0;            ///< of the collection's indexes; see Collections
  std::chrono::nanoseconds at{};      ///< indexes: when it was sent, monotonic
  std::shared_ptr<ids::FreeValues> values{};  ///< values: also gets the answer
  std::shared_ptr<ids::IndexRoom> room{};     ///< make_room: likewise
};

/// The server's response, or why there is none.
struct CatalogResponse {
  enum class Kind {
    answered,
    no_collection,
    not_permitted,
    refused,      ///< the server answered with another error
    unreachable,  ///< no server, no login, no primary, or no answer in time
  };
  Kind kind = Kind::answered;
  std::string reason{};  ///< why it was refused or is unreachable; never holds a document's value
  LeftAloneByName left_alone{};
  std::vector<std::string> names{};  ///< databases, or with `lists_all` the other collections
  std::vector<Index> indexes{};
  std::optional<LeftAlone> is_left_alone{};   ///< is_anew
  std::optional<ids::CollectionUuid> uuid{};  ///< is_anew: if the server takes it in writes
  std::map<std::string, IndexOffer, std::less<>> offers{};  ///< by field
  std::uint64_t documents = 0;
  /// Documents by the field that has a value in them; no entry: not known.
  std::map<std::string, std::uint64_t, std::less<>> with_value{};
  bool may_not_find = false;     ///< the reason why `with_value` is empty
  bool has_user = true;          ///< false: the id store's connection string names no user
  bool passes = false;           ///< refused: the server may do it a moment later
  std::string told = kNoAnswer;  ///< unreachable: `reason` for clients, naming no server
  bool is_new = false;           ///< make_index: it was not there
  /// yield: the application's index; make_room: the proxy's that has gone; empty: nothing was
  /// dropped.
  std::string index{};
};

/// An event for the log. Its fields end with the first that has an empty value.
struct LogEvent {
  struct Field {
    std::string_view name;
    std::string value;
  };
  log::Level level;
  std::string_view event;
  std::string message;
  Field fields[3];
};

// The beginning of several reasons.
inline constexpr const char* kCannotCheck =
    "whether a unique index guards the field cannot be checked: ";

/// Whether a rule gives values in a collection, as far as its unique index decides that. The reason
/// is the one that clients, the log and the status show.
struct Verdict {
  enum class Kind { unchecked, ready, failed };
  Kind kind = Kind::unchecked;
  std::string reason{};                    ///< why it is not ready
  std::shared_ptr<const Reason> advice{};  ///< as of ids::Error
  [[nodiscard]] bool is_ready() const { return kind == Kind::ready; }
  [[nodiscard]] ids::Error error() const {
    return {kind == Kind::failed ? ids::Errc::exhausted : ids::Errc::unavailable, reason, advice};
  }
  [[nodiscard]] ids::Readiness readiness() const {
    if (is_ready()) return {};
    return {ids::Readiness::Kind::not_ready, error()};
  }
};

/// Names of things, in the order in which they are due. Times are monotonic.
class Agenda {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr Time kNever = Time::max();

  /// The thing is due then. `was`: what the last call noted there, at first kNever.
  void put(const std::string& name, Time& was, Time due) {
    if (was == due) return;
    remove(name, was);
    if (due != kNever) all_.emplace(due, name);
    was = due;
  }
  void remove(const std::string& name, Time was) {
    if (was != kNever) all_.erase({was, name});
  }
  [[nodiscard]] Time due() const { return all_.empty() ? kNever : all_.begin()->first; }
  /// The one that is due first; only if there is one.
  [[nodiscard]] const std::string& first() const { return all_.begin()->second; }

 private:
  std::set<std::pair<Time, std::string>> all_;
};

/// Not thread-safe. Times are monotonic. When there are many collections or databases, it forgets
/// those that nobody uses, that is whose guards and spaces nobody holds, that no rule names
/// literally, and about which nobody has asked lately. What each call costs hardly depends on how
/// many there are.
class Collections {
 public:
  using Time = Agenda::Time;
  static constexpr Time kNever = Agenda::kNever;
  /// So many that nobody uses are known. With more, each is looked at less often without a cause.
  static constexpr std::size_t kMostCollections = 4096;
  static constexpr std::size_t kMostDatabases = 4096;
  static constexpr std::size_t kMostLeftAlone = 10'000;  ///< per database
  /// How long a response is good for, and when to ask again about something that is not in order.
  static constexpr std::chrono::seconds kRound{60};
  static constexpr std::chrono::seconds kSoon{10};
  /// Nobody says that an index was dropped past the proxy: each collection is looked at every
  /// kSoon, or less often if there are so many that this would be more than ten looks a second.
  static constexpr std::chrono::milliseconds kPerLook{100};
  /// When to look again at a rule that is not ready, and while a write waits for it.
  static constexpr std::chrono::seconds kNotReadyRound{2};
  /// After an error that passes. Inserts wait two seconds.
  static constexpr std::chrono::milliseconds kMakesAgain{250};
  static constexpr std::chrono::milliseconds kAwaitedRound{50};
  /// After an attempt to drop the proxy's own index that has failed; without the privilege, longer.
  static constexpr std::chrono::seconds kYieldRest{10};
  static constexpr std::chrono::minutes kNotPermittedRest{60};
  /// How long an IndexOffer is good for: finding one may read many documents.
  static constexpr std::chrono::minutes kOfferRound{10};

  /// The threads that send a request.
  enum class Asks {
    looks,       ///< all that are due, first those that writes wait for
    awaited,     ///< only those that writes wait for
    make_index,  ///< of collections that exist, which can take hours, and yield
  };

  Collections(std::vector<WatchedRule> rules, Time now)
      : Collections(std::move(rules), now, Collections()) {}
  /// Takes over the knowledge of `before` about collections that these rules touch, too, for each
  /// rule with the field and unique_index of an earlier one. Missing parts belong to the first
  /// look. Responses to requests of `before` go to both objects.
  Collections(std::vector<WatchedRule> rules, Time now, Collections before);

  [[nodiscard]] const std::vector<WatchedRule>& rules() const { return rules_; }

  // As Watch's. For anything that is not known yet, next() returns a request.
  [[nodiscard]] ids::Readiness readiness(std::size_t rule_index, std::string_view db,
                                         std::string_view collection, Time now);
  [[nodiscard]] std::shared_ptr<ids::Guard> guard(std::size_t rule_index, std::string_view db,
                                                  std::string_view collection, Time now);
  [[nodiscard]] std::shared_ptr<ids::Fill> fill(std::string_view ns, std::string_view field,
                                                Time now);
  [[nodiscard]] std::shared_ptr<ids::FreeValues> free_values(std::string_view ns,
                                                             std::string_view field, Time now);
  /// Event: these values are to be looked up.
  void look_up(std::shared_ptr<ids::FreeValues> values);
  /// Event: a guard has this request. Its collection comes before all others.
  void need(const ids::Guard& guard, ids::Guard::Need need, Time now);
  /// Has guards call `tell`, and free values `look_up`.
  void tell(ids::Guard::Tell tell, ids::FreeValues::Tell look_up = {}) {
    *tell_ = std::move(tell);
    *look_up_ = std::move(look_up);
  }
  /// Event: a change is about to be sent. Forgets what is known of these collections, and does not
  /// look at them before end_change().
  void begin_change(const ids::CatalogChange& change, Time now);
  void end_change(const ids::CatalogChange& change, Time now);
  /// The guards that may have to answer writes since the last call.
  [[nodiscard]] std::vector<std::shared_ptr<ids::Guard>> take_answers() {
    return std::exchange(answers_, {});
  }
  [[nodiscard]] std::optional<ids::UniqueIndexes> unique_indexes(std::string_view ns, Time now);
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t most_per_rule) const;
  [[nodiscard]] std::vector<std::size_t> not_ready_counts() const;
  /// As Watch's.
  [[nodiscard]] std::map<std::size_t, MissingIndex> lack_index() const;
  /// The spaces of random numbers whose limits are known, as ids::Store::numbers().
  [[nodiscard]] std::vector<ids::RuleNumbers> spaces() const;
  /// Why the last request reached no server; nothing if it reached one.
  [[nodiscard]] const std::optional<std::string>& why_down() const { return down_; }
  /// True if next() has had something new to return since the last call.
  [[nodiscard]] bool take_news() { return std::exchange(news_, false); }

  /// The next request that is due; not returned again before learn() has its response.
  [[nodiscard]] std::optional<CatalogRequest> next(Asks asks, Time now);
  void learn(const CatalogRequest& request, const CatalogResponse& response, Time now);
  /// The request that makes it, with what the rules have made there.
  [[nodiscard]] CatalogRequest request_for(std::shared_ptr<ids::IndexRoom> room) const;
  /// When next() has something; kNever: not before something changes.
  [[nodiscard]] Time due(Asks asks) const;
  /// True once everything that rules name literally, or that was known before, has been checked, or
  /// no server could be reached.
  [[nodiscard]] bool looked() const;
  /// The events since the last call.
  [[nodiscard]] std::vector<LogEvent> take_log_events(Time now);
  /// When to call take_log_events() even if there has been no response.
  [[nodiscard]] Time log_events_due() const { return fills_due_; }
  /// For an object that must not write to the log: another one does.
  void drop_log_events() { log_events_.clear(); }

 private:
  /// When to send a request.
  struct Look {
    Time due = kNever;    // kNever, too, while a response is under way
    bool open = false;    // never answered yet
    bool failed = false;  // the last request reached no server

    void begin(Time now) {
      due = now;
      open = true;
    }
    void hurry(Time now) {
      if (due != kNever) due = std::min(due, now);
    }
    [[nodiscard]] bool take(Time now) {
      if (due > now) return false;
      due = kNever;
      return true;
    }
    void answered(const CatalogResponse& response, Time again) {
      due = again;
      open = false;
      failed = response.kind == CatalogResponse::Kind::unreachable;
    }
    /// Asks again for a response that is under way, since it may not reach this object.
    void resume(bool wanted, Time now) {
      if (!wanted) {
        *this = {};
      } else if (due == kNever) {
        due = now;
      }
    }
  };
  struct Known {
    std::uint64_t asked = 0;  // the larger, the more recently
    bool pinned = false;      // a rule names it
    bool awaited = false;     // belongs to the first look
  };
  struct Database : Known {
    LeftAloneByName left_alone;
    std::optional<Time> failing_since;
    Look look{.due = {}, .open = true};
    bool lists_all = false;  // once, for rules with a wildcard
    Time listed = kNever;    // in looks_at_databases_
    [[nodiscard]] bool looked() const { return !look.open; }
  };
  /// One rule in one collection.
  struct Guard {
    std::size_t rule;
    Verdict verdict{};
    std::string reported{};  // the reason that the log has
    IndexOffer offer{};      // if there is no index
    Time offer_due{};
    bool warned = false;  // of an index that is missing now
    bool had_index = false;
    bool lacks = false;     // the index that it demands
    std::string why_not{};  // why an index that looks sufficient is not
    /// Ready, but its collection is not there: the first write has the index made, which takes no
    /// time.
    bool absent = false;
    bool listed = false;       // its collection exists, but nobody has asked about it
    bool tries_again = false;  // absent, and the last attempt failed: the next write makes another
    bool making = false;
    Time make_due = kNever;
    bool is_unreadable = false;  // there is one, but its own may be made beside it
    bool cannot_make = false;    // then that one will do
    bool yields = false;         // at make_due, its own index is dropped, not made
    Time yield_at{};             // not earlier
    Time make_begun{};
    Time unchecked_since{};
    std::shared_ptr<ids::Guard> shared{};  // if the rule demands an index
  };
  struct Numbers {
    std::string field;
    std::shared_ptr<ids::Fill> fill = std::make_shared<ids::Fill>();
    std::shared_ptr<ids::FreeValues> free{};
    Time age_due{};
    Time warn_due{};
    double warned_of = 0;  // the fill at the last warning
    bool full = false;
  };
  struct Collection : Known {
    Namespace ns;
    std::vector<Guard> guards;
    std::vector<Numbers> numbers;
    std::optional<ids::UniqueIndexes> unique_indexes;  // nothing: not known
    Look indexes;
    Look documents;
    std::optional<Time> documents_at;  // of the last response, even of an error
    std::optional<ids::CollectionUuid> uuid;
    Time indexes_at{};             // when the last look that was answered began
    std::uint64_t epoch = 0;       // a response to a request of an earlier one is void
    bool is_anew = true;           // it is not known which collection it is
    Time listed = kNever;          // in looks_
    Time listed_to_make = kNever;  // in makes_
    std::shared_ptr<const void> lent = std::make_shared<const bool>(true);
    [[nodiscard]] bool looked() const;
    [[nodiscard]] bool is_used() const;
  };

  Collections() = default;
  void take_over(Collections& before, Time now);
  void take_over(Collection known, const std::vector<WatchedRule>& before, Time now);
  void pin(std::size_t rule, Time now);
  void list_all(const WatchedRule& rule);

  void sweep_databases();
  void sweep_collections();
  [[nodiscard]] bool has_collections(const std::string& db) const;
  template <class Use>
  void each_changed(const ids::CatalogChange& change, const Use& use);
  void schedule(const std::string& db, Database& database);
  void schedule(Collection& collection);
  [[nodiscard]] Time round() const;
  Database& database(std::string_view db);
  Collection& collection(const Namespace& ns);
  Guard& guard(Collection& collection, std::size_t rule, Time now);
  void look_once(Collection& collection, Time now);
  Guard& asked_guard(Collection& collection, std::size_t rule, Time now);
  Numbers& numbers(Collection& collection, std::string_view field, Time now);
  [[nodiscard]] std::shared_ptr<ids::FreeValues> free_values(const Collection& collection,
                                                             const Numbers& numbers) const;
  [[nodiscard]] bool is_left_alone(const Namespace& ns) const;
  [[nodiscard]] bool is_changing(const Collection& collection) const;
  [[nodiscard]] static bool is_awaited(const Collection& collection);
  [[nodiscard]] Commands command_for(const Collection& collection, const Guard& guard) const;

  std::optional<CatalogRequest> next_look(Time now);
  std::optional<CatalogRequest> next_look_at(Collection& collection, Time now);
  std::optional<CatalogRequest> next_awaited(Time now);
  std::optional<CatalogRequest> next_index(Time now);
  [[nodiscard]] CatalogRequest index_request(const Collection& collection, Time now) const;
  [[nodiscard]] CatalogRequest make_request(const Collection& collection, Guard& guard, Time now);

  void reached(const CatalogResponse& response, Time now);
  void go_down(const CatalogResponse& response);
  void learn_databases(const CatalogResponse& response, Time now);
  void learn_left_alone(Database& database, std::string_view db, const CatalogResponse& response,
                        Time now);
  void learn_names(const std::string& db, const CatalogResponse& response, Time now);
  void learn(Collection& collection, const CatalogRequest& request, const CatalogResponse& response,
             Time now);
  void learn_indexes(Collection& collection, const CatalogRequest& request,
                     const CatalogResponse& response, Time now);
  [[nodiscard]] Time round_if_well() const;
  void learn_which(Collection& collection, const CatalogRequest& request,
                   const CatalogResponse& response);
  void learn_documents(Collection& collection, const CatalogResponse& response, Time now);
  void learn_made(Collection& collection, Guard& guard, const CatalogResponse& response, Time now);
  void learn_room(const CatalogRequest& request, const CatalogResponse& response);
  void learn_yielded(const Collection& collection, Guard& guard, const CatalogResponse& response,
                     Time now);
  void judge(Collection& collection, Guard& guard, const CatalogResponse& response, Time now);
  void judge_warned(Collection& collection, Guard& guard, const CatalogResponse& response);
  void say(log::Level level, std::string_view event, std::string message, const Namespace& ns,
           const std::string& field, LogEvent::Field third);
  void wait_for_index(Collection& collection, Guard& guard, std::string_view why, Time now);
  void set(Collection& collection, Guard& guard, Verdict verdict);
  void publish(Collection& collection, Guard& guard);
  [[nodiscard]] ids::GuardState shown(const Collection& collection, const Guard& guard) const;
  void forget(Collection& collection, std::string_view why, Time now);
  void forget_changed(const ids::CatalogChange& change, Time now);
  [[nodiscard]] std::string may_not(std::string_view privilege) const;
  void miss(std::string_view privilege, const Namespace& ns);
  void judge_fill(Collection& collection, Numbers& numbers, Time now);
  void report_fill(const Collection& collection, Numbers& numbers, const ids::Fill::Seen& seen,
                   Time now);
  void count_soon(Collection& collection, Time now);

  std::vector<WatchedRule> rules_;
  std::map<std::string, Database, std::less<>> databases_;
  std::map<std::string, Collection, std::less<>> collections_;  // by namespace
  std::size_t sweep_databases_at_ = kMostDatabases;
  std::size_t sweep_collections_at_ = kMostCollections;
  // When next() has something; of collections that are changing: not before that is over.
  Agenda looks_at_databases_;
  Agenda looks_;                               // at collections
  Agenda makes_;                               // indexes of collections that exist
  std::set<std::string, std::less<>> missed_;  // "privilege db", as said
  std::shared_ptr<ids::Guard::Tell> tell_ = std::make_shared<ids::Guard::Tell>();
  std::shared_ptr<ids::FreeValues::Tell> look_up_ = std::make_shared<ids::FreeValues::Tell>();
  std::deque<std::shared_ptr<ids::FreeValues>> lookups_;
  std::vector<std::shared_ptr<ids::Guard>> answers_;
  // Namespaces that a write waits for, or wants renewed. One whose index is being made stays in
  // front: if many new ones come at once, the first ones are done soon, instead of all late.
  std::deque<std::string> awaited_;
  std::vector<ids::CatalogChange> changes_;  // under way
  Time databases_due_ = kNever;
  std::vector<LogEvent> log_events_;
  std::optional<std::string> down_;  // why no server can be reached: CatalogResponse::reason
  std::string down_told_ = kNoAnswer;
  bool was_down_ = false;  // ever
  bool has_user_ = true;   // CatalogResponse::has_user of the last response
  bool news_ = false;
  Time not_before_{};  // while it is so
  Time fills_due_ = kNever;
  std::uint64_t asked_ = 0;
  std::uint64_t version_ = 1;
};

/// The unique index that the rule's field needs.
[[nodiscard]] inline UniqueField unique_field(const WatchedRule& rule) {
  return {rule.field, value_type_of(rule.value_type), {rule.scope, rule.repeats}};
}

/// True if the rule gives no values without a unique index.
[[nodiscard]] inline bool demands_index(const WatchedRule& rule) {
  return rule.field != "_id" && (rule.unique_index == ids::UniqueIndex::require ||
                                 rule.unique_index == ids::UniqueIndex::create);
}

/// True if the collections in which the rule demands an index are found by their names.
[[nodiscard]] inline bool lists_collections(const WatchedRule& rule) {
  return has_wildcards(rule.ns) && demands_index(rule);
}

/// The rule that fills the field.
[[nodiscard]] std::optional<std::size_t> rule_of(const std::vector<WatchedRule>& rules,
                                                 std::string_view ns, std::string_view field);

/// Why no more numbers are drawn from a space of random numbers; empty: they are.
[[nodiscard]] std::string why_full(const ids::Fill::Seen& seen);

}  // namespace idproxy::id_store
