#include "rewrite/retries.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

namespace idproxy::rewrite {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Two proxies that write to one sequence would otherwise take each other's numbers all the time.
constexpr milliseconds kLeastInTurn{1};

/// The pause before a statement that has been repeated `repeats` times is sent again.
milliseconds backoff(const Assignment& assignment, std::uint32_t repeats) {
  const Retry& retry = assignment.rule->retry;
  milliseconds pause = retry.backoff;
  if (assignment.in_turn) pause = std::max(pause, kLeastInTurn);
  for (; repeats > 0 && pause < retry.backoff_max; --repeats) pause *= 2;
  return std::min(pause, retry.backoff_max);
}

struct BoundTexts {
  std::string_view name;
  std::string_view explanation;
};

/// In the order of RetryBound.
constexpr std::array<BoundTexts, 6> kBoundTexts{{
    {"retry.attempts", "the attempts that the rule allows were used up"},
    {"retry.deadline", "nothing had been stored for as long as the rule's retry.deadline"},
    {"maxTimeMS", "the command's maxTimeMS was over"},
    {"no value", "there was no fresh value"},
    {"multi",
     "an update with multi: true could not be repeated, since it may have changed documents"},
    {"server", "the server refused to execute a part of the batch again"},
}};

}  // namespace

std::string_view name_of(RetryBound bound) {
  return kBoundTexts[static_cast<std::size_t>(bound)].name;
}

std::string_view explain(RetryBound bound) {
  return kBoundTexts[static_cast<std::size_t>(bound)].explanation;
}

std::optional<std::int64_t> RetryBudget::time_left(nanoseconds now) const {
  if (!max_time_ms_) return std::nullopt;
  const auto spent = std::chrono::duration_cast<milliseconds>(now - started_);
  return *max_time_ms_ - spent.count();
}

void RetryBudget::start(nanoseconds now) {
  if (!since_) since_ = now;
}

void RetryBudget::progress(nanoseconds now) {
  if (since_) since_ = now;
}

std::optional<RetryBound> RetryBudget::forbids(std::span<const Assignment* const> taken,
                                               std::uint32_t repeats, nanoseconds now) {
  nanoseconds pause = pause_;
  for (const Assignment* assignment : taken) {
    const Retry& retry = assignment->rule->retry;
    if (repeats >= assignment->attempts()) return RetryBound::attempts;
    pause = std::max<nanoseconds>(pause, backoff(*assignment, repeats));
    if (now - *since_ + pause >= retry.deadline) return RetryBound::deadline;
  }
  const auto left = time_left(now + pause);
  if (left && *left <= 0) return RetryBound::max_time;
  pause_ = pause;
  return std::nullopt;
}

nanoseconds RetryBudget::take_pause(RandomSource& random) {
  const nanoseconds pause = std::exchange(pause_, {});
  if (pause.count() == 0) return pause;
  const nanoseconds half = pause / 2;
  const auto rest = static_cast<std::uint64_t>((pause - half).count());
  return half + nanoseconds(uniform(random, rest + 1));
}

nanoseconds RetryBudget::patience(const Rule& rule, const ids::StoreSource& asked,
                                  nanoseconds now) const {
  const nanoseconds left = rule.retry.deadline - (now - *since_);
  return std::clamp<nanoseconds>(left, nanoseconds(0), asked.patience());
}

std::uint32_t Repeats::of(std::int32_t statement, const Assignment& rule) const {
  const auto found = all_.find(statement);
  if (found == all_.end()) return 0;
  const auto its = found->second.times.find(&rule);
  return its == found->second.times.end() ? 0 : its->second;
}

void Repeats::add(std::int32_t statement, const Assignment& rule) {
  Repeated& repeated = all_[statement];
  ++repeated.times[&rule];
  repeated.rule = &rule;
  repeated.sent = false;
}

void Repeats::sent(std::span<const std::int32_t> statements) {
  if (all_.empty()) return;
  for (const std::int32_t statement : statements) {
    const auto found = all_.find(statement);
    if (found == all_.end() || std::exchange(found->second.sent, true)) continue;
    ++found->second.rule->outcomes->resent;
  }
}

void Repeats::tried(std::span<const std::int32_t> statements,
                    const std::map<std::int32_t, Buffer>& errors) {
  if (all_.empty()) return;
  for (const std::int32_t statement : statements) {
    const auto found = all_.find(statement);
    if (found == all_.end() || errors.contains(statement)) continue;
    ++found->second.rule->outcomes->cured;
    all_.erase(found);
  }
}

void Repeats::give_up(const Assignment& rule, RetryBound ended_by) {
  ++rule.outcomes->given_up;
  given_up_ = {&rule, ended_by};
}

void Repeats::abandon(std::span<const std::int32_t> statements, RetryBound ended_by) {
  for (const std::int32_t statement : statements) {
    const auto found = all_.find(statement);
    if (found != all_.end()) give_up(*found->second.rule, ended_by);
  }
}

