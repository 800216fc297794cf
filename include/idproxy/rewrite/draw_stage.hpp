#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "idproxy/ids/error.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/rewrite/duplicates.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/stage.hpp"

namespace idproxy::rewrite {

/// Why a write gets no values that needs those of several sequences: if the store has brought some
/// of them in time, it has answered.
[[nodiscard]] ids::Error with_progress(ids::Error why, bool has_some);

/// Draws the values for the first send of a command: rule by rule, and within a rule sequence by
/// sequence. Values are in given.values once their rule is done.
class DrawStage final : public Stage {
 public:
  /// Borrows its arguments. `size`: the bytes of the message without the values.
  DrawStage(const Plan& plan, GivenValues& given, std::size_t size = 0)
      : plan_(plan), given_(given), size_(size) {}

  /// Draws all missing values, or as far as is_too_large() allows.
  [[nodiscard]] std::optional<Need> need(const Moment& moment) override;
  [[nodiscard]] std::optional<End> accept(const Answer& answer) override;
  /// The answer is the store's, or the error with which the caller has stopped waiting for it.
  [[nodiscard]] ids::Draw answered(ids::Result<ids::Grant> grant);
  /// Returns to their sequences the values of the rule at hand.
  void ended(const std::function<bool(std::int32_t)>& is_unstored) override;

  /// True if the message has more than kMostWithIds together with the values.
  [[nodiscard]] bool is_too_large() const { return is_too_large_; }

 private:
  [[nodiscard]] inline bool is_done();
  [[nodiscard]] inline bool has_too_many_bytes();
  [[nodiscard]] inline ids::Draw draw();
  [[nodiscard]] Need asked();
  void want_all(const GivenSequences& sequences);
  void go_on();

  const Plan& plan_;
  GivenValues& given_;
  std::size_t size_;  // with the values of the rules before counted_
  std::size_t counted_ = 0;
  bool is_too_large_ = false;
  std::size_t assignment_ = 0;  // the rule at hand
  // Of a rule with several sequences.
  std::size_t sequence_ = 0;         // the one at hand
  std::vector<std::size_t> counts_;  // by sequence: how many values are wanted
  std::vector<ids::Values> parts_;   // by sequence: those that have been drawn
  std::vector<ids::Ticket> wanted_;  // by sequence: while the store is asked for those before it
  std::size_t granted_ = 0;          // sequences whose values the store has brought
};

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
  void start(std::vector<Collision> collisions, const std::vector<std::size_t>& doubtful = {});
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
  void leave_behind();

  const Plan& plan_;
  GivenValues& given_;
  TakenValues& taken_;
  std::vector<Collision> collisions_;
  // All values to renew, by assignment: indexes in given_.given, with their collisions; null: it is
  // a doubtful one.
  std::vector<std::pair<Collision*, std::size_t>> all_;
  std::size_t next_ = 0;  // in all_, behind those of the assignment
  // The assignment whose values are being drawn; before start() there is none.
  std::size_t assignment_ = plan_.size();
  std::size_t source_ = 0;  // which of its sequences
  // The values of that assignment to renew, by sequence and statement.
  std::vector<std::pair<Collision*, std::size_t>> wanted_;
  std::size_t end_ = 0;    // those of the sequence end here
  std::size_t done_ = 0;   // how many of wanted_ have a fresh value, or get none
  std::size_t count_ = 0;  // how many values to draw at once
  bool asked_ = false;
};

}  // namespace idproxy::rewrite
