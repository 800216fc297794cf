#include "rewrite/status_exchange.hpp"

namespace idproxy::rewrite {

Action StatusExchange::begin(const StatusRequest& status, const Received& received) {
  if (!acknowledged_) return action::Reply{};
  awaits_reply_ = true;
  refill(received.workspace);
  ask_for_right(status.message, message_);
  keep_original(received.message, received.owner, received.workspace);
  return action::Send{&message_, original()};
}

Action StatusExchange::reply(Bytes message, const Context& context, Workspace& workspace) {
  const auto view = single_reply(message);
  if (!view) return action::Close{};
  if (context.status == nullptr) return action::Relay{};
  const auto request = *wire::OpMsgView::parse(original_.view());
  workspace.reply.clear();
  if (!append_status_reply(request, *view, context.status->status(server_), workspace.reply)) {
    return action::Close{};
  }
  return action::Reply{workspace.reply.view()};
}

}  // namespace idproxy::rewrite
