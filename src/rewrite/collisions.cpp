#include "rewrite/collisions.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/rewrite/duplicate_key.hpp"
#include "idproxy/rewrite/sources.hpp"
#include "rewrite/upsert.hpp"

namespace idproxy::rewrite {

Collision TakenValues::collision_of(std::int32_t statement, Bytes error) const {
  Collision collision{statement, {}};
  const auto given = std::ranges::equal_range(given_.given, statement, {}, &Given::statement);
  if (given.empty()) return collision;
  const auto helped = curable(error, ns_, plan_, [&] { return may_have_id(statement); });
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
  const auto given = std::ranges::equal_range(given_.given, statement, {}, &Given::statement);
  const auto is_id = [&](const Given& each) { return plan_[each.assignment].is_id(); };
  if (std::ranges::any_of(given, is_id)) return true;
  const auto command = message_ ? BatchCommand::read(*message_) : std::nullopt;
  if (!command) return true;
  BatchStatements statements(*command);
  std::optional<Bytes> its;
  for (std::int32_t i = 0; i <= statement; ++i) its = statements.next();
  if (!its) return true;
  if (command->kind == WriteKind::insert) return bson::find(*its, "_id").has_value();
  const auto upsert = UpsertStatement::read(*its, command->kind);
  return !upsert || may_bring_id(*upsert);
}

std::vector<Collision> TakenValues::collisions_in(std::span<const WriteError> errors,
                                                  std::span<const std::int32_t> statements) const {
  std::vector<Collision> collisions;
  for (const WriteError& error : errors) {
    if (error.code != kDuplicateKey) continue;
    const std::int32_t statement = statements[static_cast<std::size_t>(error.index)];
    Collision collision = collision_of(statement, error.document);
    if (!collision.given.empty()) collisions.push_back(std::move(collision));
  }
  return collisions;
}

void TakenValues::add(std::span<const Collision> collisions, ids::Taken where) {
  if (collisions.empty()) return;
  std::vector<std::vector<std::uint32_t>> values(plan_.size());
  for (const Collision& collision : collisions) {
    for (const std::size_t at : collision.given) {
      const Given& given = given_.given[at];
      values[given.assignment].push_back(given.value);
      taken_.insert(at);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty()) continue;
    std::ranges::sort(values[i]);
    by_source(plan_, given_, i, std::move(values[i]), [&](ids::Source& source, auto which) {
      const std::size_t in_request = counts_[&source] += which.size();
      source.collided(given_.values[i], which, in_request, where);
    });
  }
}

}  // namespace idproxy::rewrite
