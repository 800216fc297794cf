#include "rewrite/hello_exchange.hpp"

#include <utility>

#include "idproxy/rewrite/hello.hpp"

namespace idproxy::rewrite {

Action HelloExchange::begin(const HelloRequest& hello, const Received& received) {
  const Bytes message = received.message;
  if (memory_ != nullptr) memory_->rights.forget();  // it may log in (speculativeAuthenticate)
  awaits_reply_ = acknowledged_;
  may_stream_ = wire::has_flag(wire::read_header(message), message, wire::flag::kExhaustAllowed);
  refill(received.workspace);
  const X509 x509 = received.context.x509;
  if (!patch_hello_request(message, hello.command, x509, message_)) return action::Relay{};
  if (message_.borrows()) keep_original(message, received.owner, received.workspace);
  return action::Send{&message_, original()};
}

Action HelloExchange::reply(Bytes message, const Context& context, Workspace& workspace) {
  auto said = read_hello_reply(message);
  const wire::MsgHeader header = wire::read_header(message);
  streams_ = wire::has_flag(header, message, wire::flag::kMoreToCome);
  if (!said || (streams_ && !may_stream_)) return action::Close{};
  if (memory_ != nullptr) memory_->wire_version = said->wire_version;
  // The next reply of a stream answers this one (OP_MSG specification, "exhaustAllowed").
  if (streams_) request_id_ = header.request_id;
  if (context.members == nullptr) return action::Relay{};
  if (said->state == HelloReply::State::unknown || context.members->agrees(server_, *said)) {
    return map(message, context, workspace);
  }
  said_ = std::move(*said);
  original_.clear();
  original_.append(message);
  return action::Learn{&*said_};
}

Action HelloExchange::learned(const Context& context, Workspace& workspace) {
  const Bytes message = original_.view();
  const Action action = map(message, context, workspace);
  if (std::holds_alternative<action::Relay>(action)) return action::Reply{message};
  return action;
}

Action HelloExchange::map(Bytes message, const Context& context, Workspace& workspace) {
  if (!context.maps_hello) return action::Relay{};
  refill(workspace);
  if (!patch_hello_reply(message, *context.members, message_)) return action::Relay{};
  workspace.reply.clear();
  message_.copy(message, 0, workspace.reply);
  return action::Reply{workspace.reply.view()};
}

}  // namespace idproxy::rewrite
