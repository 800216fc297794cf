#include "config/reserves.hpp"

#include <array>
#include <chrono>

#include "config/counters.hpp"
#include "config/names.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/ids/rule_source.hpp"

namespace idproxy::config {
namespace {

using namespace std::chrono_literals;
using ids::ReserveSpec;

constexpr std::size_t kLongestReserveNs = 255;

std::string fault_of_reserve_collection(const std::string& collection) {
  // A counter reads its stored numbers there, and would treat these as wildcards.
  if (has_wildcards(collection) && !collection.starts_with("system.")) {
    return "must not contain '*' or '?'";
  }
  return fault_of_own_collection(collection);
}

/// Returns why the rule cannot have `reserve`, for people; empty: it can.
std::string why_not_reservable(const rewrite::Rule& rule) {
  if (rule.strategy_name == "gapless") {
    return "does not work with gapless: a reservation whose document is not stored would be a gap";
  }
  if (rule.field == "_id") {
    return "does not work with field: _id: a reservation names its document by its _id, so that "
           "two documents with the same value could not be told apart";
  }
  if (has_wildcards(rule.ns)) {
    return "needs an ns without wildcards: a reservation names its document, but not the "
           "collection that has it. Write a rule for each collection";
  }
  if (rule.strategy == nullptr) return {};
  const ids::SequenceOptions& sequences = rule.strategy->about().sequences;
  if (!sequences.scope.empty()) {
    return "does not work with scope: documents of different scopes may have the same value, which "
           "can be reserved only once";
  }
  if (sequences.repeats()) {
    return "does not work with reset and a template that does not show the period: the same values "
           "come again in each period, but can be reserved only once";
  }
  return {};
}

std::string fault_of_name(const std::string& name) {
  constexpr std::array<std::string_view, 3> kOwn{"_id", "parent_id", "at"};
  for (const std::string_view own : kOwn) {
    if (name == own) {
      return "must be id: with field, the value would be in the field '" + name +
             "' of a reservation, which has another meaning there";
    }
  }
  return {};
}

void read_place(ReserveSpec& spec, const rewrite::Rule& rule, Parameters& reserve) {
  spec.db = reserve.text("db", std::string(split_ns(rule.ns).db));
  reserve.spec("db").computed = true;
  spec.collection = reserve.required_text("collection");
  if (reserve.given("db")) {
    if (const auto fault = fault_of_own_database(spec.db); !fault.empty())
      reserve.error("db", fault);
  }
  if (spec.collection.empty()) return;
  if (const auto fault = fault_of_reserve_collection(spec.collection); !fault.empty()) {
    reserve.error("collection", fault);
  } else if (spec.ns().size() > kLongestReserveNs) {
    reserve.error("collection", "must have, with its database, at most 255 bytes");
  } else if (spec.ns() == rule.ns) {
    reserve.error("collection", "must not be the rule's own collection");
  } else if (has_counters_in(rule, spec.ns())) {
    reserve.error("collection", "must not be the collection of the rule's counter");
  }
}

/// A reservation names its document before anything is sent, but `_id` would get its number later.
bool check_ids_in_turn(const rewrite::Rule& ids, const rewrite::Rule& reserving,
                       Parameters& reader) {
  const bool in_turn = ids.field == "_id" && ids.strategy_name == "gapless";
  if (!in_turn || !reserving.reserve || !ids.matches(reserving.ns)) return false;
  reader.error(reader.given("reserve") ? "reserve" : "strategy",
               "gapless numbers for _id and `reserve` for another field do not go together: a "
               "reservation must name its document's _id before there is a number");
  return true;
}

}  // namespace

void read_reserve(rewrite::Rule& rule, Parameters& reader) {
  Parameters* const reserve = reader.optional_section("reserve");
  if (reserve == nullptr) return;
  const std::size_t errors = reader.errors();
  ReserveSpec spec;
  read_place(spec, rule, *reserve);
  spec.layout = static_cast<ReserveSpec::Layout>(reserve->choice("layout", {"id", "field"}));
  const auto age = reserve->duration("orphan_after", 10min, 24h * 365, 24h);
  spec.orphan_after = std::chrono::ceil<std::chrono::seconds>(age);
  spec.parent_ns = rule.ns;
  spec.parent_field = rule.field;
  if (const auto fault = why_not_reservable(rule); !fault.empty()) reader.error("reserve", fault);
  if (spec.layout == ReserveSpec::Layout::field) {
    spec.name = rule.field.substr(rule.field.rfind('.') + 1);
    const auto fault = fault_of_name(spec.name);
    if (!fault.empty() && rule.field != "_id") reserve->error("layout", fault);
  }
  if (reader.errors() == errors) rule.reserve = std::move(spec);
}

bool check_reservations(const rewrite::Rule& earlier, const std::string& path,
                        const rewrite::Rule& later, Parameters& reader) {
  if (check_ids_in_turn(earlier, later, reader)) return true;
  if (check_ids_in_turn(later, earlier, reader)) return true;
  const auto report = [&](std::string_view key, const ReserveSpec& spec, const std::string& why) {
    reader.error(key, "'" + shown(spec.ns()) + "' " + why);
    return true;
  };
  if (earlier.reserve && later.reserve && earlier.reserve->ns() == later.reserve->ns()) {
    return report("reserve", *later.reserve,
                  "has the reservations of " + path +
                      ", and each rule needs a collection of its own: a reservation does not say "
                      "which rule made it");
  }
  if (later.reserve) {
    const std::string ns = later.reserve->ns();
    if (earlier.ns == ns) return report("reserve", *later.reserve, "has the documents of " + path);
    if (has_counters_in(earlier, ns)) {
      return report("reserve", *later.reserve, "has the counters of " + path);
    }
  }
  if (earlier.reserve) {
    const std::string ns = earlier.reserve->ns();
    if (later.ns == ns) {
      return report("ns", *earlier.reserve,
                    "is never touched: " + path + " keeps its reservations there");
    }
    if (has_counters_in(later, ns)) {
      return report("strategy", *earlier.reserve,
                    "cannot hold counters: " + path + " keeps its reservations there");
    }
  }
  return false;
}

}  // namespace idproxy::config
