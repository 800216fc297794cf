#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "collisions.hpp"

namespace idproxy::rewrite {

/// Draws fresh values for the collisions of one reply, rule by rule. Where there are not enough,
/// the last statements stay behind: their `again` becomes false.
class ValueRenewal {
 public:
  /// Borrows all of them.
  ValueRenewal(const Plan& plan, GivenValues& given, TakenValues& taken)
      : plan_(plan), given_(given), taken_(taken) {}

  /// For those of the collisions that go again.
  void start(std::vector<Collision> collisions);
  /// Values that the store must be asked for, then answered() follows.
  struct Question {
    const Assignment* assignment;
    std::size_t count;
  };
  /// Nothing once it is done.
  [[nodiscard]] std::optional<Question> draw();
  void answered(ids::Result<ids::Grant> grant);

  /// Since start().
  [[nodiscard]] bool has_asked() const { return asked_; }
  /// All collisions, with what has become of them.
  [[nodiscard]] std::vector<Collision> take() { return std::exchange(collisions_, {}); }

 private:
  void want_next_rule();
  void renewed(std::size_t first);
  void leave_behind();

  const Plan& plan_;
  GivenValues& given_;
  TakenValues& taken_;
  std::vector<Collision> collisions_;
  std::size_t assignment_ = 0;                              // whose values are drawn next
  std::vector<std::pair<Collision*, std::size_t>> wanted_;  // of it, by statement: given_.given
  std::size_t done_ = 0;                                    // of wanted_
  std::size_t count_ = 0;                                   // to be drawn at once
  bool asked_ = false;
};

}  // namespace idproxy::rewrite
