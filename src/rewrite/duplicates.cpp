#include "idproxy/rewrite/duplicates.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/given_values.hpp"
#include "rewrite/upsert.hpp"

namespace idproxy::rewrite {
namespace {

/// True if `key` is `field` or one of the documents that contain it.
bool holds(std::string_view key, std::string_view field) {
  if (!field.starts_with(key)) return false;
  return field.size() == key.size() || field[key.size()] == '.';
}

bool in_pattern(Bytes pattern, std::string_view field) {
  bool found = false;
  bson::Elements keys(pattern);
  while (const auto key = keys.next()) found = found || holds(key->key, field);
  return found && !keys.malformed();
}

// The text of Microsoft's DocumentDB, which FerretDB 2 is built on, in place of mongod's.
constexpr std::string_view kOtherText = "Duplicate key violation on the requested collection";

/// Returns the text behind `head`; nothing if `head` is not in it.
std::optional<std::string_view> behind(std::string_view text, std::string_view head) {
  const auto start = text.find(head);
  if (start == std::string_view::npos) return std::nullopt;
  return text.substr(start + head.size());
}

std::string head_of(std::string_view ns) {
  return "duplicate key error collection: " + std::string(ns);
}

/// The index name, which is between "index: " and what follows it in `errmsg`, if anything. Nothing
/// unless the error is about `ns`, because other names may contain these words themselves.
std::optional<std::string_view> index_name(std::string_view errmsg, std::string_view ns) {
  if (const auto rest = behind(errmsg, head_of(ns) + " index: ")) {
    return rest->substr(0, std::min(rest->find(" dup key"), rest->find(" collation:")));
  }
  const auto quoted = behind(errmsg, std::string(kOtherText) + ": Index '");
  if (!quoted || !quoted->ends_with("'")) return std::nullopt;
  return quoted->substr(0, quoted->size() - 1);
}

/// True if the text could have an index name, and has none.
bool names_no_index(std::string_view errmsg, std::string_view ns) {
  const auto rest = behind(errmsg, head_of(ns));
  const auto other = behind(errmsg, kOtherText);
  return rest ? rest->empty() || rest->starts_with(" dup key") : other && other->size() < 2;
}

/// The keys of the only unique index that the statement can have violated; empty: it is not known,
/// or there are several.
std::vector<std::string> only_index(std::string_view ns, const Plan& plan,
                                    const MayHaveId& may_have_id) {
  if (plan.empty() || plan.front().store == nullptr) return {};
  auto indexes = plan.front().store->unique_indexes(ns);
  if (!indexes) return {};
  if (may_have_id()) indexes->push_back({"_id"});
  return indexes->size() == 1 ? std::move(indexes->front()) : std::vector<std::string>();
}

bool named_after(std::string_view index, std::string_view field) {
  if (index == "_id_") return holds("_id", field);
  return index.size() > field.size() && index.starts_with(field) && index[field.size()] == '_';
}

/// As curable(), of some assignments only: the plan of a bulkWrite may have thousands.
std::vector<std::uint16_t> curable_among(std::span<const std::uint16_t> some, Bytes error,
                                         std::string_view ns, const Plan& plan,
                                         const MayHaveId& may_have_id) {
  std::vector<std::uint16_t> assignments;
  const auto add = [&](const auto& concerns) {
    std::ranges::copy_if(some, std::back_inserter(assignments),
                         [&](std::uint16_t each) { return concerns(plan[each].rule->field); });
  };
  if (const auto pattern = bson::find(error, "keyPattern")) {
    if (pattern->type != bson::Type::document) return {};
    add([&](std::string_view field) { return in_pattern(pattern->value, field); });
    return assignments;
  }
  const auto errmsg = bson::find(error, "errmsg", bson::Type::string);
  if (!errmsg) return {};
  if (const auto index = index_name(errmsg->text(), ns)) {
    add([&](std::string_view field) { return named_after(*index, field); });
  } else if (names_no_index(errmsg->text(), ns)) {
    const auto keys = only_index(ns, plan, may_have_id);
    add([&](std::string_view field) {
      return std::ranges::any_of(keys, [&](const auto& key) { return holds(key, field); });
    });
  }
  return assignments;
}

}  // namespace

std::vector<std::uint16_t> curable(Bytes error, std::string_view ns, const Plan& plan,
                                   const MayHaveId& may_have_id) {
  std::vector<std::uint16_t> all(plan.size());
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  return curable_among(all, error, ns, plan, may_have_id);
}

bool is_on_field_alone(Bytes error, std::string_view field) {
  const auto pattern = bson::find(error, "keyPattern", bson::Type::document);
  if (!pattern) return false;
  bson::Elements keys(pattern->value);
  const auto only = keys.next();
  return only && only->key == field && !keys.next() && !keys.malformed();
}

Collision TakenValues::collision_of(std::int32_t statement, Bytes error) const {
  Collision collision{statement, {}};
  const auto given = given_.of(statement);
  if (given.empty()) return collision;
  std::vector<std::uint16_t> its;
  std::ranges::transform(given, std::back_inserter(its), &Given::assignment);
  const auto helped = curable_among(its, error, ns_, plan_, [&] { return may_have_id(statement); });
  for (const Given& each : given) {
    if (std::ranges::find(helped, each.assignment) == helped.end()) continue;
    collision.given.push_back(static_cast<std::size_t>(&each - given_.given.data()));
  }
  if (collision.given.empty()) {
    ++plan_[given.front().assignment].outcomes->foreign;
  } else {
    const Given& first = given_.given[collision.given.front()];
    collision.on_field_alone = is_on_field_alone(error, plan_[first.assignment].rule->field);
  }
  return collision;
}

/// False if the server makes the `_id` of the statement's document.
bool TakenValues::may_have_id(std::int32_t statement) const {
  const auto is_id = [&](const Given& each) { return plan_[each.assignment].is_id(); };
  if (write_ == nullptr || std::ranges::any_of(given_.of(statement), is_id)) return true;
  if (write_->command.kind != WriteKind::insert) {
    const UpsertParts& upsert = given_.upserts[static_cast<std::size_t>(statement)];
    return may_bring_id(UpsertStatement::of(upsert, write_->message.message()));
  }
  Statements documents(write_->command);
  std::optional<Bytes> its;
  for (std::int32_t i = 0; i <= statement; ++i) its = documents.next();
  return !its || bson::find(*its, "_id").has_value();
}

std::vector<Collision> TakenValues::collisions_in(std::span<const WriteError> errors,
                                                  std::span<const std::int32_t> statements) const {
  std::vector<Collision> collisions;
  for (const WriteError& error : errors) {
    if (error.code != ErrorCode::duplicate_key) continue;
    const std::int32_t statement = statements[static_cast<std::size_t>(error.index)];
    Collision collision = collision_of(statement, error.document);
    if (!collision.given.empty()) collisions.push_back(std::move(collision));
  }
  return collisions;
}

void TakenValues::add(std::span<const Collision> collisions, ids::Taken where) {
  std::vector<Given> values;
  for (const Collision& collision : collisions) {
    for (const std::size_t at : collision.given) {
      taken_.insert(at);
      values.push_back(given_.given[at]);
    }
  }
  for (const FromSource& its : by_source(plan_, given_, values)) {
    const std::size_t in_request = counts_[its.source] += its.which.size();
    its.source->collided(given_.values[its.assignment], its.which, in_request, where);
  }
}

}  // namespace idproxy::rewrite
