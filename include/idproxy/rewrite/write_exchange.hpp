#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/rewrite/conversation.hpp"
#include "idproxy/rewrite/draw_stage.hpp"
#include "idproxy/rewrite/guard_stage.hpp"
#include "idproxy/rewrite/right_stage.hpp"

namespace idproxy::rewrite {

class Batch;
enum class BatchSent;
struct BatchStep;

/// The conversation of a write command to which rules apply: write() tells it. As long as one
/// command is enough, as it nearly always is, this class does all; further ones need a Batch.
class WriteExchange final : public Conversation {
 public:
  /// `memory`: as for Exchange.
  WriteExchange(WriteRequest&& request, const Received& received, ConnectionMemory* memory);
  ~WriteExchange() override;

  Action begin(const Received& received) override;
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;
  Action answered(ids::Result<ids::Grant> grant, const Context& context,
                  Workspace& workspace) override;
  Action resume(const Context& context, Workspace& workspace) override;
  Buffer release(Workspace& workspace) override;

  [[nodiscard]] std::int32_t request_id() const override;

  // For the log and the counters: see Exchange.
  [[nodiscard]] WriteKind command_kind() const { return write_.command.kind; }
  [[nodiscard]] std::chrono::nanoseconds since() const { return since_; }
  [[nodiscard]] std::size_t documents() const { return is_insert() ? statements_ : 0; }
  [[nodiscard]] std::size_t assigned() const { return assigned_; }
  [[nodiscard]] std::size_t values_sent() const;
  [[nodiscard]] std::size_t refused() const { return refused_documents_; }
  [[nodiscard]] const Assignment* driver_made() const { return driver_made_; }
  [[nodiscard]] const Assignment* leaves_zero() const { return leaves_zero_; }
  [[nodiscard]] std::optional<GivenUp> given_up() const;
  [[nodiscard]] const Assignment* lost_writes() const;
  [[nodiscard]] bool may_wait() const;

 private:
  Steps write(Buffer* owner);
  Action go_on();
  void end();
  Action answered_by_server();
  void note_rights();
  void begin_event(const Context& context, Workspace& workspace);
  void begin_step();
  [[nodiscard]] BatchStep step();

  // Before a command. The actions end the write.
  std::optional<Action> scan_statements(Buffer* owner);
  std::optional<Action> scan();
  std::optional<CommandError> bind();
  std::optional<Need> lacks();
  std::optional<Need> ask_first(const Need& need);
  std::optional<Need> lacks_stages();
  std::optional<Need> lacks_guard();
  std::optional<Need> lacks_values();
  Action ask(const Need& need);
  Action ask_for_right();
  std::optional<Action> accept(const Need& need);
  std::optional<Action> accept_right();
  void note_refusal(std::span<const Assignment> where);
  [[nodiscard]] bool too_many_bytes();
  [[nodiscard]] bool is_insert() const { return write_.command.kind == WriteKind::insert; }
  [[nodiscard]] bool is_bulk() const { return write_.command.kind == WriteKind::bulk_write; }
  [[nodiscard]] bool takes_turns() const;
  [[nodiscard]] bool reserves_values() const;
  [[nodiscard]] std::optional<CommandError> fault_in_batch() const;
  [[nodiscard]] bool some_may_be_found() const;
  Action no_values_for(const Assignment& assignment, const ids::Error& error);
  Action fail(CommandError error);
  void take_back();

  // Without upsert first.
  [[nodiscard]] bool looks_first() const;
  Action send_without_upsert();
  [[nodiscard]] bool has_found();

  // Sending.
  Action send();
  void emit();
  Action send_unchanged();
  [[nodiscard]] bool only_keeps() const;
  Action send_unkept();
  void note_time_series();
  Action send_batch();
  [[nodiscard]] bool is_large_unordered() const;
  void look_into_original();
  void count_odd() const;
  void count_sent();

  // After it.
  [[nodiscard]] bool is_relayed();
  [[nodiscard]] bool wants_every_reply() const;
  void open_batch(BatchSent sent);

  ConnectionMemory* const memory_;
  WriteRequest write_;                      // refers to the received bytes, or to original_
  const std::chrono::nanoseconds started_;  // when the write arrived, monotonic
  std::chrono::nanoseconds patient_since_;  // that, or when the client had shown its right
  std::chrono::nanoseconds since_;          // that, or when the last reply was read, monotonic
  bool sent_ = false;                       // the write or a part of it, or it is relayed
  bool ended_ = false;
  bool as_batch_ = false;             // needs numbers in turn, or reservations
  bool wants_results_ = false;        // of a bulkWrite: needs those of successes, too
  bool has_waited_ = false;           // the workspace has scanned other messages since
  bool is_too_large_ = false;         // together with its values
  std::optional<GuardStage> guards_;  // nothing: no rule has one
  RightStage rights_;
  NeededRight asked_{};      // of the server
  bool asks_right_ = false;  // that is under way
  /// Of a replacement that may insert a document: sent without upsert, so that no value is drawn
  /// for one that is there.
  enum class Looked { no, under_way, found_nothing };
  Looked looked_ = Looked::no;
  bool rights_noted_ = false;  // as the server's reply says
  bool is_unchanged_ = false;  // is sent as it came after all
  GivenValues given_;
  DrawStage drawing_;      // of the values for the first send
  std::size_t size_ = 0;   // bytes of the message with the values of the first assignments
  std::size_t drawn_ = 0;  // how many assignments that is
  std::size_t statements_ = 0;
  std::size_t assigned_ = 0;
  std::size_t values_sent_ = 0;  // apart from those that batch_ has sent
  std::size_t refused_documents_ = 0;
  std::vector<RefusedDocument> refused_;
  const Assignment* driver_made_ = nullptr;
  const Assignment* leaves_zero_ = nullptr;
  std::unique_ptr<Batch> batch_;  // once a reply or the size calls for further commands

  // The current event.
  const Context* context_ = nullptr;
  Workspace* workspace_ = nullptr;
  std::chrono::nanoseconds now_;  // monotonic
  std::optional<wire::OpMsgView> reply_;
  bool is_empty_ = false;  // the reply has nothing that concerns the proxy
  std::optional<ids::Result<ids::Grant>> grant_;

  Steps steps_;  // write()
};

}  // namespace idproxy::rewrite
