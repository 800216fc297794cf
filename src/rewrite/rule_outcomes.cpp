#include "idproxy/rewrite/rule_outcomes.hpp"

namespace idproxy::rewrite {

bool RuleOutcomes::may_run_again(std::chrono::nanoseconds now, std::uint32_t most) {
  const auto since = now - std::chrono::nanoseconds(first_abort_.load());
  if (aborts_.load() == 0 || since > kRow) {
    first_abort_ = now.count();
    aborts_ = 0;
  }
  if (aborts_.load() >= most) return false;
  ++aborts_;
  return true;
}

void RefusedWrites::add(Key key, std::shared_ptr<const ids::NumberHolder> holder) {
  const std::scoped_lock lock(mutex_);
  if (refused_.size() >= kMost && !refused_.contains(key)) key = {};
  Refused& its = refused_[std::move(key)];
  ++its.writes;
  its.holder = std::move(holder);
}

RefusedWrites::All RefusedWrites::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(refused_, {});
}

WaitingRequests::Place::Place(WaitingRequests& all, std::chrono::nanoseconds since) : all_(all) {
  const std::scoped_lock lock(all_.mutex_);
  at_ = all_.since_.insert(since);
}

WaitingRequests::Place::~Place() {
  const std::scoped_lock lock(all_.mutex_);
  all_.since_.erase(at_);
}

WaitingRequests::Summary WaitingRequests::summary() const {
  const std::scoped_lock lock(mutex_);
  if (since_.empty()) return {};
  return {since_.size(), *since_.begin()};
}

std::optional<std::uint64_t> RareLines::add(std::string_view thing, std::string_view kind,
                                            std::uint64_t events, std::chrono::nanoseconds now) {
  const std::scoped_lock lock(mutex_);
  Line& its = line(thing, kind, now);
  its.events += events;
  if (its.logged && now - *its.logged < every_) return std::nullopt;
  its.logged = now;
  return std::exchange(its.events, 0);
}

RareLines::Line& RareLines::line(std::string_view thing, std::string_view kind,
                                 std::chrono::nanoseconds now) {
  Key key(thing, kind);
  if (lines_.size() < kMostLines || lines_.contains(key)) return lines_[std::move(key)];
  Line& others = lines_[{"", kind}];
  // Once in that time: makes room by lines with nothing to say, or nothing new.
  if (!others.logged || now - *others.logged >= every_) {
    std::erase_if(lines_, [&](const auto& each) {
      const Line& other = each.second;
      if (&other == &others) return false;
      const auto age = now - *other.logged;
      return age >= 2 * every_ || (other.events == 0 && age >= every_);
    });
  }
  return others;
}

namespace {

struct Texts {
  std::string_view name;
  std::string_view way_out;
};

constexpr std::string_view kInsert = "insert the document instead";
constexpr std::string_view kNameOnce =
    "name each field once in the filter, and none within another, or use update operators";
constexpr std::string_view kInsertAll =
    "insert the documents through the proxy instead, or give them values before they are written";

/// In the order of ForwardReason.
constexpr std::array<Texts, kForwardReasons> kTexts{{
    {"configured", "the rule says upserts: forward"},
    {"replacement", "use update operators such as $set instead of a replacement"},
    {"replacement_loses_field",
     "use update operators such as $set, or put the field into the replacement: without it a "
     "matching document loses its value"},
    {"empty_update", "use update operators such as $set: mongod takes {} for a replacement"},
    {"filter_names_field", "leave the field out of the filter"},
    {"update_names_field", "leave the field out of the update"},
    {"pipeline_replaces", "use only the stages $set and $addFields, or update operators"},
    {"filter_fixes_id",
     "use update operators instead of a pipeline, or leave _id out of the filter"},
    {"depends_on_document",
     "give each field of the rule's scope and template one value, in the filter (equality), $set "
     "or "
     "$setOnInsert, or insert the document instead"},
    {"reserved", kInsert},
    {"too_large", kInsert},
    {"unknown_form", kInsert},
    {"merge", kInsertAll},
    {"out", kInsertAll},
    {"apply_ops", kInsertAll},
    {"time_series",
     "use an ordinary collection, whose unique index keeps values apart, or have the application "
     "make the value; with an ns that does not match the collection, the rule lets it pass in "
     "silence"},
    {"filter_repeats_field", kNameOnce},
}};

constexpr std::string_view kAlone = "update by operators such as $set instead";
constexpr std::string_view kItsRight =
    "nothing, if the application means it; else leave the field out of the update";

/// In the order of LossReason.
constexpr std::array<Texts, kLossReasons> kLosses{{
    {"off", "the rule says keep: off"},
    {"server_time", "send the time instead of Timestamp(0, 0), or update by operators"},
    {"dollar_name", kAlone},
    {"repeated_name", kAlone},
    {"array_filters", "leave arrayFilters out of the statement, in which they do nothing"},
    {"other_form", "send a document where the path of the field leads through one"},
    {"filter_names_field",
     "send the replacement in a command of its own, or leave the field out of its filter"},
    {"filter_repeats_field", kNameOnce},
    {"too_deep", kAlone},
    {"too_large", kAlone},
    {"encrypted", kAlone},
    {"unset", "set keep: always in the rule, or leave the field out of the update"},
    {"sets", kItsRight},
    {"sets_missing", "set keep: always in the rule, or leave the field out of the update"},
    {"renames", kItsRight},
    {"pipeline", kItsRight},
    {"unknown_form", kAlone},
}};

}  // namespace

std::string_view name_of(ForwardReason reason) {
  return kTexts[static_cast<std::size_t>(reason)].name;
}

std::string_view name_of(LossReason reason) {
  return kLosses[static_cast<std::size_t>(reason)].name;
}

std::string_view way_out_of(LossReason reason) {
  return kLosses[static_cast<std::size_t>(reason)].way_out;
}

std::string_view way_out_of(ForwardReason reason, std::string_view field) {
  if (field == "_id" && reason == ForwardReason::filter_names_field) {
    return "find the document by other fields than _id, or insert it instead";
  }
  return kTexts[static_cast<std::size_t>(reason)].way_out;
}

}  // namespace idproxy::rewrite
