#include <memory>

#include "idproxy/rewrite/conversation.hpp"

namespace idproxy::rewrite {
namespace {

/// The conversation of {idproxy: "status"}. A client that may look at the server may look at the
/// proxy, so it sends the server a command that needs this right, on the client's connection.
class StatusExchange final : public Conversation {
 public:
  StatusExchange(const StatusRequest& status, Bytes request, ServerId server)
      : Conversation(request), status_(status), server_(server) {}

  Action begin(const Received& received) override;
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;

 private:
  const StatusRequest status_;  // borrows the received bytes: only in begin()
  const ServerId server_;
};

Action StatusExchange::begin(const Received& received) {
  if (!acknowledged_) return action::Reply{};
  awaits_reply_ = true;
  refill(received.workspace);
  ask_for_right(status_.message, message_);
  keep_original(received.message, received.owner, received.workspace);
  return action::Send{&message_, original()};
}

Action StatusExchange::reply(Bytes message, const Context& context, Workspace& workspace) {
  const auto view = single_reply(message);
  if (!view) return action::Close{};
  if (!context.status) return action::Relay{};
  const auto request = *wire::OpMsgView::parse(original_.view());
  workspace.reply.clear();
  if (!append_status_reply(request, *view, context.status(server_), workspace.reply)) {
    return action::Close{};
  }
  return action::Reply{workspace.reply.view()};
}

}  // namespace

std::unique_ptr<Conversation> status_exchange(const StatusRequest& status, Bytes message,
                                              ServerId server) {
  return std::make_unique<StatusExchange>(status, message, server);
}

}  // namespace idproxy::rewrite
