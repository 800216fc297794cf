#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/guard.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/stage.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {

/// Appends {collectionUUID: <uuid>} as an element. The server refuses each statement with error 361
/// CollectionUUIDMismatch, and stores nothing, if its collection has another UUID
/// (docs/server-behaviour.md#collection-uuid).
void append_uuid(const ids::CollectionUuid& uuid, Buffer& out);

/// The guards of a write. Asks them before each command, and tells them the server's answers about
/// their collections, of which only a bulkWrite has several.
class GuardStage final : public Stage {
 public:
  /// Borrows its arguments.
  GuardStage(const WriteRequest& write, const GivenValues& given)
      : write_(write), given_(given), plan_(*write.plan) {
    for (const BulkNamespace& each : write.namespaces) {
      if (each.names_uuid) named_by_client_.insert(each.plan->front().ns);
    }
  }

  /// The index of a rule whose values the command stores. Nothing once it may be sent; it must name
  /// collections().
  [[nodiscard]] std::optional<Need> need(const Moment& moment) override;
  [[nodiscard]] std::optional<End> accept(const Answer& answer) override;
  /// The collection is another one, or the server does not know `collectionUUID`.
  [[nodiscard]] std::optional<Next> failed(const Failure& failure) override;
  /// Statements with the first of these errors go again.
  void executed(Executed& command) override;

  /// Those that the last command names. Valid until need().
  [[nodiscard]] std::span<const NamedCollection> collections() const { return collections_; }
  /// True if this error says that a collection is not the one that the guards know.
  [[nodiscard]] bool is_moved(std::int64_t code) const;
  /// Event: an index has gone since need(). True if the write may still wait for it.
  [[nodiscard]] bool lost_index(const Moment& moment);
  /// The error for collections that have been moving for as long as a write waits, one command
  /// after the other; nothing if they have not.
  [[nodiscard]] std::optional<Next> moves_too_often(std::chrono::nanoseconds now) const;
  /// The first rule that has a guard.
  [[nodiscard]] const Assignment& rule() const;

 private:
  void moved(std::chrono::nanoseconds now);
  /// The first one that does not know the collection to be guarded, and what it knows.
  using Lacking = std::pair<const Assignment*, ids::GuardState>;
  [[nodiscard]] std::optional<Lacking> lacking(std::chrono::nanoseconds now);
  /// True if the client has named the collection of this statement itself.
  [[nodiscard]] bool is_named_by_client(std::int32_t statement) const;

  [[nodiscard]] std::chrono::nanoseconds patience(const Moment& moment) const;

  const WriteRequest& write_;
  const GivenValues& given_;
  const Plan& plan_;
  std::vector<NamedCollection> collections_;
  std::unordered_set<std::string_view> named_by_client_;  // of a bulkWrite
  bool is_unnamed_ = false;  // the server does not take the UUIDs, or so it seems
  // Monotonic.
  std::chrono::nanoseconds ready_at_{};                  // the last time
  std::optional<std::chrono::nanoseconds> waits_since_;  // unless it was ready the last time
  std::optional<std::chrono::nanoseconds> moves_since_;  // the first moved() in a row
};

}  // namespace idproxy::rewrite
