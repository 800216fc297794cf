#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "id_store/inspection_requests.hpp"
#include "idproxy/id_store/watch.hpp"
#include "idproxy/ids/fill.hpp"
#include "idproxy/log/log.hpp"

/// What is known of one collection, without threads, connections and a clock. Times are monotonic.
namespace idproxy::id_store {

/// So many collections that nobody uses are known, and so many databases. With more collections,
/// each is checked less often without a cause.
inline constexpr std::size_t kMostUnused = 4096;
/// How long an answer is good for, and when to ask again about something that is not in order.
inline constexpr std::chrono::seconds kRound{60};
inline constexpr std::chrono::seconds kSoon{10};

// The beginning of several reasons.
inline constexpr const char* kCannotCheck =
    "whether a unique index guards the field cannot be checked: ";

/// A request that is sent again and again.
struct Inquiry {
  using Time = std::chrono::nanoseconds;
  static constexpr Time kNever = Time::max();

  Time due = kNever;        ///< kNever, too, while an answer is under way
  bool is_open = false;     ///< never answered yet
  bool has_failed = false;  ///< the last one reached no server

  void begin(Time now) {
    due = now;
    is_open = true;
  }
  void hurry(Time now) {
    if (due != kNever) due = std::min(due, now);
  }
  /// Event: a server can be reached again.
  void retry(Time now) {
    if (std::exchange(has_failed, false)) hurry(now);
  }
  [[nodiscard]] bool take(Time now) {
    if (due > now) return false;
    due = kNever;
    return true;
  }
  /// Asks again for an answer that is under way, since it may be to less than is wanted now.
  void resume(bool is_wanted, Time now) {
    if (!is_wanted) *this = {};
    if (is_wanted && due == kNever) due = now;
  }
  void answered(const ServerAnswer& answer, Time again) {
    due = again;
    is_open = false;
    has_failed = answer.kind == ServerAnswer::Kind::unreachable;
  }
};

/// Names of things, in the order in which they are due.
class Agenda {
 public:
  using Time = Inquiry::Time;

  /// kNever: it is not, any more.
  void put(const std::string& name, Time due) {
    if (const auto was = due_.find(name); was != due_.end()) {
      if (was->second == due) return;
      names_.erase({was->second, name});
      due_.erase(was);
    }
    if (due == Inquiry::kNever) return;
    due_.emplace(name, due);
    names_.emplace(due, name);
  }
  [[nodiscard]] Time due() const {
    return names_.empty() ? Inquiry::kNever : names_.begin()->first;
  }
  /// The one that is due first; only if there is one.
  [[nodiscard]] const std::string& first() const { return names_.begin()->second; }

 private:
  std::unordered_map<std::string, Time> due_;
  std::set<std::pair<Time, std::string>> names_;
};

/// An event for the log, which leaves fields with an empty value out.
struct LogEvent {
  log::Level level;
  std::string_view event;
  std::string message;
  std::vector<std::pair<std::string_view, std::string>> fields{};
};

/// Something that is forgotten if nobody asks for it.
struct Remembered {
  std::uint64_t asked = 0;       ///< the larger, the more recently
  bool is_pinned = false;        ///< a rule names it
  bool is_of_the_first = false;  ///< one of the first checks is of it
};

struct DatabaseWatch : Remembered {
  LeftAloneByName left_alone{};
  std::optional<Inquiry::Time> failing_since{};
  Inquiry collections{.due = {}, .is_open = true};
  bool lists_all = false;  ///< once, for rules with a wildcard
  [[nodiscard]] bool is_checked() const { return !collections.is_open; }
};

/// What an inspection takes over from the one before it, beside its watches.
struct ServerState {
  std::vector<ids::CatalogChange> changes{};  ///< under way
  std::optional<std::string> down{};          ///< ServerAnswer::reason, if no server can be reached
  std::string down_told = kNoAnswer;          ///< the same, for clients
  Inquiry::Time not_before{};                 ///< while it is so
  bool has_user = true;                       ///< ServerAnswer::has_user of the last answer
  std::set<std::string, std::less<>> missed{};  ///< "privilege db", as said
  std::vector<LogEvent> log_events{};
};

/// What the watches of one inspection share: what they know of the rest, and what they say to it.
struct Surroundings : ServerState {
  using Time = Inquiry::Time;

