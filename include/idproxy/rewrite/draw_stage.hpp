#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "idproxy/ids/error.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/rewrite/given_values.hpp"
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

}  // namespace idproxy::rewrite
