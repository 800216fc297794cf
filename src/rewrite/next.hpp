#pragma once

#include <chrono>
#include <memory>

#include "idproxy/rewrite/action.hpp"
#include "idproxy/rewrite/insert_rights.hpp"
#include "idproxy/rewrite/next_request.hpp"
#include "idproxy/rewrite/workspace.hpp"

namespace idproxy::rewrite {

/// Answers a NextRequest: checks the client's right, draws the values, replies. A state machine for
/// an Exchange, with the same events.
///
/// The server checks the right on the client's own connection: mongod answers an insert of
/// {_id: []} with the write error 53 to those who may insert there, and with error 13 to others. It
/// stores nothing and creates no collection (observed, 6.0.5).
class NextValues {
 public:
  /// What the handling of one event needs.
  struct Step {
    std::chrono::nanoseconds now;  ///< monotonic
    Workspace& workspace;          ///< its `reply` gets the answer
  };
  /// The message of `request` must outlive this object. `rights`: those of its connection; null:
  /// asks the server each time.
  NextValues(NextRequest request, InsertRights* rights);

  /// Returns Send, with `question` as its message, if the server must be asked; else an action as
  /// reply() returns it.
  Action begin(const Step& step, wire::PatchedMessage& question);
  /// Event: the server's answer. Returns Reply, AskStore or Close.
  Action reply(const wire::OpMsgView& message, const Step& step);
  /// Event: the store's answer. Returns Reply or AskStore.
  Action answered(ids::Result<ids::Grant> grant, const Step& step);

  /// The number of values in the answer to the client.
  [[nodiscard]] std::size_t handed_out() const { return handed_out_; }

 private:
  void ask_for_right(wire::PatchedMessage& question) const;
  Action draw_values(const Step& step);
  std::optional<Action> await_guard(const Step& step);
  Action hand_out(const Step& step);
  Action fail(const CommandError& error, const Step& step) const;
  [[nodiscard]] std::string why_document() const;
  [[nodiscard]] CommandError no_document(const std::string& why) const;
  [[nodiscard]] CommandError no_rule() const;
  [[nodiscard]] CommandError none(const ids::Error& error) const;

  NextRequest request_;
  InsertRights* rights_;
  /// What makes the values.
  [[nodiscard]] ids::Strategy& source() const {
    return sequence_ ? *sequence_ : *request_.assignment->strategy;
  }

  ids::Values values_;
  std::shared_ptr<ids::Strategy> sequence_;  // the strategy's, if it has any
  std::size_t handed_out_ = 0;
  bool awaits_guard_ = false;
};

}  // namespace idproxy::rewrite
