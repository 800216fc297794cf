#pragma once

#include <optional>

#include "idproxy/rewrite/connection_memory.hpp"
#include "idproxy/rewrite/conversation.hpp"

namespace idproxy::rewrite {

/// The conversation of a hello: its request asks for no compression, and its replies, of which
/// there may be a whole stream, name the proxy's listeners.
class HelloExchange final : public Conversation {
 public:
  /// As for Exchange.
  HelloExchange(Bytes request, ServerId server, ConnectionMemory* memory)
      : Conversation(request), server_(server), memory_(memory) {}

  Action begin(const HelloRequest& hello, const Received& received);
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;
  Action learned(const Context& context, Workspace& workspace) override;

 private:
  Action map(Bytes message, const Context& context, Workspace& workspace);

  const ServerId server_;
  ConnectionMemory* const memory_;
  bool may_stream_ = false;
  std::optional<HelloReply> said_;
};

}  // namespace idproxy::rewrite
