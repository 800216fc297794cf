#pragma once

#include "idproxy/rewrite/conversation.hpp"

namespace idproxy::rewrite {

/// The conversation of {idproxy: "status"}. A client that may look at the server may look at the
/// proxy, so it sends the server a command that needs this right, on the client's connection.
class StatusExchange final : public Conversation {
 public:
  /// `server`: as for Exchange.
  StatusExchange(Bytes request, ServerId server) : Conversation(request), server_(server) {}

  Action begin(const StatusRequest& status, const Received& received);
  Action reply(Bytes message, const Context& context, Workspace& workspace) override;

 private:
  const ServerId server_;
};

}  // namespace idproxy::rewrite
