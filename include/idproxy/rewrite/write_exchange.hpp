#pragma once

#include <memory>
#include <optional>
#include <span>

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

 private:
  Steps write(Buffer* owner);
  Action go_on();
  void end();
  Action answered_by_server();
  void note_rights();
  void begin_event(const Context& context, Workspace& workspace);
  void begin_step();

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
  [[nodiscard]] bool is_insert() const { return request_.command.kind == WriteKind::insert; }
  [[nodiscard]] bool is_bulk() const { return request_.command.kind == WriteKind::bulk_write; }
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
  void open_batch();

  bool ended_ = false;
  bool as_batch_ = false;       // needs numbers in turn, or reservations
  bool wants_results_ = false;  // of a bulkWrite: needs those of successes, too
  bool has_waited_ = false;     // the workspace has scanned other messages since
  bool is_too_large_ = false;   // together with its values
  RightStage rights_;
  NeededRight asked_{};           // of the server
  bool asks_right_ = false;       // that is under way
  bool rights_noted_ = false;     // as the server's reply says
  bool is_unchanged_ = false;     // is sent as it came after all
  DrawStage drawing_;             // of the values for the first send
  std::size_t size_ = 0;          // bytes of the message with the values of the first assignments
  std::size_t drawn_ = 0;         // how many assignments that is
  std::unique_ptr<Batch> batch_;  // once a reply or the size calls for further commands

  bool is_empty_ = false;  // the reply has nothing that concerns the proxy

  Steps steps_;  // write()
};

}  // namespace idproxy::rewrite
