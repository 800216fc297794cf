#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/rewrite/conversation.hpp"
#include "idproxy/rewrite/drawing.hpp"

namespace idproxy::rewrite {

struct ConnectionMemory;
class WriteBatch;
enum class BatchSent;

/// The conversation of a write command to which rules apply. It waits for the guards of its
/// collection, draws the values, sends the write with them, and relays the reply. If more than that
/// is needed, such as another attempt, it leaves the rest to a WriteBatch.
class WriteExchange final : public Conversation {
 public:
  /// `memory`: as for Exchange.
  WriteExchange(Bytes request, ConnectionMemory* memory);
  ~WriteExchange() override;

  Action begin(WriteRequest&& request, const Received& received);
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;
  Action answered(ids::Result<ids::Grant> grant, const Context& context,
                  Workspace& workspace) override;
  Action resume(const Context& context, Workspace& workspace) override;
  Buffer release(Workspace& workspace) override;

  [[nodiscard]] Bytes original() const override;
  [[nodiscard]] std::int32_t request_id() const override;

  // For the log and the counters: see Exchange.
  [[nodiscard]] WriteKind command_kind() const { return write_.command.kind; }
  [[nodiscard]] std::chrono::nanoseconds since() const { return since_; }
  [[nodiscard]] std::size_t assigned() const { return assigned_; }
  [[nodiscard]] std::size_t refused() const { return refused_documents_; }
  [[nodiscard]] const Assignment* driver_made() const { return driver_made_; }
  [[nodiscard]] const Assignment* leaves_zero() const { return leaves_zero_; }
  [[nodiscard]] std::string ns() const { return write_.ns(); }
  [[nodiscard]] std::optional<GivenUp> given_up() const;
  [[nodiscard]] const Assignment* lost_writes() const;

 private:
  // Before the write is sent.
  Action go_on(const Context& context, Workspace& workspace);
  std::optional<Action> await_guards(Workspace& workspace);
  std::optional<Action> draw_values(Workspace& workspace);
  [[nodiscard]] Action ask() const;
  [[nodiscard]] bool too_many_bytes() const;
  [[nodiscard]] bool reserves_values() const;
  [[nodiscard]] std::optional<CommandError> fault_in_batch() const;
  Action fail_write(CommandError error, Workspace& workspace);
  void take_back_all();

  // Sending.
  Action send_unchanged(const Assignment& left_alone);
  Action send_assigned(const Context& context, Workspace& workspace);
  Action send_to_guarded(const Context& context, Workspace& workspace);
  Action send_as_batch(const Context& context, Workspace& workspace);
  Action begun(const Action& action);
  Action send();
  Action send_too_large(const Context& context, Workspace& workspace);
  Action send_in_parts(const Context& context, Workspace& workspace);
  void look_into_original();
  void count_assigned(const GivenValues& given) const;

  [[nodiscard]] bool wants_every_reply() const;
  void open_batch(BatchSent sent);

  ConnectionMemory* const memory_;
  WriteRequest write_;                  // refers to the received bytes, or to original_
  std::chrono::nanoseconds started_{};  // when the write arrived, monotonic
  std::chrono::nanoseconds since_{};    // that, or when the last reply was read, monotonic
  std::chrono::nanoseconds now_{};      // when the current event arrived, monotonic
  bool sent_ = false;
  bool as_batch_ = false;                    // needs numbers in turn, or reservations
  bool has_waited_ = false;                  // the workspace has scanned other messages since
  bool is_plain_ = false;                    // no rule applies after all: its replies are relayed
  const Assignment* guard_of_ = nullptr;     // the rule whose guard the write waits for
  std::optional<ids::CollectionUuid> uuid_;  // of the collection that the guards are of
  GivenValues given_;
  Drawing drawing_;       // of the values for the first send
  std::size_t size_ = 0;  // bytes of the message without its new values
  std::size_t statements_ = 0;
  std::size_t assigned_ = 0;
  std::size_t refused_documents_ = 0;
  std::vector<RefusedDocument> refused_;
  const Assignment* driver_made_ = nullptr;
  const Assignment* leaves_zero_ = nullptr;
  std::unique_ptr<WriteBatch> batch_;  // once a reply or the size calls for further commands
};

}  // namespace idproxy::rewrite
