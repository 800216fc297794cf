#include "numbers_in_turn.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::rewrite {

bool needs_turn(const Plan& plan, const GivenValues& given) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].strategy->sequenced() != nullptr && given.wanted[i] > 0) return true;
  }
  return false;
}

NumbersInTurn::NumbersInTurn(const Plan& plan, GivenValues& given, const std::string& transaction)
    : plan_(plan), given_(given) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    ids::Sequenced* sequence = plan[i].strategy->sequenced();
    if (sequence != nullptr && given.wanted[i] > 0) {
      lines_.push_back({i, sequence->turn(transaction)});
    }
  }
}

/// Calls `use` with each Given of the line in these statements, in their order.
template <class Use>
void NumbersInTurn::each_place(std::span<const std::int32_t> statements, const Line& line,
                               const Use& use) const {
  auto at = given_.given.begin();
  for (const std::int32_t statement : statements) {
    at = std::lower_bound(at, given_.given.end(), statement,
                          [](const Given& given, auto wanted) { return given.statement < wanted; });
    for (; at != given_.given.end() && at->statement == statement; ++at) {
      if (at->assignment == line.assignment) use(*at);
    }
  }
}

std::size_t NumbersInTurn::places(std::span<const std::int32_t> statements,
                                  const Line& line) const {
  std::size_t count = 0;
  each_place(statements, line, [&](const Given&) { ++count; });
  return count;
}

std::optional<NumbersInTurn::Missing> NumbersInTurn::provide(
    std::span<const std::int32_t> statements) {
  for (Line& line : lines_) {
    const std::size_t count = line.has_numbers ? 0 : places(statements, line);
    if (count == 0) continue;
    const Assignment& assignment = plan_[line.assignment];
    Missing missing{&assignment, line.turn.get(), count, assignment.not_ready};
    if (missing.error) return missing;
    ids::Values& values = given_.values[line.assignment];
    line.next = values.size();
    const ids::Draw drawn = line.turn->next(count, values);
    if (drawn.needs_store()) {
      asked_ = &line;
      return missing;
    }
    if (!drawn) {
      missing.error = drawn.error();
      return missing;
    }
    line.has_numbers = true;
  }
  return std::nullopt;
}

void NumbersInTurn::accept(ids::Grant grant) {
  asked_->turn->accept(std::move(grant), given_.values[asked_->assignment]);
  asked_->has_numbers = true;
}

void NumbersInTurn::send(std::span<const std::int32_t> statements) {
  for (Line& line : lines_) {
    std::size_t next = line.next;
    each_place(statements, line, [&](const Given& place) {
      const auto at = static_cast<std::size_t>(&place - given_.given.data());
      given_.given[at].value = static_cast<std::uint32_t>(next++);
    });
    if (next > line.next) line.turn->sent();
  }
}

void NumbersInTurn::stored(std::span<const std::int32_t> statements, ids::Durability durability) {
  for (Line& line : lines_) {
    if (!line.has_numbers) continue;
    const std::size_t count = places(statements, line);
    line.next += count;
    line.turn->stored(count, durability);
  }
}

bool NumbersInTurn::concerns(const Collision& collision, const Line& line) const {
  return std::ranges::any_of(collision.given, [&](std::size_t at) {
    return given_.given[at].assignment == line.assignment;
  });
}

const Assignment* NumbersInTurn::sequence_in(const Collision& collision) const {
  for (const Line& line : lines_) {
    if (concerns(collision, line)) return &plan_[line.assignment];
  }
  return nullptr;
}

void NumbersInTurn::taken(const Collision& collision) {
  for (Line& line : lines_) {
    if (!concerns(collision, line)) continue;
    line.has_numbers = false;
    line.turn->taken();
  }
}

void NumbersInTurn::lost() {
  for (Line& line : lines_) {
    if (!line.has_numbers) continue;
    line.has_numbers = false;
    line.turn->lost();
  }
}

}  // namespace idproxy::rewrite
