#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>

#include "idproxy/base/buffer.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::rewrite {

/// The statements that have been repeated with fresh values, or were to be, and have not been
/// stored yet. Counts, for the rules, what becomes of them.
class Repeats {
 public:
  /// How often the statement has been repeated.
  [[nodiscard]] std::uint32_t of(std::int32_t statement) const;
  [[nodiscard]] bool contains(std::int32_t statement) const { return all_.contains(statement); }

  /// The statement is to go again; `rule`: of the first of its values that are taken.
  void add(std::int32_t statement, const Assignment& rule);
  /// These are in the command that goes out.
  void sent(std::span<const std::int32_t> statements);
  /// The server has tried these; `errors`: by statement.
  void tried(std::span<const std::int32_t> statements,
             const std::map<std::int32_t, Buffer>& errors);
  /// A duplicate of this rule's value stays one.
  void give_up(const Assignment& rule);
  /// Of these, the ones that were to go again keep their error after all.
  void abandon(std::span<const std::int32_t> statements);

  /// The rule of the last duplicate that stays one; null: none does.
  [[nodiscard]] const Assignment* given_up() const { return given_up_; }

 private:
  struct Repeated {
    std::uint32_t times = 0;
    const Assignment* rule = nullptr;
    bool sent = false;  // the last time has been counted
  };

  std::unordered_map<std::int32_t, Repeated> all_;
  const Assignment* given_up_ = nullptr;
};

}  // namespace idproxy::rewrite
