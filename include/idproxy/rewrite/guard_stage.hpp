#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/guard.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/statements.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {

/// Appends {collectionUUID: <uuid>} as an element. The server refuses each statement with error 361
/// CollectionUUIDMismatch, and stores nothing, if its collection has another UUID
/// (docs/server-behaviour.md#collection-uuid).
void append_uuid(const ids::CollectionUuid& uuid, Buffer& out);

/// The guards of a write. Asks them before each command, and tells them the server's answers about
/// their collections, of which only a bulkWrite has several.
class GuardStage {
 public:
  /// Borrows `plan`. `started`: when the write arrived, monotonic.
  GuardStage(const Plan& plan, std::chrono::nanoseconds started) : plan_(plan), started_(started) {}

  /// What a command of `write` lacks: the index of a rule whose values it stores. Nothing once it
  /// may be sent; it must name collections(). `was_sent`: as for patience().
  [[nodiscard]] std::optional<Need> need(const WriteRequest& write, const GivenValues& given,
                                         std::chrono::nanoseconds now, bool was_sent);
  /// True if the last need() came from a collection to which no rule applies after all.
  [[nodiscard]] bool is_left_alone() const { return is_left_alone_; }
  /// Those that the last command names. Valid until need().
  [[nodiscard]] std::span<const NamedCollection> collections() const { return collections_; }
  /// How long the write may still wait. It waits as long as for values, from its arrival on or,
  /// once something `was_sent`, from the beginning of each wait on.
  [[nodiscard]] std::chrono::nanoseconds patience(std::chrono::nanoseconds now,
                                                  bool was_sent) const;
  /// True if this error says that a collection is not the one that the guards know.
  [[nodiscard]] bool is_moved(std::int64_t code) const;
  /// Event: the server has answered a statement with such an error.
  void moved(std::chrono::nanoseconds now);
  /// Event: a command has stored something.
  void stood() { moves_since_.reset(); }
  /// True if the collections have been moving for as long as a write waits, one command after the
  /// other.
  [[nodiscard]] bool moves_too_often(std::chrono::nanoseconds now) const;
  /// Event: the server does not accept `collectionUUID`.
  void takes_no_uuid() const;
  /// The first rule that has a guard.
  [[nodiscard]] const Assignment& rule() const;

 private:
  /// The first one that does not know the collection to be guarded, and what it knows.
  using Lacking = std::pair<const Assignment*, ids::GuardState>;
  [[nodiscard]] std::optional<Lacking> lacking(const GivenValues& given,
                                               std::chrono::nanoseconds now);

  const Plan& plan_;
  const std::chrono::nanoseconds started_;
  std::vector<NamedCollection> collections_;
  bool is_left_alone_ = false;
  // Monotonic.
  std::chrono::nanoseconds ready_at_{};                  // the last time
  std::optional<std::chrono::nanoseconds> waits_since_;  // unless it was ready the last time
  std::optional<std::chrono::nanoseconds> moves_since_;  // the first moved() in a row
};

}  // namespace idproxy::rewrite
