#include <algorithm>
#include <chrono>
#include <utility>

#include "id_store/inspector_collections.hpp"

// What Collections makes of answers.
namespace idproxy::id_store {
namespace {

using namespace std::chrono_literals;
using ids::UniqueIndex;
using Kind = Answer::Kind;

// A server that cannot be reached is tried again; finding that out takes a second by itself.
constexpr auto kRest = 250ms;
// A try to make an index reads the whole collection: that shall not be all that its server does.
constexpr int kRestPerTry = 10;
constexpr auto kLongestRest = 1h;

/// The field is the only one of its key: with another one behind it, its values may repeat. Without
/// a condition too. A sparse index will do: a document without the field cannot repeat its value.
bool guards(const Index& index, std::string_view field) {
  return index.unique && !index.partial && index.fields.size() == 1 && index.fields[0] == field;
}

bool seems_to_guard(const Index& index, std::string_view field) {
  return index.unique && !index.fields.empty() && index.fields[0] == field;
}

/// Why an index that seems to do does not, for people: "", or it begins with a blank.
std::string why_not(const std::vector<Index>& indexes, std::string_view field) {
  for (const Index& index : indexes) {
    if (!seems_to_guard(index, field) || guards(index, field)) continue;
    return " (" + index.name + " does not do: " +
           (index.partial ? "it holds some of the documents only)"
                          : "its key has further fields, and values may repeat)");
  }
  return {};
}

/// For clients too: which servers did not answer, and how, is in the log.
std::string cause_of(const Answer& answer) {
  return answer.kind == Kind::unreachable ? kNoAnswer : answer.reason;
}

/// What is not done without it.
std::string consequence(std::string_view privilege) {
  if (privilege == "listCollections") {
    return "views and time-series collections of this database are not known: rules apply to them "
           "as to ordinary collections";
  }
  if (privilege == "listIndexes") return "unique indexes are not known";
  if (privilege == "collStats") {
    return "documents are not counted: how many numbers are in use is told from duplicates only";
  }
  return "unique indexes cannot be made";
}

}  // namespace

void Collections::learn(const Question& question, const Answer& answer, Time now) {
  reached(answer, now);
  if (question.kind == Question::Kind::left_alone) {
    const auto database = databases_.find(question.db);
    if (database != databases_.end()) {
      learn_left_alone(database->second, question.db, answer, now);
    }
    return;
  }
  const auto found = collections_.find(question.db + "." + question.collection);
  if (found == collections_.end()) return;  // forgotten meanwhile
  Collection& collection = found->second;
  if (question.kind == Question::Kind::indexes) return learn_indexes(collection, answer, now);
  if (question.kind == Question::Kind::documents) return learn_documents(collection, answer, now);
  for (Guard& guard : collection.guards) {
    const bool is_this = guard.making && rules_[guard.rule].field == question.field;
    if (is_this) learn_made(collection, guard, answer, now);
  }
}

/// When a server is there again, all that it did not answer is asked at once.
void Collections::reached(const Answer& answer, Time now) {
  if (answer.kind == Kind::unreachable) {
    not_before_ = now + kRest;
    if (!down_) go_down(answer.reason);
    return;
  }
  if (!down_) return;
  down_.reset();
  not_before_ = {};
  const auto hurry = [now](bool& failed, Time& due) {
    if (std::exchange(failed, false)) due = std::min(due, now);
  };
  for (auto& [name, database] : databases_) hurry(database.failed, database.due);
  for (auto& [ns, collection] : collections_) {
    if (!std::exchange(collection.failed, false)) continue;
    for (Time Collection::* due : {&Collection::indexes_due, &Collection::documents_due}) {
      if (collection.*due != kNever) collection.*due = std::min(collection.*due, now);
    }
  }
  remarks_.push_back({log::Level::info,
                      "inspection_again",
                      "the id store answers again: collections are looked at",
                      {}});
}

/// Nothing else needs to be tried to know that it cannot be checked.
void Collections::go_down(const std::string& reason) {
  was_down_ = true;
  down_ = reason;
  remarks_.push_back({log::Level::warning,
                      "inspection_failing",
                      "the id store does not answer: collections are not looked at",
                      {{"reason", reason}, {}, {}}});
  for (auto& [ns, collection] : collections_) {
    for (Guard& guard : collection.guards) {
      if (guard.state != Guard::State::unchecked || guard.making) continue;
      set(collection, guard, guard.state, std::string(kCannotCheck) + kNoAnswer);
    }
  }
}

void Collections::learn_left_alone(Database& database, std::string_view db, const Answer& answer,
                                   Time now) {
  const bool answered = answer.kind == Kind::answered;
  const bool not_permitted = answer.kind == Kind::not_permitted;
  if (not_permitted) miss("listCollections", std::string(db), "");
  database.open = false;
  database.failed = answer.kind == Kind::unreachable;
  if (answered || not_permitted) {
    database.failing_since.reset();
  } else if (!database.failing_since) {
    database.failing_since = now;
  }
  database.due = now + (database.failing_since ? kSoon : kRound);
  // What was known is not trusted for ever.
  if (database.failing_since && now - *database.failing_since < kRound) return;
  if (database.left_alone == answer.left_alone) return;
  database.left_alone = answer.left_alone;
  ++version_;
}

void Collections::learn_documents(Collection& collection, const Answer& answer, Time now) {
  collection.documents_open = false;
  collection.failed = collection.failed || answer.kind == Kind::unreachable;
  collection.documents_due = now + (answer.kind == Kind::unreachable ? kSoon : kRound);
  if (answer.kind == Kind::not_permitted) miss("collStats", collection.db, collection.name);
  if (answer.kind != Kind::answered && answer.kind != Kind::no_collection) return;
  for (Numbers& numbers : collection.numbers) numbers.fill->counted(answer.documents);
  fills_due_ = std::min(fills_due_, now);
}

void Collections::learn_indexes(Collection& collection, const Answer& answer, Time now) {
  collection.indexes_open = false;
  collection.failed = collection.failed || answer.kind == Kind::unreachable;
  if (answer.kind == Kind::not_permitted) miss("listIndexes", collection.db, collection.name);
  bool all_well = true;
  for (Guard& guard : collection.guards) {
    judge(collection, guard, answer, now);
    all_well = all_well && guard.state == Guard::State::ready;
  }
  const bool unreachable = answer.kind == Kind::unreachable;
  collection.indexes_due = now + (all_well && !unreachable ? kRound : kSoon);
}

void Collections::judge(Collection& collection, Guard& guard, const Answer& answer, Time now) {
  const Watched& rule = rules_[guard.rule];
  if (rule.unique_index == UniqueIndex::warn) return judge_warned(collection, guard, answer);
  const bool creates = rule.unique_index == UniqueIndex::create;
  if (answer.kind == Kind::unreachable || answer.kind == Kind::refused) {
    if (guard.state != Guard::State::unchecked) return;
    return set(collection, guard, Guard::State::unchecked, kCannotCheck + cause_of(answer));
  }
  const auto found = std::find_if(answer.indexes.begin(), answer.indexes.end(),
                                  [&](const Index& index) { return guards(index, rule.field); });
  if (found != answer.indexes.end() && !found->building) {
    guard.make_due = kNever;
    return set(collection, guard, Guard::State::ready, {});
  }
  if (found != answer.indexes.end() || guard.making) {
    if (guard.state == Guard::State::failed) return;
    return set(collection, guard, Guard::State::unchecked,
               "the unique index on the field is still being built");
  }
  if (creates) {
    if (answer.kind == Kind::not_permitted && guard.state == Guard::State::ready) return;
    if (guard.make_due == kNever) guard.make_due = now;
    return;
  }
  if (answer.kind == Kind::not_permitted) {
    return set(collection, guard, Guard::State::failed,
               "the id store's user may not listIndexes of " + collection.ns() +
                   ", which unique_index: require needs");
  }
  set(collection, guard, Guard::State::failed,
      "no unique index guards the field" + why_not(answer.indexes, rule.field) + "; make it with " +
          create_index_command(collection.db, collection.name, rule.field));
}

/// Once per collection, when it is there.
void Collections::judge_warned(Collection& collection, Guard& guard, const Answer& answer) {
  const std::string& field = rules_[guard.rule].field;
  if (guard.warned || answer.kind != Kind::answered) return;
  if (std::any_of(answer.indexes.begin(), answer.indexes.end(),
                  [&](const Index& index) { return guards(index, field); })) {
    return;
  }
  guard.warned = true;
  const std::string command = create_index_command(collection.db, collection.name, field);
  remarks_.push_back(
      {log::Level::warning,
       "no_unique_index",
       "no unique index keeps a value from being stored twice" + why_not(answer.indexes, field),
       {{"ns", collection.ns()}, {"field", field}, {"command", command}}});
}

void Collections::learn_made(Collection& collection, Guard& guard, const Answer& answer, Time now) {
  guard.making = false;
  if (answer.kind == Kind::answered) return set(collection, guard, Guard::State::ready, {});
  const Time rest = std::min<Time>((now - guard.make_begun) * kRestPerTry, kLongestRest);
  guard.make_due = now + std::max<Time>(rest, kSoon);
  if (answer.kind == Kind::unreachable) {
    if (guard.state != Guard::State::unchecked) return;
    return set(collection, guard, Guard::State::unchecked,
               "the unique index on the field cannot be made: " + cause_of(answer));
  }
  if (answer.kind == Kind::not_permitted) {
    miss("createIndex", collection.db, collection.name);
    return set(collection, guard, Guard::State::failed,
               "the id store's user may not createIndex in " + collection.ns() +
                   ", which unique_index: create needs");
  }
  set(collection, guard, Guard::State::failed,
      "the unique index on the field cannot be made: " + answer.reason);
}

/// The log hears of each reason once, and of the end of it.
void Collections::set(Collection& collection, Guard& guard, Guard::State state,
                      std::string reason) {
  const std::string& field = rules_[guard.rule].field;
  if (guard.state != state || guard.reason != reason) ++version_;
  guard.state = state;
  guard.reason = std::move(reason);
  if (guard.reported == guard.reason) return;
  guard.reported = guard.reason;
  const bool ready = state == Guard::State::ready;
  remarks_.push_back({ready ? log::Level::info : log::Level::warning,
                      ready ? "ready_again" : "not_ready",
                      ready ? "the rule is ready: a unique index guards its field"
                            : "inserts that need a value of the rule are refused",
                      {{"ns", collection.ns()}, {"field", field}, {"reason", guard.reason}}});
}

/// Named once per database, with the first collection that it was missed for.
void Collections::miss(std::string_view privilege, const std::string& db,
                       const std::string& collection) {
  // As many as there are databases that clients can make us remember.
  if (missed_.size() >= 4 * kMostDatabases) return;
  if (!missed_.insert(std::string(privilege) + " " + db).second) return;
  remarks_.push_back(
      {log::Level::warning,
       "missing_privilege",
       "the id store's user may not " + std::string(privilege) + " in " + db + ": " +
           consequence(privilege),
       {{"privilege", std::string(privilege)}, {"db", db}, {"collection", collection}}});
}

}  // namespace idproxy::id_store
