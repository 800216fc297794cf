#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "idproxy/rewrite/given_values.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "idproxy/rewrite/request.hpp"
#include "idproxy/rewrite/stage.hpp"

namespace idproxy::rewrite {

/// What a write's connection has shown that it may do. The proxy makes things with its own
/// privileges, so until the server has said that the client may write there itself, nothing that
/// lasts is made or changed for the write (collection, index, counter, mark, range, sequence,
/// reservation), and no collection is read for it. Values that are in memory need no right: if the
/// server refuses the write, they come back.
class RightStage final : public Stage {
 public:
  /// Borrows its arguments. `memory`: of the connection; null: nothing has to be shown.
  RightStage(const WriteRequest& write, const GivenValues& given, ConnectionMemory* memory);

  [[nodiscard]] bool is_shown() const { return is_shown_; }
  /// True if the store may look at this collection, and make what a rule needs there.
  [[nodiscard]] bool admits(const Assignment& its) const;
  /// A right, if the write, whose values are not drawn yet, needs more than what is in memory.
  [[nodiscard]] std::optional<Need> need(const Moment& moment) override;
  /// The next right, whatever the write needs; nothing: is_shown() from now on.
  [[nodiscard]] std::optional<Need> demand();
  [[nodiscard]] Action ask(const Question& question) override;
  [[nodiscard]] std::optional<End> accept(const Answer& answer) override;

  /// Event: the write has another plan.
  void replanned();
  /// Event: the server has carried out the write, as far as rights go.
  void carried_out(std::chrono::nanoseconds now);
  /// Event: the server has refused it for lack of a right in the collections of these rules.
  void refused(std::span<const Assignment> where);
  /// The first of them; null: it has not.
  [[nodiscard]] const Assignment* not_permitted() const { return not_permitted_; }

 private:
  [[nodiscard]] bool makes_something(std::chrono::nanoseconds now) const;
  bool advance();
  void shown(std::chrono::nanoseconds now);
  [[nodiscard]] Right right_for(std::size_t assignment);
  [[nodiscard]] std::string key_of(const Assignment& its) const { return its.ns + beside_; }

  const WriteRequest& write_;
  const GivenValues& given_;
  ConnectionMemory* const memory_;
  std::string beside_;  // what the remembered right is for, beside the namespace
  bool is_shown_;
  // The right to ask the server for.
  const Assignment* asked_for_ = nullptr;  // a rule of the collection
  Right asked_{};
  const Assignment* not_permitted_ = nullptr;
  std::size_t at_ = 0;  // assignments before this one need nothing more
  // Of a bulkWrite: collections that have some; nothing: not known yet.
  std::optional<std::unordered_set<std::string_view>> upserts_;
};

/// True if the server will refuse each document of an insert for its `_id` (an array, a regular
/// expression, undefined), or the first one of an ordered insert.
[[nodiscard]] bool stores_nothing(const WriteCommand& insert, Bytes body);

}  // namespace idproxy::rewrite
