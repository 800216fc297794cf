#include "config/counters.hpp"

#include <tuple>
#include <utility>
#include <vector>

#include "config/names.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/rule_source.hpp"

namespace idproxy::config {
namespace {

using About = ids::RuleSource::About;

/// About a rule with a counter or ranges; null for others.
const About* counter_of(const rewrite::Rule& rule) {
  const bool counts = rule.strategy != nullptr && rule.strategy->about().counter;
  return counts ? &rule.strategy->about() : nullptr;
}

std::string fault_of_fields(const std::vector<std::string>& fields, const std::string& field) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (auto fault = fault_of_field(fields[i]); !fault.empty()) return fault;
    if (is_prefix(fields[i], field) || is_prefix(field, fields[i])) {
      return "must not name the rule's own field '" + shown(field) + "', or a part of it";
    }
    // They are sorted, so that what lies within a field follows it.
    if (i > 0 && is_prefix(fields[i - 1], fields[i])) {
      return "must not name '" + shown(fields[i]) + "', which lies within '" +
             shown(fields[i - 1]) + "'";
    }
  }
  return {};
}

void check_sequences(const ids::SequenceOptions& sequences, const std::string& field,
                     Parameters& reader) {
  if (const auto fault = fault_of_fields(sequences.scope, field); !fault.empty()) {
    reader.error("scope", fault);
  }
  if (!sequences.text) return;
  for (const std::string& each : sequences.text->fields()) {
    if (const auto fault = fault_of_fields({each}, field); !fault.empty()) {
      reader.error("template", "has {field:" + shown(each) + "}: a field " + fault);
    }
  }
}

/// The collection whose own counter has this key, if the rule gives each one its own; or empty.
std::string_view collection_with(const About& about, std::string_view key) {
  const std::string end = "." + about.field.field;
  if (!about.per_namespace || !key.ends_with(end)) return {};
  key.remove_suffix(end.size());
  return glob_matches(about.field.ns, about.field.except, key) ? key : std::string_view();
}

/// True if a counter of one has the key of one of the other's.
bool share_key(const About& one, const About& other) {
  const std::string& key = one.counter->place.key;
  const std::string& other_key = other.counter->place.key;
  const std::string_view of_one = collection_with(one, other_key);
  const std::string_view of_other = collection_with(other, key);
  if (!one.per_namespace && !other.per_namespace) return key == other_key;
  // Only one of the rules gives a collection its values.
  if (!one.per_namespace || !other.per_namespace) {
    const std::string_view found = of_one.empty() ? of_other : of_one;
    const About& named = of_one.empty() ? one : other;
    return !found.empty() && (found != named.field.ns || one.field.field != other.field.field);
  }
  return (!of_one.empty() && of_one != other.field.ns) ||
         (!of_other.empty() && of_other != one.field.ns);
}

/// True if both use the same field of the same document. Documents of one collection with the same
/// key can differ only in their filters.
bool same_counter(const About& one, const About& other) {
  const ids::CounterPlace& a = one.counter->place;
  const ids::CounterPlace& b = other.counter->place;
  const auto kind = [](const ids::SequenceOptions& each) {
    return std::tuple(each.scope.size(), each.reset, each.year);
  };
  if (kind(one.sequences) != kind(other.sequences)) return false;
  const bool told_apart = a.key_field == b.key_field && a.filter != b.filter;
  return std::tie(a.db, a.collection, a.value_field) ==
             std::tie(b.db, b.collection, b.value_field) &&
         !told_apart && share_key(one, other);
}

/// Both rules have ranges.
bool check_shared_ranges(const About& earlier, const std::string& path, const About& later,
                         Parameters& reader) {
  const ids::RangesSpec& a = *earlier.ranges;
  const ids::RangesSpec& b = *later.ranges;
  const std::string collection = b.counter.place.ns();
  if (a.counter.place.ns() != collection) return false;
  if (a.name != b.name) {
    reader.error("strategy", "keeps its ranges in " + shown(collection) + ", where " + path +
                                 " has others, '" + shown(a.name) +
                                 "': set store.collection, or the same name");
    return true;
  }
  if (a == b && earlier.field.format.output == later.field.format.output) return false;
  reader.error("strategy", "shares the ranges '" + shown(b.name) + "' with " + path +
                               ", but not their ranges, pick, active, create, block, heal, "
                               "on_store_down and output");
  return true;
}

/// One rule has ranges, the other one a counter.
bool check_counter_in_ranges(const ids::RangesSpec& ranges, const ids::CounterPlace& counter,
                             const std::string& path, Parameters& reader) {
  const bool is_a_range = ranges.counter.place.ns() == counter.ns() && counter.key_field == "_id" &&
                          ids::range_number(counter.key);
  if (!is_a_range) return false;
  reader.error("strategy", "uses the document '" + shown(counter.key) + "' of " +
                               shown(counter.ns()) + ", and so does " + path +
                               ": for one of them, it is a range");
  return true;
}

