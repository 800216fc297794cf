#include "config/counters.hpp"

#include <tuple>
#include <utility>
#include <vector>

#include "config/names.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/ids/counter_use.hpp"
#include "idproxy/ids/range_spec.hpp"
#include "idproxy/ids/sequences_of.hpp"

namespace idproxy::config {
namespace {

const ids::CounterUse* use_of(const rewrite::Rule& rule) {
  const auto* counter = rule.strategy ? rule.strategy->counter_rule() : nullptr;
  return counter == nullptr ? nullptr : &counter->use();
}

const ids::RangesSpec* ranges_of(const rewrite::Rule& rule) {
  const auto* counter = rule.strategy ? rule.strategy->counter_rule() : nullptr;
  return counter == nullptr ? nullptr : counter->ranges();
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

/// True if both use the same document. Documents of one collection with the same key can differ
/// only in their filters.
bool same_document(const ids::CounterUse& one, const ids::CounterUse& other) {
  const ids::CounterPlace& a = one.spec.place;
  const ids::CounterPlace& b = other.spec.place;
  const auto kind = [](const ids::SequenceOptions& each) {
    return std::pair(each.scope.size(), each.reset);
  };
  if (kind(one.sequences) != kind(other.sequences)) return false;
  const bool told_apart = a.key_field == b.key_field && a.filter != b.filter;
  return std::tie(a.db, a.collection, a.key) == std::tie(b.db, b.collection, b.key) && !told_apart;
}

bool agree(const ids::CounterUse& a, const ids::CounterUse& b) {
  return a.spec.place == b.spec.place && a.spec.step == b.spec.step &&
         a.field.format.output == b.field.format.output;
}

/// Both rules have ranges.
bool check_shared_ranges(const rewrite::Rule& earlier, const std::string& path,
                         const rewrite::Rule& later, Parameters& reader) {
  const ids::RangesSpec& a = *ranges_of(earlier);
  const ids::RangesSpec& b = *ranges_of(later);
  const std::string collection = b.counter.place.ns();
  if (a.counter.place.ns() != collection) return false;
  if (a.name != b.name) {
    reader.error("strategy", "keeps its ranges in " + shown(collection) + ", where " + path +
                                 " has others, '" + shown(a.name) +
                                 "': set store.collection, or the same name");
    return true;
  }
  if (a == b && use_of(earlier)->field.format.output == use_of(later)->field.format.output) {
    return false;
  }
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

}  // namespace

bool has_counters_in(const rewrite::Rule& rule, const std::string& ns) {
  const ids::CounterUse* use = use_of(rule);
  return use != nullptr && use->spec.place.ns() == ns;
}

void check_counter(const rewrite::Rule& rule, Parameters& reader) {
  if (rule.strategy && !rule.field.empty()) {
    check_sequences(ids::sequences_of(*rule.strategy), rule.field, reader);
  }
  const ids::CounterUse* use = use_of(rule);
  if (use == nullptr) return;
  const ids::CounterPlace& place = use->spec.place;
  Parameters& store = reader.section("store");
  if (const auto fault = fault_of_own_database(place.db); !fault.empty()) store.error("db", fault);
  if (const auto fault = fault_of_own_collection(place.collection); !fault.empty()) {
    store.error("collection", fault);
  }
  check_counter_collection(rule, "this rule", rule, reader);
}

void demand_index(rewrite::Rule& rule, Parameters& reader) {
  const ids::CounterUse* use = use_of(rule);
  const bool demands = use != nullptr && rule.field != "_id" &&
                       (!use->sequences.scope.empty() || use->sequences.repeats());
  if (!demands || rule.unique_index != ids::UniqueIndex::warn) return;
  rule.unique_index = ids::UniqueIndex::require;
  if (!reader.given("unique_index")) return;
  reader.warning("unique_index",
                 "warn does not suffice: values of several sequences are the same, "
                 "so that the rule always requires a unique index");
}

bool check_shared_counter(const rewrite::Rule& earlier, const std::string& path,
                          const rewrite::Rule& later, Parameters& reader) {
  const ids::CounterUse* a = use_of(earlier);
  const ids::CounterUse* b = use_of(later);
  if (a == nullptr || b == nullptr) return false;
  const ids::RangesSpec* ranges = ranges_of(earlier);
  const ids::RangesSpec* later_ranges = ranges_of(later);
  if (ranges != nullptr && later_ranges != nullptr) {
    return check_shared_ranges(earlier, path, later, reader);
  }
  if (ranges != nullptr) return check_counter_in_ranges(*ranges, b->spec.place, path, reader);
  if (later_ranges != nullptr) {
    return check_counter_in_ranges(*later_ranges, a->spec.place, path, reader);
  }
  if (!same_document(*a, *b)) return false;
  const std::string document = "the counter document '" + shown(b->spec.place.key) + "' of " + path;
  if (!agree(*a, *b)) {
    reader.error("strategy",
                 "uses " + document + ", but not with the same layout, step and output");
    return true;
  }
  if (a->spec == b->spec) return false;
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
