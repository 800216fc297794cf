#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "idproxy/rewrite/draw_stage.hpp"
#include "idproxy/rewrite/right_stage.hpp"
#include "idproxy/rewrite/write_state.hpp"

namespace idproxy::rewrite {

/// The conversation of a write command to which rules apply: write() tells it. As long as one
/// command is enough, as it nearly always is, this class does all; further ones need a Batch.
class WriteExchange final : public WriteState {
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

  /// Memory for write(): see Steps.
  [[nodiscard]] BlockPool& frames() const { return workspace_->frames; }

 private:
  Steps write(Buffer* owner);
  Action go_on();
  void end();
  void note_rights();
  void begin_event(const Context& context, Workspace& workspace);
  void begin_step();
  std::chrono::nanoseconds begin_later_step();

  // Before a command. The actions end the write.
  inline std::optional<Action> scan_statements(Buffer* owner);
  std::optional<Action> scan();
  std::optional<Action> scan_again();
  std::optional<CommandError> bind();
  void list_stages();
  [[nodiscard]] Moment moment() const;
  inline std::optional<Need> lacks();
  std::optional<Need> first_need();
  Action ask(const Need& need);
  std::optional<Action> accept(const Need& need);
  [[nodiscard]] bool is_insert() const { return request_.command.kind == WriteKind::insert; }
  [[nodiscard]] bool is_bulk() const { return request_.command.kind == WriteKind::bulk_write; }
  [[nodiscard]] std::optional<CommandError> fault_in_batch() const;
  Action no_values_for(const Assignment& rule, const ids::Error& error) override;
  Action fail(CommandError error) override;
  Action refuse(CommandError error);
  void take_back();

  // Without upsert first.
  [[nodiscard]] bool sends_without_upsert() const;
  Action send_without_upsert();
  [[nodiscard]] bool has_found();

  // Sending.
  inline Action send();
  inline void emit();
  Action send_unchanged();
  void note_time_series();
  [[nodiscard]] bool is_large_unordered() const;
  void refer_to_original();
  inline void count_sent();

  // After it.
  [[nodiscard]] inline bool is_relayed();
  void open_batch();

  bool ended_ = false;
  bool as_batch_ = false;       // needs numbers in turn, or reservations
  bool wants_results_ = false;  // of a bulkWrite: needs those of successes, too
  bool has_waited_ = false;     // the workspace has scanned other messages since
  bool asks_ = false;           // a stage has asked the server
  bool rights_noted_ = false;   // as the server's reply says
  bool is_unchanged_ = false;   // is sent as it came after all

  RightStage rights_;
  std::optional<DrawStage> drawing_;  // of the values for the first send; nothing before the scan
  std::unique_ptr<Batch> batch_;      // once a reply or the size calls for further commands

  // The current event.
  bool is_empty_ = false;  // it has nothing that concerns the proxy

  Steps steps_;  // write()
};

}  // namespace idproxy::rewrite
