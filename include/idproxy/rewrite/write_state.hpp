#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "idproxy/rewrite/conversation.hpp"
#include "idproxy/rewrite/guard_stage.hpp"
#include "idproxy/rewrite/stage.hpp"

namespace idproxy::rewrite {

class Batch;

/// What is known of a write while it lasts, and of the current event: what its WriteExchange shares
/// with its Batch.
class WriteState : public Conversation {
 protected:
  friend class Batch;

  WriteState(WriteRequest&& request, const Received& received, ConnectionMemory* memory)
      : Conversation(received.message),
        memory_(memory),
        request_(std::move(request)),
        started_(received.context.clock.monotonic()),
        patient_since_(started_),
        lent_(received.workspace.take_given()),
        given_(*lent_),
        now_(started_) {}

  /// Ends the write with this error.
  virtual Action fail(CommandError error) = 0;
  /// What becomes of the write if there are no values for `rule`.
  virtual Action no_values_for(const Assignment& rule, const ids::Error& error) = 0;
  /// The collections that the next command names, or the last one named.
  [[nodiscard]] std::span<const NamedCollection> named() const {
    return guards_ ? guards_->collections() : std::span<const NamedCollection>();
  }
  /// True if a message may have as many bytes as the next command.
  [[nodiscard]] bool fits() const {
    return message_.size() <= static_cast<std::size_t>(wire::kMaxMessageSize);
  }
  [[nodiscard]] bool loses_writes() const { return memory_ != nullptr && memory_->loses_writes(); }

  ConnectionMemory* const memory_;
  WriteRequest request_;                    // refers to the received bytes, or to original_
  const std::chrono::nanoseconds started_;  // when the write arrived, monotonic
  std::chrono::nanoseconds patient_since_;  // that, or when the client had shown its right
  bool sent_ = false;                       // the write or a part of it, or it is relayed
  std::optional<GuardStage> guards_;        // nothing: no rule has one
  std::array<Stage*, 6> stages_{};          // in their order; null: it has none of them
  /// Of a replacement that may insert a document: sent without upsert, so that no value is drawn
  /// for one that is there.
  enum class WithoutUpsert { not_sent, under_way, found_nothing };
  WithoutUpsert without_upsert_ = WithoutUpsert::not_sent;
  std::unique_ptr<GivenValues> lent_;  // by the workspace
  GivenValues& given_;
  std::size_t statements_ = 0;
  std::vector<RefusedDocument> refused_;

  // The current event.
  const Context* context_ = nullptr;
  Workspace* workspace_ = nullptr;
  std::chrono::nanoseconds now_;  // monotonic
  std::optional<wire::OpMsgView> reply_;
  std::optional<ids::Result<ids::Grant>> grant_;
};

}  // namespace idproxy::rewrite