  std::vector<WatchedRule> rules{};
  std::map<std::string, DatabaseWatch, std::less<>> databases{};
  std::size_t collections = 0;  ///< that are watched
  // When these have a request; of what is changing: not before that is over.
  Agenda checks{};
  Agenda makings{};
  std::shared_ptr<ids::Guard::Tell> tell = std::make_shared<ids::Guard::Tell>();
  std::shared_ptr<ids::FreeValues::Tell> look_up = std::make_shared<ids::FreeValues::Tell>();
  /// Guards that may have to answer writes.
  std::vector<std::shared_ptr<ids::Guard>> answers{};
  /// Namespaces that a write waits for, or wants renewed. One whose index is being made stays in
  /// front: if many new ones come at once, the first ones are done soon, instead of all late.
  std::deque<std::string> awaited{};
  bool has_news = false;  ///< a request has come up
  Time fills_due = Inquiry::kNever;
  std::uint64_t version = 1;

  /// The rule that fills the field.
  [[nodiscard]] std::optional<std::size_t> rule_of(std::string_view ns,
                                                   std::string_view field) const;
  [[nodiscard]] bool is_left_alone(const Namespace& ns) const;
  [[nodiscard]] bool is_changing(const Namespace& ns) const;
  /// How long an answer is good for that nobody waits for.
  [[nodiscard]] Time round() const;
  /// "the id store's user may not listIndexes"
  [[nodiscard]] std::string may_not(std::string_view privilege) const;
  /// Logs a privilege once per database, with the first collection that needed it.
  void miss(std::string_view privilege, const Namespace& ns);
};

/// What is known of the index that a rule demands, or does without.
enum class IndexState {
  unchecked,      ///< nothing, or what was known is void
  guarded,        ///< it is there
  guarded_twice,  ///< the proxy's own beside the application's, to which it yields
  not_asked_for,  ///< it is not there, and no write has asked for it
  building,       ///< by this proxy or another one
  not_permitted,  ///< the proxy may not list indexes
  no_collection,  ///< the first write has the collection made with it, which takes no time
  to_make,        ///< the proxy makes it
  lacking,        ///< a person has to make it
};

/// One rule in one collection, as far as its unique index decides whether it gives values.
struct IndexWatch {
  using Time = Inquiry::Time;

  std::size_t rule;
  IndexState state{};
  /// Why the rule is not ready: `unavailable` if that is transient, else `exhausted`. Clients, the
  /// log and the status show the reason.
  std::optional<ids::Error> obstacle{};
  std::string reported{};  ///< the reason that the log has
  IndexOffer offer{};      ///< if there is no index
  Time offer_due{};
  bool had_index = false;
  bool lacks = false;        ///< an index that somebody else has to make
  std::string why_not{};     ///< why an index that looks sufficient is not
  bool is_asked_for = true;  ///< false: its collection exists, but no write has asked about it
  bool tries_again = false;  ///< no_collection, the last attempt failed: the next write tries again
  bool is_making = false;    ///< or dropping
  Time make_due = Inquiry::kNever;  ///< guarded_twice: of dropping
  Time make_begun{};
  Time yields_from{};                    ///< guarded_twice: not earlier
  Time waits_since{};                    ///< for the same reason
  bool is_unreadable = false;            ///< there is one, but its own may be made beside it
  bool cannot_make = false;              ///< then that one will do
  std::shared_ptr<ids::Guard> shared{};  ///< if the rule demands an index

  [[nodiscard]] bool is_ready() const { return !obstacle; }
  /// True if a write waits for it.
  [[nodiscard]] bool is_awaited() const { return shared && shared->is_awaited(); }
  [[nodiscard]] bool is_transient() const {
    return obstacle && obstacle->code == ids::Errc::unavailable;
  }
  [[nodiscard]] bool has_failed() const {
    return obstacle && obstacle->code == ids::Errc::exhausted;
  }
};

/// The space of a rule's random numbers in one collection.
struct SpaceWatch {
  std::string field;
  std::shared_ptr<ids::Fill> fill = std::make_shared<ids::Fill>();
  std::shared_ptr<ids::FreeValues> free{};
  Inquiry::Time age_due{};
  Inquiry::Time warn_due{};
  double warned_of = 0;  ///< the fill at the last warning
  bool is_full = false;
};

/// The story of one collection, told by requests and their answers: which one it is and its
/// indexes, again and again; its documents, likewise; the index that it lacks, or has twice. Not
/// thread-safe.
class CollectionWatch : public Remembered {
 public:
  using Time = Inquiry::Time;
  /// When to list indexes again while a write waits for the one that somebody else builds.
  static constexpr std::chrono::milliseconds kAwaitedRound{50};

  /// `around` must outlive it.
  CollectionWatch(Namespace ns, Surroundings& around);
  /// Takes over the knowledge of `before` that holds under the rules of `around`: for each rule
  /// with the field and unique_index of an earlier one.
  CollectionWatch(const CollectionWatch& before, Surroundings& around, Time now);

