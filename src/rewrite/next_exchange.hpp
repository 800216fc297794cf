#pragma once

#include <chrono>
#include <memory>

#include "idproxy/rewrite/conversation.hpp"
#include "idproxy/rewrite/insert_rights.hpp"
#include "idproxy/rewrite/next_request.hpp"

namespace idproxy::rewrite {

/// The conversation of {idproxy: "next"}: checks the client's right, draws the values, replies.
///
/// The server checks the right on the client's own connection: mongod answers an insert of
/// {_id: []} with the write error 53 to those who may insert there, and with error 13 to others. It
/// stores nothing and creates no collection (observed, 6.0.5).
class NextExchange final : public Conversation {
 public:
  /// `rights`: those of the connection; null: asks the server each time.
  NextExchange(Bytes request, InsertRights* rights) : Conversation(request), rights_(rights) {}

  Action begin(const NextRequest& next, const Received& received);
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;
  Action answered(ids::Result<ids::Grant> grant, const Context& context,
                  Workspace& workspace) override;

  /// The number of values in the answer to the client.
  [[nodiscard]] std::size_t handed_out() const { return handed_out_; }

 private:
  /// The arguments of an event's handlers.
  struct Step {
    std::chrono::nanoseconds now;  ///< monotonic
    Workspace& workspace;          ///< its `reply` gets the answer
  };
  Action send_question(Workspace& workspace);
  Action read_answer(const wire::OpMsgView& message, const Step& step);
  Action draw_values(const Step& step);
  std::optional<Action> await_guard(const Step& step);
  Action hand_out(const Step& step);
  Action fail(const CommandError& error, const Step& step) const;
  [[nodiscard]] std::string why_document() const;
  [[nodiscard]] CommandError no_document(const std::string& why) const;
  [[nodiscard]] CommandError no_rule() const;
  [[nodiscard]] CommandError none(const ids::Error& error) const;

  /// The source of the values: the sequence, if there is one, or the rule's strategy.
  [[nodiscard]] ids::Strategy& source() const {
    return sequence_ ? *sequence_ : *request_.assignment->strategy;
  }

  InsertRights* const rights_;
  NextRequest request_;
  ids::Values values_;
  std::shared_ptr<ids::Strategy> sequence_;  // the strategy's, if it has any
  std::size_t handed_out_ = 0;
  bool awaits_guard_ = false;
};

}  // namespace idproxy::rewrite