void ValueRenewal::start(std::vector<Collision> collisions,
                         const std::vector<std::size_t>& doubtful) {
  collisions_ = std::move(collisions);
  all_.clear();
  for (Collision& collision : collisions_) {
    for (const std::size_t at : collision.given) all_.emplace_back(&collision, at);
  }
  for (const std::size_t at : doubtful) all_.emplace_back(nullptr, at);
  std::ranges::sort(all_, {}, [this](const auto& each) {
    return std::tuple(given_.given[each.second].assignment, each.first == nullptr, each.second);
  });
  next_ = 0;
  asked_ = false;
  want_rule();
}

/// Moves on to the next rule that has values to renew. NumbersInTurn renews those of sequences
/// without gaps.
void ValueRenewal::want_rule() {
  const auto rule_of = [this](const auto& each) {
    return std::size_t{given_.given[each.second].assignment};
  };
  wanted_.clear();
  while (wanted_.empty() && next_ < all_.size()) {
    assignment_ = rule_of(all_[next_]);
    for (; next_ < all_.size() && rule_of(all_[next_]) == assignment_; ++next_) {
      const Collision* collision = all_[next_].first;
      if (plan_[assignment_].in_turn || (collision != nullptr && !collision->again)) continue;
      wanted_.push_back(all_[next_]);
    }
  }
  done_ = end_ = 0;
  if (wanted_.empty()) {
    assignment_ = plan_.size();
    return;
  }
  if (sources_of(given_, assignment_) > 1) {
    std::ranges::sort(wanted_, {}, [this](const auto& wanted) {
      const std::uint32_t value = given_.given[wanted.second].value;
      return std::pair(rewrite::source_of(given_, assignment_, value), wanted.second);
    });
  }
  want_next();
}

std::size_t ValueRenewal::source_of(std::size_t wanted) const {
  return rewrite::source_of(given_, assignment_, given_.given[wanted_[wanted].second].value);
}

/// Moves on to the next sequence, from done_ on.
void ValueRenewal::want_next() {
  source_ = source_of(done_);
  end_ = done_ + 1;
  while (end_ < wanted_.size() && source_of(end_) == source_) ++end_;
  count_ = end_ - done_;
}

std::optional<Need> ValueRenewal::draw() {
  while (assignment_ < plan_.size()) {
    ids::Source& source = source_at(plan_, given_, assignment_, source_);
    ids::Values& values = given_.values[assignment_];
    while (count_ > 0) {
      const std::size_t first = values.size();
      const auto drawn = source.next(count_, values);
      if (drawn) {
        renewed(first);
      } else if (drawn.needs_store()) {
        asked_ = true;
        return Need{nullptr, &plan_[assignment_], &source, count_};
      } else {
        count_ /= 2;
      }
    }
    leave_behind();
  }
  return std::nullopt;
}

void ValueRenewal::answered(ids::Result<ids::Grant> grant) {
  ids::Source& source = source_at(plan_, given_, assignment_, source_);
  ids::Values& values = given_.values[assignment_];
  const std::size_t first = values.size();
  if (grant) {
    source.accept(std::move(*grant), values);
    renewed(first);
  } else if (leave_doubtful(); source.make_do(count_, values, grant.error())) {
    renewed(first);
  } else if (grant.error().code == ids::Errc::unavailable) {
    count_ = 0;
  } else {
    count_ /= 2;
  }
}

/// Those that the store has not looked up are no better than the ones that are there.
void ValueRenewal::leave_doubtful() {
  const auto all = std::span(wanted_).subspan(done_, end_ - done_);
  const auto gone = std::ranges::remove(all, nullptr, [](const auto& each) { return each.first; });
  end_ -= gone.size();
  wanted_.erase(wanted_.begin() + static_cast<std::ptrdiff_t>(end_),
                wanted_.begin() + static_cast<std::ptrdiff_t>(end_ + gone.size()));
  count_ = std::min(count_, end_ - done_);
}

/// Gives the drawn values, from `first` on, to the next of the wanted places.
void ValueRenewal::renewed(std::size_t first) {
  if (plan_[assignment_].sequences != nullptr) {
    given_.sequences[assignment_].of_value.resize(given_.values[assignment_].size(),
                                                  static_cast<std::uint32_t>(source_));
  }
  for (std::size_t i = 0; i < count_; ++i, ++done_) {
    const std::size_t at = wanted_[done_].second;
    given_.given[at].value = static_cast<std::uint32_t>(first + i);
    taken_.renewed(at);
  }
  count_ = std::min(count_, end_ - done_);
}

/// Gives up on the places that are left of this sequence, and moves on to the next one.
void ValueRenewal::leave_behind() {
  for (; done_ < end_; ++done_) {
    Collision* collision = wanted_[done_].first;
    if (collision == nullptr) continue;
    collision->again = false;
    collision->ended_by = RetryBound::no_value;
  }
  if (done_ < wanted_.size()) return want_next();
  want_rule();
}

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
  return budget_.forbids(rules, repeats_.of(collision.statement, *rules.front()), now);
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
