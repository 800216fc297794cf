#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/rewrite/draw_stage.hpp"
#include "idproxy/rewrite/duplicates.hpp"
#include "idproxy/rewrite/stage.hpp"
#include "rewrite/batch_progress.hpp"
#include "rewrite/retries.hpp"

namespace idproxy::rewrite {

/// Fresh values in place of those that are taken, as far as their rules allow another attempt.
class FreshValues final : public Stage {
 public:
  /// Borrows its arguments; `ns` as TakenValues has it. `started`: when the write arrived,
  /// monotonic.
  FreshValues(const WriteRequest& write, GivenValues& given, std::string_view ns,
              std::optional<std::int64_t> max_time_ms, std::chrono::nanoseconds started)
      : plan_(*write.plan),
        given_(given),
        budget_(max_time_ms, started),
        taken_(plan_, given, ns, &write),
        renewal_(plan_, given, taken_) {}

  /// Finds out which of these, whose values are taken, may go again, and starts to renew the values
  /// that they need for that. `progress`: of a batch whose statements behind a duplicate may need
  /// fresh values, too; null: they do not. `then` is called once they are drawn.
  void settle(std::vector<Collision> collisions, const BatchProgress* progress,
              std::chrono::nanoseconds now, std::function<void()> then = {});
  [[nodiscard]] std::optional<Need> need(const Moment& moment) override;
  /// Without values, the statements make do without.
  [[nodiscard]] std::optional<End> accept(const Answer& answer) override;
  void sent(std::span<const std::int32_t> statements) override { repeats_.sent(statements); }
  [[nodiscard]] std::optional<Next> failed(const Failure& failure) override;
  /// The collisions of settle(), which it counts: those that go again now, and the others.
  [[nodiscard]] std::vector<Collision> settled();

  [[nodiscard]] const Assignment& rule_of(const Collision& collision) const {
    return plan_[given_.given[collision.given.front()].assignment];
  }
  [[nodiscard]] RetryBudget& budget() { return budget_; }
  [[nodiscard]] const RetryBudget& budget() const { return budget_; }
  [[nodiscard]] Repeats& repeats() { return repeats_; }
  [[nodiscard]] const Repeats& repeats() const { return repeats_; }
  [[nodiscard]] TakenValues& taken() { return taken_; }
  [[nodiscard]] const TakenValues& taken() const { return taken_; }
  /// True if the store has been asked since settle().
  [[nodiscard]] bool has_asked() const { return renewal_.has_asked(); }

 private:
  [[nodiscard]] std::optional<RetryBound> forbids(const Collision& collision,
                                                  std::chrono::nanoseconds now);
  [[nodiscard]] std::vector<std::size_t> doubtful(const Collision& first,
                                                  const BatchProgress& progress) const;

  const Plan& plan_;
  GivenValues& given_;
  RetryBudget budget_;
  Repeats repeats_;
  TakenValues taken_;
  ValueRenewal renewal_;
  std::function<void()> then_;
};

}  // namespace idproxy::rewrite
