#include "rewrite/fresh_values.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::rewrite {

void FreshValues::settle(std::vector<Collision> collisions, const BatchProgress* progress,
                         std::chrono::nanoseconds now, std::function<void()> then) {
  then_ = std::move(then);
  taken_.add(collisions, ids::Taken::in_batch);
  if (!collisions.empty()) budget_.start(now);
  for (Collision& collision : collisions) {
    const auto bound = forbids(collision, now);
    collision.again = !bound;
    if (bound) collision.ended_by = *bound;
  }
  const bool may_doubt = progress != nullptr && !collisions.empty() && collisions.front().again;
  const auto others =
      may_doubt ? doubtful(collisions.front(), *progress) : std::vector<std::size_t>();
  renewal_.start(std::move(collisions), others);
}

/// With `multi: true`, a duplicate may come from a document that the statement has found and
/// changed like others before it. But it does not change a field that gets a value, so that in an
/// index on that field alone only the insert can collide: it has found no document.
std::optional<RetryBound> FreshValues::forbids(const Collision& collision,
                                               std::chrono::nanoseconds now) {
  if (given_.is_multi(collision.statement) && !collision.on_field_alone) return RetryBound::multi;
  std::vector<const Assignment*> rules;
  rules.reserve(collision.given.size());
  for (const std::size_t at : collision.given) rules.push_back(&plan_[given_.given[at].assignment]);
  return budget_.forbids(rules, repeats_.of(collision.statement), now);
}

/// After a collision in an ordered batch, the values of the statements behind it that come from the
/// same source, if many of them must be taken, too: sent as they are, each of them would cost a
/// command.
std::vector<std::size_t> FreshValues::doubtful(const Collision& first,
                                               const BatchProgress& progress) const {
  const auto tail = progress.tail();
  if (tail.size() < 2) return {};
  const std::size_t tried = progress.tried().size() + 1;
  std::vector<bool> doubts(plan_.size());
  for (const std::size_t at : first.given) {
    const std::size_t its = given_.given[at].assignment;
    const auto& source = plan_[its].source;
    doubts[its] = source != nullptr && source->doubts(tried, tail.size() - 1);
  }
  std::vector<std::size_t> found;
  given_.each_of(tail.subspan(1), [&](std::size_t at) {
    if (doubts[given_.given[at].assignment]) found.push_back(at);
  });
  return found;
}

std::optional<Need> FreshValues::need(const Moment& moment) {
  auto need = renewal_.draw();
  if (!need) {
    if (then_) std::exchange(then_, nullptr)();
    return std::nullopt;
  }
  need->stage = this;
  need->patience = budget_.patience(*need->assignment->rule, *need->source, moment.now);
  return need;
}

std::optional<End> FreshValues::accept(const Answer& answer) {
  renewal_.answered(*std::move(answer.grant));
  return std::nullopt;
}

std::optional<Next> FreshValues::failed(const Failure& failure) {
  if (failure.collision == nullptr || failure.in_transaction) return std::nullopt;
  settle({*failure.collision}, nullptr, failure.now);
  return Next();
}

std::vector<Collision> FreshValues::settled() {
  std::vector<Collision> collisions = renewal_.take();
  for (const Collision& collision : collisions) {
    const Assignment& rule = rule_of(collision);
    if (collision.again) {
      repeats_.add(collision.statement, rule);
    } else {
      repeats_.give_up(rule, collision.ended_by);
    }
  }
  return collisions;
}

}  // namespace idproxy::rewrite
