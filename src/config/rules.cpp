#include "config/rules.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <utility>

#include "config/conditions.hpp"
#include "config/counters.hpp"
#include "config/exceptions.hpp"
#include "config/names.hpp"
#include "config/reserves.hpp"
#include "config/tree.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/ids/strategies.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::config {
namespace {

using namespace std::chrono_literals;
using rewrite::Assign;
using rewrite::InTransaction;

// Each rule is compared with every other.
constexpr std::size_t kMaxRules = 1000;

std::vector<std::string_view> names_of_strategies() {
  std::vector<std::string_view> names;
  for (const ids::Kind& kind : ids::kinds()) names.push_back(kind.name);
  names.push_back(kNone);
  return names;
}

/// Reports contradictory pauses at a key that the file contains.
void check_backoff(const rewrite::Retry& retry, Parameters& reader) {
  if (retry.backoff_max < retry.backoff) {
    reader.error("backoff_max", "must not be below backoff (" + duration_text(retry.backoff) + ")");
  }
  if (retry.deadline > retry.backoff) return;
  if (reader.given("deadline")) {
    reader.error("deadline", "must be above backoff (" + duration_text(retry.backoff) +
                                 "): nothing would ever be sent again");
  } else {
    reader.error("backoff", "must be below deadline (" + duration_text(retry.deadline) +
                                "): nothing would ever be sent again");
  }
}

rewrite::Retry read_retry(Parameters& reader) {
  const std::size_t errors = reader.errors();
  rewrite::Retry retry;
  const auto attempts = static_cast<std::uint32_t>(reader.integer("attempts", 0, 100, 0));
  if (reader.given("attempts")) retry.attempts = attempts;
  retry.backoff = reader.duration("backoff", 0ms, 1min, retry.backoff);
  // A backoff above the default of backoff_max raises that default, so that one key is enough.
  retry.backoff_max =
      reader.duration("backoff_max", 0ms, 1min, std::max(retry.backoff_max, retry.backoff));
  retry.deadline = reader.duration("deadline", 1ms, 1h, retry.deadline);
  if (reader.errors() == errors) check_backoff(retry, reader);
  return retry;
}

/// A required name; "" after a fault.
template <class FaultOf>
std::string read_name(std::string_view key, Parameters& rule, FaultOf fault_of) {
  std::string name = rule.required_text(key);
  const std::string fault = name.empty() ? "" : fault_of(name);
  if (fault.empty()) return name;
  rule.error(key, fault);
  return {};
}

std::chrono::seconds read_driver_window(Parameters& rule) {
  const auto window = rule.duration("driver_window", 1s, 24h, 300s);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(window);
  if (seconds != window) {
    rule.error("driver_window", "must be whole seconds, is " + duration_text(window));
  }
  return seconds;
}

void read_keep_driver_id(rewrite::Rule& rule, Parameters& reader) {
  const auto field = reader.optional_text("keep_driver_id");
  if (!field) return;
  if (const auto fault = fault_of_plain_field(*field); !fault.empty()) {
    reader.error("keep_driver_id", fault);
    return;
  }
  if (!rule.field.empty() && !rule.replaces_driver_ids()) {
    reader.error("keep_driver_id", "needs field: _id and assign: driver or always");
    return;
  }
  rule.keep_driver_id = *field;
}

void warn_of_replaced_ids(const rewrite::Rule& rule, Parameters& reader) {
  const std::string way_out =
      rule.keep_driver_id.empty()
          ? "keep_driver_id: FIELD would store it in a field of its own"
          : "the application finds it in '" + shown(rule.keep_driver_id) + "'";
  reader.warning("assign",
                 "drivers report the ObjectId that they made as insertedId, but it is not stored "
                 "as _id: findById and references that use it find nothing, and replaceOne with "
                 "upsert stores a second document; " +
                     way_out +
                     "; an application that asks for its _id beforehand, {idproxy: \"next\"}, has "
                     "none of this");
}

/// Most drivers send an _id, and then a rule that only fills in a missing one never does anything.
/// An operator whose drivers do not says so by writing `assign` down.
void warn_of_kept_ids(Parameters& reader) {
  if (reader.given("assign")) return;
  reader.warning("assign",
                 "most drivers send an _id of their own, which the default, missing, leaves as it "
                 "is, so that this rule would do nothing. Make the driver leave _id out "
                 "(docs/drivers.md#documents-without-an-_id) and write assign: missing here, or "
                 "set assign: driver");
}

void warn_of_driver_ids(const rewrite::Rule& rule, Parameters& reader) {
  if (rule.field != "_id") return;
  rule.replaces_driver_ids() ? warn_of_replaced_ids(rule, reader) : warn_of_kept_ids(reader);
}

void refuse_strategy(const std::string& name, Parameters& rule) {
  const auto names = names_of_strategies();
  rule.error("strategy", "must be one of " + listed(names) + ", is '" + shown(name) + "'" +
                             suggestion(name, names));
  rule.accept_all();  // the keys of an unknown strategy are unknown, too
}

/// How other strategies write their values, and what to do here instead.
void refuse_writing(std::string_view strategy, Parameters& reader) {
  const auto refuse = [&](std::initializer_list<const char*> keys, const char* reason) {
    for (const char* key : keys) {
      if (!reader.given(key) || reader.specs().contains(key)) continue;
      static_cast<void>(reader.text(key, ""));  // or it would be unknown, too
      reader.error(key, std::string("is for other strategies: ") + reason);
    }
  };
  if (strategy == "ulid") {
    refuse({"encoding", "alphabet"},
           "a ulid is in base32upper; with output: uuid or binary it is 16 bytes");
  } else if (strategy == "random-digits") {
    refuse({"encoding", "alphabet", "prefix"},
           "the values are decimal digits; nanoid has an `alphabet` and a `prefix`");
  } else if (strategy == "counter-ranges") {
    refuse({"encoding", "alphabet", "prefix"},
           "the values are plain numbers; counter has an `encoding` and `format.prefix`");
  }
  refuse({"encoding"}, "`alphabet` says which characters the values have");
  refuse({"alphabet"}, "`encoding` says which characters the values have");
}

void read_strategy(rewrite::Rule& rule, Parameters& reader, const std::string& store_db,
                   ids::Sources sources) {
  if (rule.strategy_name.empty()) return reader.accept_all();
  for (const ids::Kind& kind : ids::kinds()) {
    if (kind.name != rule.strategy_name) continue;
    const std::size_t errors = reader.errors();
    rule.strategy = kind.make(reader, sources, store_db);
    refuse_writing(kind.name, reader);
    if (reader.errors() != errors) rule.strategy.reset();
    check_counter(rule, reader);
    return demand_index(rule, reader);
  }
  refuse_strategy(rule.strategy_name, reader);
}

/// An invoice without a number is worse than an error.
bool has_no_gaps(const rewrite::Rule& rule) {
  return rule.strategy != nullptr && rule.strategy->about().gapless;
}

void read_keep(rewrite::Rule& rule, Parameters& reader) {
  rule.keep = static_cast<rewrite::Keep>(reader.choice("keep", {"replacements", "always", "off"}));
  if (rule.field == "_id" && reader.given("keep")) {
    reader.error("keep", "is for other fields: no update changes an _id; leave it out");
  }
}

/// The defaults that depend on the strategy.
void note_defaults(const rewrite::Rule& rule, Parameters& reader) {
  const bool has_gaps = !has_no_gaps(rule);
  reader.section("retry").falls_back_to(
      "attempts",
      std::to_string(has_gaps ? ids::Source::kAttempts : rewrite::Assignment::kAttemptsInTurn));
  if (!has_gaps) reader.falls_back_to("upserts", "refuse");
  if (!has_gaps || rule.unique_index == ids::UniqueIndex::require) {
    reader.falls_back_to("unique_index", "require");
  }
}

/// The keys that do not affect which values a rule makes, only how it puts them into documents.
constexpr std::array<std::string_view, 11> kOfTheRuleAlone{
    "assign", "driver_window", "except", "in_transaction", "keep", "keep_driver_id",
    "report", "reserve",       "retry",  "upserts",        "when"};

/// A text that is equal for two rules if their values come from the same source. It includes the
/// store's database, the default for counters, and what tells the keys of hidden numbers apart. A
/// counter that collections share looks into all of them.
std::string source_of(const rewrite::Rule& rule, const TreeNode& node,
                      const std::string& store_db) {
  const bool counts = rule.strategy != nullptr && rule.strategy->about().counter;
  const bool shares = counts && !rule.strategy->about().per_namespace;
  return canonical_text(node, kOfTheRuleAlone) + " " +
         (shares ? exceptions_text(rule.except) : "") + store_db +
         (counts ? " " + rule.strategy->about().counter->seal.fpe : "");
}

void read_collections(rewrite::Rule& rule, Parameters& reader, const std::string& store_db) {
  rule.ns = read_name("ns", reader, [&](std::string_view ns) { return fault_of_ns(ns, store_db); });
  rule.except = read_except(rule.ns, reader);
}

/// Of a rule with faults, `ns` is left empty.
rewrite::Rule read_none(Parameters& reader, const std::string& store_db) {
  const std::size_t errors = reader.errors();
  rewrite::Rule none;
  read_collections(none, reader, store_db);
  none.field = reader.optional_text("field").value_or("");
  const std::string fault = none.field.empty() ? "" : fault_of_field(none.field);
  if (!fault.empty()) reader.error("field", fault);
  none.strategy_name = reader.required_text("strategy");
  reader.spec("strategy").words = names_of_strategies();
  if (reader.errors() != errors) none.ns.clear();
  return none;
}

rewrite::Rule read_rule(Parameters& reader, const std::string& store_db, ids::Sources sources,
                        std::span<const Draft> before) {
  rewrite::Rule rule;
  read_collections(rule, reader, store_db);
  rule.field = read_name("field", reader, fault_of_field);
  rule.strategy_name = reader.required_text("strategy");
  reader.spec("strategy").words = names_of_strategies();
  rule.assign = static_cast<Assign>(reader.choice(
      "assign", {"missing", "missing-or-null", "missing-or-zero", "driver", "always"}));
  rule.when = read_when(rule.field, reader);
  rule.driver_window = read_driver_window(reader);
  read_keep_driver_id(rule, reader);
  leave_alone(rule, before, reader);
  warn_of_driver_ids(rule, reader);
  rule.retry = read_retry(reader.section("retry"));
  rule.in_transaction =
      static_cast<InTransaction>(reader.choice("in_transaction", {"transient", "surface"}));
  rule.report = reader.boolean("report", false);
  rule.unique_index =
      static_cast<ids::UniqueIndex>(reader.choice("unique_index", {"warn", "require", "create"}));
  rule.upserts =
      static_cast<rewrite::Upserts>(reader.choice("upserts", {"assign", "forward", "refuse"}));
  read_keep(rule, reader);
  read_strategy(rule, reader, store_db, sources);
  if (has_no_gaps(rule) && !reader.given("upserts")) rule.upserts = rewrite::Upserts::refuse;
  note_defaults(rule, reader);
  read_reserve(rule, reader);
  if (rule.reserve) rule.id_strategy = ids::make_object_ids(sources);
  if (rule.strategy != nullptr) rule.strategy->leave_alone(rule.except);
  rule.definition = canonical_texts(*reader.node());
  if (!rule.except.empty()) rule.definition["except"] = exceptions_text(rule.except);
  rule.source = source_of(rule, *reader.node(), store_db);
  return rule;
}

bool is_none(const Parameters& reader) {
  const TreeNode* strategy = reader.find("strategy");
  return strategy != nullptr && strategy->text == kNone;
}

bool nested(std::string_view a, std::string_view b) {
  return is_prefix(a, b) || is_prefix(b, a);
}

/// True if `earlier` matches all that `later` matches. Of two rules that fill a field and have
/// different wildcards, neither is said to hide the other.
bool hides(const Draft& earlier, const rewrite::Rule& later) {
  const rewrite::Rule& first = earlier.rule;
  if (!has_wildcards(later.ns)) return first.matches(later.ns);
  const bool leaves_more = std::ranges::any_of(first.except, [&](const Glob& each) {
    return globs_overlap(each.pattern, later.ns) &&
           std::ranges::find(later.except, each) == later.except.end();
  });
  if (leaves_more) return false;
  return first.ns == later.ns || (earlier.is_none() && glob_covers(first.ns, later.ns));
}

/// Why `later` can never be reached behind `earlier`, or "".
std::string why_unreachable(const Draft& earlier, const Draft& later) {
  if (!earlier.takes(later.rule.field) || !hides(earlier, later.rule)) return {};
  const std::string first = "never reached: " + earlier.reader->path();
  if (earlier.is_none()) {
    return first + " (strategy: none) takes it out; put this rule in front of it";
  }
  if (earlier.rule.ns == later.rule.ns) return first + " has the same ns and field";
  return first + " ('" + shown(earlier.rule.ns) +
         "') matches first; put the narrower rule in front of it";
}

// Each check returns true if it has reported an error.

bool check_reachable(const Draft& earlier, const Draft& later) {
  const std::string reason = why_unreachable(earlier, later);
  if (!reason.empty()) later.reader->error("ns", reason);
  return !reason.empty();
}

bool check_fields(const Draft& earlier, const Draft& later) {
  const std::string& a = earlier.rule.field;
  const std::string& b = later.rule.field;
  if (a == b || !nested(a, b) || !overlap(earlier.rule, later.rule)) return false;
  later.reader->error("field", "'" + shown(b) + "' and '" + shown(a) + "' of " +
                                   earlier.reader->path() +
                                   " cannot both be assigned in one document: one contains the "
                                   "other");
  return true;
}

bool check_kept(const Draft& keeping, const Draft& other) {
  const std::string& field = keeping.rule.keep_driver_id;
  if (field.empty() || !nested(field, other.rule.field) || !overlap(keeping.rule, other.rule))
    return false;
  keeping.reader->error("keep_driver_id", "'" + shown(field) + "' is assigned by " +
                                              other.reader->path() + " (field " +
                                              shown(other.rule.field) + ")");
  return true;
}

bool check_counters(const Draft& earlier, const Draft& later) {
  const std::string& path = earlier.reader->path();
  return check_shared_counter(earlier.rule, path, later.rule, *later.reader) ||
         check_counter_collection(earlier.rule, path, later.rule, *later.reader) ||
         check_counter_collection(later.rule, later.reader->path(), earlier.rule, *earlier.reader);
}

bool check_pair(const Draft& earlier, const Draft& later) {
  const auto unnamed = [](const Draft& d) {
    return d.rule.ns.empty() || (d.rule.field.empty() && !d.is_none());
  };
  if (unnamed(earlier) || unnamed(later)) return false;
  if (check_reachable(earlier, later)) return true;
  if (earlier.is_none() || later.is_none()) return false;
  return check_fields(earlier, later) || check_kept(earlier, later) || check_kept(later, earlier) ||
         check_counters(earlier, later) ||
         check_reservations(earlier.rule, earlier.reader->path(), later.rule, *later.reader);
}

/// Reports one error per rule: a rule that conflicts with many others is the one to change.
void check_pairs(std::span<const Draft> drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const auto before = drafts.first(i);
    (void)std::any_of(before.begin(), before.end(),
                      [&](const Draft& earlier) { return check_pair(earlier, drafts[i]); });
  }
}

}  // namespace

