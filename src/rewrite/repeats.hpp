#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>

#include "idproxy/base/buffer.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::rewrite {

/// Tracks the statements that are repeated with fresh values, until they are stored, and counts the
/// outcomes for their rules.
class Repeats {
 public:
  /// How often the statement has been repeated.
  [[nodiscard]] std::uint32_t of(std::int32_t statement) const;
  [[nodiscard]] bool contains(std::int32_t statement) const { return all_.contains(statement); }

  /// Event: the statement will be sent again. `rule`: the rule of the first of its values that are
  /// taken.
  void add(std::int32_t statement, const Assignment& rule);
  /// Event: these statements are in the command that is being sent.
  void sent(std::span<const std::int32_t> statements);
  /// Event: the server has tried these statements. `errors`: by statement.
  void tried(std::span<const std::int32_t> statements,
             const std::map<std::int32_t, Buffer>& errors);
  /// Event: a value of this rule stays a duplicate.
  void give_up(const Assignment& rule, RetryBound ended_by);
  /// Event: those of these statements that were to be sent again keep their errors instead.
  void abandon(std::span<const std::int32_t> statements, RetryBound ended_by);

  /// The rule of the last value that stays a duplicate, and why; null if there is none.
  struct Last {
    const Assignment* rule = nullptr;
    RetryBound ended_by{};
  };
  [[nodiscard]] const Last& given_up() const { return given_up_; }

 private:
  struct Repeated {
    std::uint32_t times = 0;
    const Assignment* rule = nullptr;
    bool sent = false;  // the last repetition has been counted
  };

  std::unordered_map<std::int32_t, Repeated> all_;
  Last given_up_;
};

}  // namespace idproxy::rewrite
