#pragma once

#include <cstddef>
#include <vector>

#include "idproxy/ids/draw.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {

/// Draws the values for the first send of a command: rule by rule, and within a rule sequence by
/// sequence. Values are in given.values once their rule is done.
class Drawing {
 public:
  /// True once all rules are done. Skips those that want nothing.
  [[nodiscard]] bool is_done(const Plan& plan, const GivenValues& given);
  /// The rule at hand; only before is_done().
  [[nodiscard]] std::size_t assignment() const { return assignment_; }

  /// Draws all missing values of the rule at hand, and goes on to the next rule. Returns what
  /// prevents that, if anything does.
  [[nodiscard]] ids::Draw draw(const Plan& plan, GivenValues& given);
  /// The request to the store after Draw::need().
  [[nodiscard]] Need need(const Plan& plan, const GivenValues& given) const;
  /// The store's answer, or the error with which the caller has stopped waiting for it. As draw(),
  /// but never Draw::need().
  [[nodiscard]] ids::Draw answered(ids::Result<ids::Grant> grant, const Plan& plan,
                                   GivenValues& given);

  /// Returns to their sequences the values of the rule at hand.
  void take_back(const GivenValues& given);
  /// The bytes of those values.
  [[nodiscard]] std::size_t bytes() const;

 private:
  void count(const GivenSequences& sequences);
  void merge(const GivenSequences& sequences, ids::Values& out);
  void go_on();

  std::size_t assignment_ = 0;
  // Of a rule with several sequences.
  std::size_t sequence_ = 0;         // the one at hand
  std::vector<std::size_t> counts_;  // by sequence: how many values are wanted
  std::vector<ids::Values> parts_;   // by sequence: those that have been drawn
};

}  // namespace idproxy::rewrite
