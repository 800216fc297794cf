#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "rewrite/collisions.hpp"

namespace idproxy::rewrite {

/// Draws fresh values for the collisions of one reply, rule by rule, each from the sequence that
/// the taken value came from. If there are not enough values, the last statements get none, and
/// their `again` becomes false. Values that were never sent may be replaced along with them.
class ValueRenewal {
 public:
  /// Borrows its arguments.
  ValueRenewal(const Plan& plan, GivenValues& given, TakenValues& taken)
      : plan_(plan), given_(given), taken_(taken) {}

  /// Starts to draw values for the collisions whose `again` is true, and in place of the values
  /// `doubtful`, indexes in GivenValues::given, which keep theirs if the store has no better ones.
  void start(std::vector<Collision> collisions, std::vector<std::size_t> doubtful = {});
  /// Draws values. Returns nothing once it is done, or what to ask the store for; then call
  /// answered().
  [[nodiscard]] std::optional<Need> draw();
  void answered(ids::Result<ids::Grant> grant);

  /// True if the store has been asked since start().
  [[nodiscard]] bool has_asked() const { return asked_; }
  /// All collisions; those that got no fresh value have `again` false.
  [[nodiscard]] std::vector<Collision> take() { return std::exchange(collisions_, {}); }

 private:
  void want_next();
  void want_rule();
  [[nodiscard]] std::size_t source_of(std::size_t wanted) const;
  void renewed(std::size_t first);
  void leave_doubtful();
  [[nodiscard]] bool make_do(const ids::Error& why);
  void leave_behind();

  const Plan& plan_;
  GivenValues& given_;
  TakenValues& taken_;
  std::vector<Collision> collisions_;
  std::vector<std::size_t> doubtful_;
  std::size_t assignment_ = 0;  // the assignment whose values are being drawn
  std::size_t source_ = 0;      // which of its sequences
  // The values of that assignment to renew, by sequence and statement: indexes in given_.given,
  // with their collisions; null: it is a doubtful one.
  std::vector<std::pair<Collision*, std::size_t>> wanted_;
  std::size_t end_ = 0;    // those of the sequence end here
  std::size_t done_ = 0;   // how many of wanted_ have a fresh value, or get none
  std::size_t count_ = 0;  // how many values to draw at once
  bool asked_ = false;
};

}  // namespace idproxy::rewrite