std::vector<rewrite::Rule> read_rules(Parameters& file, const std::string& store_db,
                                      ids::Sources sources) {
  const auto readers = file.list("rules");
  if (!readers) return {};
  file.spec("rules").max = kMaxRules;
  if (readers->empty()) file.warning("rules", "is empty: everything is relayed unchanged");
  if (readers->size() > kMaxRules) {
    file.error("rules", "must be at most " + std::to_string(kMaxRules));
    for (Parameters* reader : *readers) reader->accept_all();
    return {};
  }
  std::vector<Draft> drafts;
  for (Parameters* reader : *readers) {
    if (reader->node() == nullptr) continue;
    drafts.push_back({is_none(*reader) ? read_none(*reader, store_db)
                                       : read_rule(*reader, store_db, sources, drafts),
                      reader});
  }
  const std::size_t errors = file.errors();
  check_pairs(drafts);
  if (file.errors() == errors) check_nones(drafts);
  std::vector<rewrite::Rule> rules;
  rules.reserve(drafts.size());
  for (Draft& draft : drafts) {
    if (draft.is_none()) continue;
    rules.push_back(std::move(draft.rule));
    rules.back().nones_before = static_cast<std::size_t>(&draft - drafts.data()) + 1 - rules.size();
  }
  return rules;
}

}  // namespace idproxy::config