  [[nodiscard]] const Namespace& ns() const { return ns_; }
  [[nodiscard]] const std::vector<IndexWatch>& indexes() const { return indexes_; }
  [[nodiscard]] const std::vector<SpaceWatch>& spaces() const { return spaces_; }
  /// Nothing: not known.
  [[nodiscard]] const std::optional<ids::UniqueIndexes>& unique_indexes() const {
    return unique_indexes_;
  }
  /// As ids::Readiness::watched.
  [[nodiscard]] const std::shared_ptr<const void>& lent() const { return lent_; }
  /// The command that makes the index, for people.
  [[nodiscard]] Commands command_for(const IndexWatch& index) const;
  /// True if it has been answered what it asked first, and what followed from that.
  [[nodiscard]] bool is_checked() const;
  /// True if somebody holds what it lends.
  [[nodiscard]] bool is_used() const;

  // Begin to watch. The references are valid until the next call.
  IndexWatch& index(std::size_t rule, Time now);
  /// Event: a write asks. From now on it matters whether there is an index.
  IndexWatch& asked_for(std::size_t rule, Time now);
  SpaceWatch& space(std::string_view field, Time now);
  /// Has other indexes listed, before a duplicate comes that does not say of which index it is.
  void list_indexes(Time now);

  /// The next request that is due, which is not returned again before its answer. But for making
  /// an index in a collection that exists, which can take hours, and dropping one.
  [[nodiscard]] std::optional<InspectionRequest> next_check(Time now);
  /// The others.
  [[nodiscard]] std::optional<InspectionRequest> next_making(Time now);

  void learn(const ListIndexes& request, const IndexList& answer, Time now);
  void learn(const CountDocuments& request, const DocumentCount& answer, Time now);
  void learn(const MakeIndex& request, const MadeIndex& answer, Time now);
  void learn(const YieldIndex& request, const DroppedIndex& answer, Time now);

  /// Event: the guard of this rule has this request.
  void need(std::size_t rule, ids::Guard::Need need, Time now);
  /// Event: all that is known is void, and so are the answers that are under way.
  void forget(std::string_view why, Time now);
  /// Events: no server can be reached; one can again.
  void go_down();
  void retry(Time now);
  /// Says how full the spaces are if that is news.
  void judge_spaces(Time now);

 private:
  void plan();
  void plan_news();
  [[nodiscard]] std::optional<InspectionRequest> check(Time now);
  [[nodiscard]] ListIndexes list_request(Time now) const;
  void identify(const ListIndexes& request, const IndexList& answer);
  void judge(IndexWatch& index, const IndexList& answer, Time now);
  void judge_warned(IndexWatch& index, const IndexList& answer);
  void made(IndexWatch& index, const MadeIndex& answer, Time now);
  void wait_for(IndexWatch& index, std::string_view why, Time now);
  void set(IndexWatch& index, std::optional<ids::Error> obstacle);
  void publish(const IndexWatch& index);
  void report_fill(SpaceWatch& space, const ids::Fill::Seen& seen, Time now);
  void say(log::Level level, std::string_view event, std::string message, const std::string& field,
           std::string_view name = {}, std::string value = {});

  Surroundings* around_;
  Namespace ns_;
  std::vector<IndexWatch> indexes_;
  std::vector<SpaceWatch> spaces_;
  Inquiry listing_;   // of indexes
  Inquiry counting_;  // of documents
  std::optional<ids::UniqueIndexes> unique_indexes_;
  std::optional<ids::CollectionUuid> uuid_;
  bool is_anew_ = true;             // it is not known which collection it is
  std::uint64_t epoch_ = 0;         // an answer to a request of an earlier one is void
  Time listed_at_{};                // when the last listing that was answered began
  std::optional<Time> counted_at_;  // of the last answer, even of an error
  std::shared_ptr<const void> lent_ = std::make_shared<const bool>(true);
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

/// True if the proxy makes that index. Where values repeat by a field that it does not know, it
/// cannot.
[[nodiscard]] inline bool makes_index(const WatchedRule& rule) {
  return rule.field != "_id" && rule.unique_index == ids::UniqueIndex::create && !rule.repeats;
}

/// Why a rule is not ready: a transient reason.
[[nodiscard]] inline ids::Error not_yet(std::string reason) {
  return {ids::Errc::unavailable, std::move(reason)};
}

/// Why no more numbers are drawn from a space of random numbers; empty: they are.
[[nodiscard]] std::string why_full(const ids::Fill::Seen& seen);

}  // namespace idproxy::id_store
