#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "idproxy/base/random.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/rewrite/action.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

struct Collision;
struct WriteReply;
struct Workspace;
class Stage;

/// What must be asked before a write can go on.
struct Need {
  Stage* stage = nullptr;                  ///< takes the answer
  const Assignment* assignment = nullptr;  ///< the rule; null: Stage::ask() asks the server
  ids::StoreSource* source = nullptr;      ///< the part of the store to ask
  std::size_t count = 0;
  std::chrono::nanoseconds patience{};  ///< how long to wait; with none left, it may be negative
  std::optional<ids::Error> error{};    ///< do not ask: there are no values
  bool is_left_alone = false;           ///< because no rule applies to the collection after all
};

/// The write before its next command.
struct Moment {
  std::chrono::nanoseconds now{};            ///< monotonic
  std::chrono::nanoseconds patient_since{};  ///< all first questions share the time of one
  bool was_sent = false;                     ///< the write, or a part of it
  std::span<const std::int32_t> todo{};      ///< of a Batch: the statements that are to be sent
};

/// How to ask the server.
struct Question {
  wire::PatchedMessage& out;
  std::int32_t request_id;                  ///< that the reply answers
  bool is_first;                            ///< nothing has gone to the server for this write
  std::optional<std::int64_t> max_time_ms;  ///< the rest of the client's maxTimeMS
  RandomSource& random;
  Workspace& workspace;
};

/// The answer to a Need: one of both.
struct Answer {
  std::optional<ids::Result<ids::Grant>>& grant;  ///< the store's; may be moved from
  const std::optional<wire::OpMsgView>& reply;    ///< the server's
  std::chrono::nanoseconds now;
  Workspace& workspace;
};
/// What ends a write: there are no values for the rule of its Need, or an action.
using End = std::variant<ids::Error, Action>;

/// A command that failed as a whole.
struct Failure {
  const wire::OpMsgView& message;
  std::int64_t code;
  std::chrono::nanoseconds now;
  bool in_transaction;
  bool is_denied;              ///< its statements are certainly not stored
  const Collision* collision;  ///< of its only statement; null: there is none
};
/// What becomes of its statements: they go again, if need be with fresh values; or there are no
/// values for `rule`.
struct Next {
  const Assignment* rule = nullptr;
  ids::Error error{};
};

/// A command that the server has executed: its reply has ok: 1, accounts for each statement, and
/// has been merged.
struct Executed {
  const wire::OpMsgView& message;
  const WriteReply& reply;
  std::span<const std::int32_t> statements;  ///< in the command, ascending
  std::span<const std::int32_t> tried;       ///< as BatchProgress::tried()
  std::chrono::nanoseconds now;
  std::span<const Collision> collisions;
  bool loses_writes;                  ///< ConnectionMemory's
  bool may_be_held;                   ///< a document that a statement found may have its value
  std::vector<std::int32_t> moved{};  ///< statements that the guards let go again
};

/// What a write needs before each of its commands, and learns from what becomes of them. A write
/// goes through the list of its stages (WriteExchange::list_stages()); none knows another one.
class Stage {
 public:
  virtual ~Stage() = default;

  /// What the next command lacks; nothing once it can be sent.
  [[nodiscard]] virtual std::optional<Need> need(const Moment& moment) = 0;
  /// Asks the server, after a Need without a rule: Send or AskServer, or an action that ends the
  /// write.
  [[nodiscard]] virtual Action ask(const Question& /*question*/) { return action::Close{}; }
  /// The answer to the last Need. Returns what ends the write, if anything does.
  [[nodiscard]] virtual std::optional<End> accept(const Answer& answer) = 0;
  /// Event: these statements are sent.
  virtual void sent(std::span<const std::int32_t> /*statements*/) {}
  /// Event: the command has failed. Nothing: not for a reason that this stage can cure.
  [[nodiscard]] virtual std::optional<Next> failed(const Failure& /*failure*/) { return {}; }
  /// Event: the command has been executed, with or without errors of its statements.
  virtual void executed(Executed& /*command*/) {}
  /// Event: the write is over, or begins anew. `is_unstored`: true for statements that have
  /// certainly stored nothing; what they hold goes back.
  virtual void ended(const std::function<bool(std::int32_t)>& /*is_unstored*/) {}
};

}  // namespace idproxy::rewrite
