#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "id_store/outcome.hpp"
#include "idproxy/id_store/watch.hpp"
#include "idproxy/ids/fill.hpp"
#include "idproxy/observability/log.hpp"

/// What is known of collections, and what is to be asked next: the Inspector's thoughts, without
/// its threads and connections.
namespace idproxy::id_store {

/// What a server can be asked about a collection, or about all of a database.
struct Question {
  enum class Kind {
    left_alone,  ///< which collections of the database are views or time-series collections
    indexes,
    documents,
    make_index,  ///< a unique one on `field`
  };
  Kind kind;
  std::string db;
  std::string collection;  ///< empty: left_alone
  std::string field;       ///< make_index only
  friend bool operator==(const Question&, const Question&) = default;
};

/// An index as the server lists it.
struct Index {
  std::string name;
  std::vector<std::string> fields;  ///< of its key, in their order
  bool unique = false;
  bool partial = false;   ///< holds some of the documents only
  bool building = false;  ///< it may still fail
};

struct Answer {
  enum class Kind {
    answered,
    no_collection,
    not_permitted,
    refused,      ///< the server answered with another error
    unreachable,  ///< no server, no login, no primary, or no answer in time
  };
  Kind kind = Kind::answered;
  std::string reason{};  ///< why it was refused or is unreachable; never holds a document's value
  std::set<std::string, std::less<>> left_alone{};
  std::vector<Index> indexes{};
  std::uint64_t documents = 0;
};

/// Something for the log. Its fields end with the first that is empty.
struct Remark {
  struct Field {
    std::string_view name;
    std::string value;
  };
  log::Level level;
  std::string_view event;
  std::string message;
  Field fields[3];
};

// Part of reasons.
inline constexpr const char* kCannotCheck =
    "whether a unique index guards the field cannot be checked: ";

/// Not thread-safe. Times are monotonic. Of collections and databases that rules do not name
/// literally, those asked about least recently are forgotten when there are too many.
class Collections {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr Time kNever = Time::max();
  static constexpr std::size_t kMostCollections = 4096;
  static constexpr std::size_t kMostDatabases = 1024;
  static constexpr std::size_t kMostLeftAlone = 10'000;  ///< per database
  /// How long an answer is good for; and when what is not as it should be is asked about again.
  static constexpr std::chrono::seconds kRound{60};
  static constexpr std::chrono::seconds kSoon{10};

  /// Who answers a question: making an index can take hours.
  enum class Asks { looks, make_index };

  Collections(std::vector<Watched> rules, Time now);
  /// What is known of collections that these rules touch too, is known here from the beginning: in
  /// the part of a rule that has the field and the unique_index of the rule before. Those that are
  /// not known as well as they should be belong to the first look. Whoever answers questions of
  /// `before` tells both.
  Collections(std::vector<Watched> rules, Time now, Collections before);

  [[nodiscard]] const std::vector<Watched>& rules() const { return rules_; }

  // As Watch's. What is not known yet becomes a question.
  [[nodiscard]] ids::Standing standing(std::size_t rule_index, std::string_view db,
                                       std::string_view collection, Time now);
  [[nodiscard]] std::shared_ptr<ids::Fill> fill(std::string_view ns, std::string_view field,
                                                Time now);
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t most_per_rule) const;
  [[nodiscard]] std::vector<std::size_t> not_ready_counts() const;
  /// No server could be reached when one was asked last.
  [[nodiscard]] bool is_down() const { return down_.has_value(); }
  /// True if there has come up something to ask since the last call.
  [[nodiscard]] bool take_news() { return std::exchange(news_, false); }

  /// What should be asked now; it is not due again before learn() has been told the answer.
  [[nodiscard]] std::optional<Question> next(Asks asks, Time now);
  void learn(const Question& question, const Answer& answer, Time now);
  /// When next() has something; kNever: not before something changes.
  [[nodiscard]] Time due(Asks asks) const;
  /// True once all that rules name literally, and what was known before, has been looked at, or a
  /// server could not be reached.
  [[nodiscard]] bool looked() const;
  /// What has been found out since the last call.
  [[nodiscard]] std::vector<Remark> remarks(Time now);
  /// When to look for some though nothing has been learnt.
  [[nodiscard]] Time remarks_due() const { return fills_due_; }
  /// Somebody else tells the log.
  void drop_remarks() { remarks_.clear(); }

