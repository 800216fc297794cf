#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <variant>

#include "idproxy/rewrite/command.hpp"
#include "idproxy/rewrite/insert_command.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/op_msg.hpp"

/// The messages that an Exchange takes: each with what classify() has found in it, so that nobody
/// reads it a second time. They borrow the message, which is whole.
namespace idproxy::rewrite {

/// An insert that rules apply to.
struct InsertRequest {
  wire::OpMsgView message;
  InsertCommand command;
  std::shared_ptr<const Plan> plan;  ///< of its namespace; not null
  std::chrono::seconds now{};        ///< since the Unix epoch, when the exchange began

  /// Nothing if mongod will refuse the message, or no rule applies.
  [[nodiscard]] static std::optional<InsertRequest> read(Bytes message, Namespaces& namespaces);
  /// The same request in a copy of its message.
  [[nodiscard]] InsertRequest in(Bytes copy) const;
};

/// A hello or isMaster, in an OP_MSG or an OP_QUERY.
struct HelloRequest {
  Command command;
};

/// {idproxy: "status"}, well-formed.
struct StatusRequest {
  wire::OpMsgView message;
};

/// The proxy answers with this error itself.
struct RefusedRequest {
  CommandError error;
};

using Request = std::variant<InsertRequest, HelloRequest, StatusRequest, RefusedRequest>;

}  // namespace idproxy::rewrite
