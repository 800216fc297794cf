#include <memory>
#include <optional>
#include <utility>

#include "idproxy/rewrite/conversation.hpp"
#include "idproxy/rewrite/hello.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "rewrite/login.hpp"

namespace idproxy::rewrite {
namespace {

/// The conversation of a hello: its request offers no compressor that the proxy lacks, and its
/// replies, of which there may be a whole stream, name the proxy's listeners.
class HelloExchange final : public Conversation {
 public:
  HelloExchange(HelloRequest&& hello, Bytes request, ServerId server, ConnectionMemory* memory)
      : Conversation(request), hello_(std::move(hello)), server_(server), memory_(memory) {}

  Action begin(const Received& received) override;
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;
  Action learned(const Context& context, Workspace& workspace) override;

 private:
  Action map(Bytes message, const Context& context, Workspace& workspace);

  const HelloRequest hello_;  // borrows the received bytes: only in begin()
  const ServerId server_;
  ConnectionMemory* const memory_;
  bool may_stream_ = false;
  std::optional<HelloReply> said_;
};

Action HelloExchange::begin(const Received& received) {
  const Bytes message = received.message;
  if (memory_ != nullptr) {
    memory_->rights.forget();  // it may log in (speculativeAuthenticate)
    note_names(hello_.command.document(), *memory_);
  }
  awaits_reply_ = acknowledged_;
  may_stream_ = wire::has_flag(wire::read_header(message), message, wire::flag::kExhaustAllowed);
  refill(received.workspace);
  const X509 x509 = received.context.x509;
  const wire::Compressors allowed = received.context.compressors;
  if (!patch_hello_request(message, hello_.command, x509, allowed, message_)) {
    return action::Relay{};
  }
  if (message_.borrows()) keep_original(message, received.owner, received.workspace);
  return action::Send{&message_, original()};
}

Action HelloExchange::reply(Bytes message, const Context& context, Workspace& workspace) {
  auto said = read_hello_reply(message);
  const wire::MsgHeader header = wire::read_header(message);
  streams_ = wire::has_flag(header, message, wire::flag::kMoreToCome);
  if (!said || (streams_ && !may_stream_)) return action::Close{};
  if (memory_ != nullptr) {
    memory_->wire_version = said->wire_version;
    memory_->majority = said->majority();
    (void)note_login("hello", message, *memory_);
    const wire::Compressors agreed = agreed_compressors(message);
    for (const wire::Compressor each : wire::kCompressors) {
      if (agreed.has(each) && context.compressors.has(each)) memory_->compressors.add(each);
    }
  }
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

}  // namespace

std::unique_ptr<Conversation> hello_exchange(HelloRequest&& hello, Bytes message, ServerId server,
                                             ConnectionMemory* memory) {
  return std::make_unique<HelloExchange>(std::move(hello), message, server, memory);
}

}  // namespace idproxy::rewrite
