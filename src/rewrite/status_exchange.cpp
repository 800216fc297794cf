#include <chrono>
#include <memory>

#include "idproxy/rewrite/conversation.hpp"
#include "rewrite/status.hpp"

namespace idproxy::rewrite {
namespace {

// How often to look whether the document is there, and how long it may take to make one.
constexpr std::chrono::milliseconds kPollEvery{2};
constexpr std::chrono::seconds kTimeLimit{10};

/// The conversation of {idproxy: "status"}. A client that may look at the server may look at the
/// proxy, so it sends the server a command that needs this right, on the client's connection.
class StatusExchange final : public Conversation {
 public:
  StatusExchange(const StatusRequest& status, Bytes request, ServerId server)
      : Conversation(request), status_(status), server_(server) {}

  Action begin(const Received& received) override;
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;
  Action resume(const Context& context, Workspace& workspace) override;

 private:
  [[nodiscard]] wire::OpMsgView request() const {
    return *wire::OpMsgView::parse(original_.view());
  }

  const StatusRequest status_;  // borrows the received bytes: only in begin()
  const ServerId server_;
  Buffer reply_;  // the server's, which permits it
  StatusDocument document_;
  std::chrono::nanoseconds asked_{};
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
  const auto permits = permits_status(*view);
  if (!permits) return action::Close{};
  if (!*permits) {
    workspace.reply.clear();
    append_status_refusal(request(), *view, workspace.reply);
    return action::Reply{workspace.reply.view()};
  }
  reply_.append(message);
  document_ = context.status(server_);
  asked_ = context.clock.monotonic();
  return resume(context, workspace);
}

Action StatusExchange::resume(const Context& context, Workspace& workspace) {
  if (const auto document = document_()) {
    workspace.reply.clear();
    append_status_reply(request(), *wire::OpMsgView::parse(reply_.view()), document->view(),
                        workspace.reply);
    return action::Reply{workspace.reply.view()};
  }
  if (context.clock.monotonic() - asked_ < kTimeLimit) return action::Wait{kPollEvery};
  return fail_request(
      original(),
      {ErrorCode::max_time_ms_expired, "mongo-idproxy: it could not make its status within 10 s"},
      workspace);
}

}  // namespace

std::unique_ptr<Conversation> status_exchange(const StatusRequest& status, Bytes message,
                                              ServerId server) {
  return std::make_unique<StatusExchange>(status, message, server);
}

}  // namespace idproxy::rewrite