 private:
  struct Known {
    std::uint64_t asked = 0;  // the larger, the more recently
    bool pinned = false;      // a rule names it
    bool awaited = false;     // belongs to the first look
    bool failed = false;      // the last question was not answered, for want of a server
  };
  struct Database : Known {
    std::set<std::string, std::less<>> left_alone;
    std::optional<Time> failing_since;
    Time due{};
    bool open = true;  // never answered yet
    [[nodiscard]] bool looked() const { return !open; }
  };
  /// One rule in one collection.
  struct Guard {
    enum class State { unchecked, ready, failed };
    std::size_t rule;
    State state = State::unchecked;
    std::string reason;    // why it is not ready
    std::string reported;  // the reason that the log has
    bool warned = false;   // of a missing index
    bool making = false;
    Time make_due = kNever;
    Time make_begun{};
  };
  struct Numbers {
    std::string field;
    std::shared_ptr<ids::Fill> fill;
    Time age_due{};
    Time warn_due{};
    bool full = false;
  };
  struct Collection : Known {
    std::string db;
    std::string name;
    std::vector<Guard> guards;
    std::vector<Numbers> numbers;
    Time indexes_due = kNever;
    Time documents_due = kNever;
    bool indexes_open = false;  // never answered yet
    bool documents_open = false;
    [[nodiscard]] bool looked() const;
    [[nodiscard]] std::string ns() const { return db + "." + name; }
  };

  template <class Item>
  Item& recall(std::map<std::string, Item, std::less<>>& items, std::string_view name,
               std::size_t most);
  Database& database(std::string_view db);
  Collection& collection(std::string_view db, std::string_view name);
  Guard& guard(Collection& collection, std::size_t rule, Time now);
  Numbers& numbers(Collection& collection, std::string_view field, Time now);
  void pin(std::size_t rule, Time now);
  void take_over(Collections& before, Time now);
  void take_over(Collection known, const std::vector<Watched>& before, Time now);
  void take_over(Collection& known, const std::vector<Guard>& guards,
                 const std::vector<Watched>& before, std::size_t rule, Time now);
  void take_over(Collection& known, const std::vector<Numbers>& numbers,
                 const std::vector<Watched>& before, std::size_t rule, Time now);
  static void resume(bool wanted, Time& due, bool& open, Time now);
  void begin_first_look();

  [[nodiscard]] bool is_left_alone(std::string_view ns) const;
  [[nodiscard]] static ids::Standing standing_of(const Guard& guard);
  [[nodiscard]] static std::optional<std::size_t> rule_of(const std::vector<Watched>& rules,
                                                          std::string_view ns,
                                                          std::string_view field);
  template <class Use>
  void each_not_ready(const Use& use) const;
  std::optional<Question> next_look(Time now);
  static void leave_alone(Collection& collection, Time now);
  std::optional<Question> next_index(Time now);

  void reached(const Answer& answer, Time now);
  void go_down(const std::string& reason);
  void learn_left_alone(Database& database, std::string_view db, const Answer& answer, Time now);
  void learn_indexes(Collection& collection, const Answer& answer, Time now);
  void learn_documents(Collection& collection, const Answer& answer, Time now);
  void learn_made(Collection& collection, Guard& guard, const Answer& answer, Time now);
  void judge(Collection& collection, Guard& guard, const Answer& answer, Time now);
  void judge_warned(Collection& collection, Guard& guard, const Answer& answer);
  void set(Collection& collection, Guard& guard, Guard::State state, std::string reason);
  void miss(std::string_view privilege, const std::string& db, const std::string& collection);
  void judge_fill(const Collection& collection, Numbers& numbers, Time now);

  std::vector<Watched> rules_;
  std::map<std::string, Database, std::less<>> databases_;
  std::map<std::string, Collection, std::less<>> collections_;  // by namespace
  std::set<std::string, std::less<>> missed_;                   // "privilege db", as said
  std::vector<Remark> remarks_;
  std::optional<std::string> down_;  // why no server can be reached
  bool was_down_ = false;            // ever
  bool news_ = false;
  Time not_before_{};  // while it is so
  Time fills_due_ = kNever;
  std::uint64_t asked_ = 0;
  std::uint64_t version_ = 1;
};

/// The command that makes the unique index, as a person types it in mongosh.
[[nodiscard]] std::string create_index_command(std::string_view db, std::string_view collection,
                                               std::string_view field);

/// Why no more numbers are drawn from a space of random numbers; empty: they are.
[[nodiscard]] std::string why_full(const ids::Fill::Seen& seen);

}  // namespace idproxy::id_store
