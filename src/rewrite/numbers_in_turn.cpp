#include "rewrite/numbers_in_turn.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace idproxy::rewrite {

bool needs_turn(const Plan& plan, const GivenValues& given) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].in_turn && given.wanted[i] > 0) return true;
  }
  return false;
}

NumbersInTurn::NumbersInTurn(const Plan& plan, GivenValues& given, const std::string& transaction)
    : plan_(plan), given_(given), places_(given.given.size(), kNone) {
  find_lines();
  sort_lines();
  const auto takes =
      lines_.size() == 1 ? ids::TurnTaker::Takes::one : ids::TurnTaker::Takes::several;
  for (Line& line : lines_) line.turn = line.sequence->turn({transaction, takes});
}

/// Finds the line of each place. The values that it gets come with the numbers. Several objects can
/// be the same sequence, if it has been forgotten meanwhile.
void NumbersInTurn::find_lines() {
  std::unordered_map<ids::Source*, std::uint32_t> by_object;
  std::unordered_map<std::string, std::uint32_t> by_name;
  for (std::size_t at = 0; at < places_.size(); ++at) {
    const Given& given = given_.given[at];
    const Assignment& assignment = plan_[given.assignment];
    if (!assignment.in_turn) continue;
    std::uint32_t source = 0;
    ids::Source* sequence = assignment.source.get();
    if (assignment.sequences != nullptr) {
      const GivenSequences& its = given_.sequences[given.assignment];
      source = its.of_value[given.value];
      sequence = its.all[source].get();
    }
    const auto next = static_cast<std::uint32_t>(lines_.size());
    const auto [known, is_new] = by_object.emplace(sequence, next);
    if (is_new) {
      std::string name = sequence->name();
      known->second = by_name.emplace(name, next).first->second;
      if (known->second == next) {
        lines_.push_back({given.assignment, source, sequence, std::move(name)});
      }
    }
    places_[at] = known->second;
  }
  for (const Line& line : lines_) {
    if (plan_[line.assignment].sequences == nullptr) continue;
    given_.sequences[line.assignment].of_value.clear();
  }
}

void NumbersInTurn::sort_lines() {
  std::vector<std::uint32_t> order(lines_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [this](std::uint32_t line) { return lines_[line].name; });
  std::vector<Line> sorted;
  std::vector<std::uint32_t> now_at(lines_.size());
  for (const std::uint32_t line : order) {
    now_at[line] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(std::move(lines_[line]));
  }
  lines_ = std::move(sorted);
  for (std::uint32_t& line : places_) {
    if (line != kNone) line = now_at[line];
  }
}

/// Calls `use` with the index in GivenValues::given of each place in these statements, in their
/// order, and its line.
template <class Use>
void NumbersInTurn::each_place(std::span<const std::int32_t> statements, const Use& use) const {
  auto from = given_.given.begin();
  for (const std::int32_t statement : statements) {
    from = std::lower_bound(
        from, given_.given.end(), statement,
        [](const Given& given, std::int32_t wanted) { return given.statement < wanted; });
    for (; from != given_.given.end() && from->statement == statement; ++from) {
      const auto at = static_cast<std::size_t>(from - given_.given.begin());
      if (places_[at] != kNone) use(at, places_[at]);
    }
  }
}

void NumbersInTurn::count_places(std::span<const std::int32_t> statements) {
  for (Line& line : lines_) line.places = 0;
  each_place(statements, [this](std::size_t, std::uint32_t line) { ++lines_[line].places; });
}

/// Gives each statement the next value of its line. If not all are sent now, the others can only
/// get earlier ones later: if some before them fail.
void NumbersInTurn::number(std::span<const std::int32_t> statements) {
  std::vector<std::size_t> next;
  next.reserve(lines_.size());
  for (const Line& line : lines_) next.push_back(line.next);
  each_place(statements, [&](std::size_t at, std::uint32_t line) {
    given_.given[at].value = static_cast<std::uint32_t>(next[line]++);
  });
}

std::optional<Need> NumbersInTurn::provide(std::span<const std::int32_t> statements) {
  const bool is_complete = std::ranges::all_of(
      lines_, [](const Line& line) { return line.has_numbers || line.is_over; });
  if (is_complete && !is_counted_) return std::nullopt;
  if (!std::exchange(is_counted_, true)) count_places(statements);
  for (; asked_ < lines_.size(); ++asked_) {
    Line& line = lines_[asked_];
    line.is_over = line.places == 0;
    if (line.has_numbers || line.is_over) continue;
    if (auto missing = draw(line)) return missing;
  }
  asked_ = 0;
  is_counted_ = false;
  number(statements);
  return std::nullopt;
}

std::optional<Need> NumbersInTurn::draw(Line& line) {
  const Assignment& assignment = plan_[line.assignment];
  Need missing{&assignment, line.turn.get(), line.places, assignment.not_ready};
  if (missing.error) return missing;
  ids::Values& values = given_.values[line.assignment];
  line.next = values.size();
  const ids::Draw drawn = line.turn->next(line.places, values);
  if (drawn.needs_store()) return missing;
  note_source(line);
  if (!drawn) {
    missing.error = drawn.error();
    return missing;
  }
  line.has_numbers = true;
  return std::nullopt;
}

/// Notes where the values come from that have been added.
void NumbersInTurn::note_source(const Line& line) {
  if (plan_[line.assignment].sequences == nullptr) return;
  const std::size_t values = given_.values[line.assignment].size();
  given_.sequences[line.assignment].of_value.resize(values, line.source);
}

void NumbersInTurn::accept(ids::Grant grant) {
  Line& line = lines_[asked_];
  line.turn->accept(std::move(grant), given_.values[line.assignment]);
  note_source(line);
  line.has_numbers = true;
}

void NumbersInTurn::send(std::span<const std::int32_t> statements) {
  count_places(statements);
  number(statements);
  for (Line& line : lines_) {
    if (line.places > 0) line.turn->sent();
  }
}

void NumbersInTurn::stored(std::span<const std::int32_t> statements, ids::Durability durability) {
  count_places(statements);
  for (Line& line : lines_) {
    if (!line.has_numbers) continue;
    line.next += line.places;
    line.turn->stored(line.places, durability);
  }
}

const Assignment* NumbersInTurn::sequence_in(const Collision& collision) const {
  for (const std::size_t at : collision.given) {
    if (places_[at] != kNone) return &plan_[lines_[places_[at]].assignment];
  }
  return nullptr;
}

void NumbersInTurn::taken(const Collision& collision) {
  for (const std::size_t at : collision.given) {
    if (places_[at] == kNone) continue;
    Line& line = lines_[places_[at]];
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