/// The unique index of the layout mongoose-sequence has fields that other documents lack: only one
/// of them could be in its collection.
bool check_scope_index(const ids::CounterPlace& earlier, const std::string& path,
                       const ids::CounterPlace& later, Parameters& reader) {
  const bool is_mixed = earlier.scope_field.empty() != later.scope_field.empty();
  if (!is_mixed || earlier.ns() != later.ns()) return false;
  const auto& [plain, scoped] =
      earlier.scope_field.empty() ? std::tie(earlier, later) : std::tie(later, earlier);
  const bool has_name =
      plain.key_field == scoped.name_field ||
      (!plain.filter.empty() && bson::find(as_bytes(plain.filter), scoped.name_field));
  if (has_name) return false;
  reader.error("strategy", "keeps its counter in " + shown(later.ns()) + ", and so does " + path +
                               " in another layout: the unique index of mongoose-sequence lets one "
                               "document of other layouts be there. Set store.collection for one "
                               "of them");
  return true;
}

}  // namespace

bool has_counters_in(const rewrite::Rule& rule, const std::string& ns) {
  const About* about = counter_of(rule);
  return about != nullptr && about->counter->place.ns() == ns;
}

void check_counter(const rewrite::Rule& rule, Parameters& reader) {
  if (rule.strategy && !rule.field.empty()) {
    check_sequences(rule.strategy->about().sequences, rule.field, reader);
  }
  const About* about = counter_of(rule);
  if (about == nullptr) return;
  const ids::CounterPlace& place = about->counter->place;
  Parameters& store = reader.section("store");
  if (const auto fault = fault_of_own_database(place.db); !fault.empty()) store.error("db", fault);
  if (const auto fault = fault_of_own_collection(place.collection); !fault.empty()) {
    store.error("collection", fault);
  }
  check_counter_collection(rule, "this rule", rule, reader);
}

void demand_index(rewrite::Rule& rule, Parameters& reader) {
  const About* about = counter_of(rule);
  const bool demands = about != nullptr && rule.field != "_id" &&
                       (!about->sequences.scope.empty() || about->sequences.repeats());
  if (!demands || rule.unique_index != ids::UniqueIndex::warn) return;
  rule.unique_index = ids::UniqueIndex::require;
  if (!reader.given("unique_index")) return;
  reader.warning("unique_index",
                 "warn does not suffice: values of several sequences are the same, "
                 "so that the rule always requires a unique index");
}

bool check_shared_counter(const rewrite::Rule& earlier, const std::string& path,
                          const rewrite::Rule& later, Parameters& reader) {
  const About* a = counter_of(earlier);
  const About* b = counter_of(later);
  if (a == nullptr || b == nullptr) return false;
  if (check_scope_index(a->counter->place, path, b->counter->place, reader)) return true;
  if (a->ranges && b->ranges) return check_shared_ranges(*a, path, *b, reader);
  if (a->ranges) return check_counter_in_ranges(*a->ranges, b->counter->place, path, reader);
  if (b->ranges) return check_counter_in_ranges(*b->ranges, a->counter->place, path, reader);
  if (!same_counter(*a, *b)) return false;
  ids::CounterSpec first = *a->counter;
  const ids::CounterSpec& second = *b->counter;
  const std::string& key = b->per_namespace ? first.place.key : second.place.key;
  const std::string document = "the counter document '" + shown(key) + "' of " + path;
  if (a->per_namespace && b->per_namespace) {
    reader.error("name", "is missing: the rule would use " + document +
                             ", which is for other values. Set it here or there");
    return true;
  }
  first.place.key = second.place.key;
  const bool agree = first.place == second.place && first.step == second.step &&
                     first.seal == second.seal && a->field.format.output == b->field.format.output;
  if (!agree) {
    reader.error("strategy",
                 "uses " + document + ", but not with the same layout, step and output" +
                     (first.seal == second.seal ? "" : ", nor key, tweak and alphabet"));
    return true;
  }
  if (first == second) return false;
  reader.warning("strategy",
                 "shares " + document +
                     ", but not its start, max, block, scan, heal and on_store_down: those of the "
                     "rule that is used first apply to both");
  return false;
}

bool check_counter_collection(const rewrite::Rule& counting, const std::string& path,
                              const rewrite::Rule& rule, Parameters& reader) {
  if (rule.ns.empty() || !has_counters_in(counting, rule.ns)) return false;
  reader.error("ns",
               "'" + shown(rule.ns) + "' is never touched: " + path + " keeps its counters there");
  return true;
}

}  // namespace idproxy::config
