#include "idproxy/rewrite/exchange.hpp"

#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/hello.hpp"

namespace idproxy::rewrite {

Action Exchange::request(Bytes message, Workspace& workspace) {
  request_id_ = wire::read_header(message).request_id;
  if (wire::read_header(message).op_code == wire::OpCode::msg) {
    const auto view = wire::OpMsgView::parse(message);
    if (!view) return Action::relay;  // mongod says what is wrong with it
    const auto command = bson::Elements(view->body()).next();
    if (!command) return Action::relay;
    if (command->key == "insert") return insert(*view, workspace);
  }
  const HelloRequest hello = patch_hello_request(message, workspace.patched);
  is_hello_ = hello != HelloRequest::other;
  return hello == HelloRequest::patched ? Action::send : Action::relay;
}

Action Exchange::insert(const wire::OpMsgView& message, Workspace& workspace) {
  const auto command = InsertCommand::read(message);
  if (!command) return Action::relay;
  const Plan* plan = workspace.namespaces.plan(command->db, command->collection);
  if (plan == nullptr) return Action::relay;
  if (command->repeats_stmt_id()) {
    return fail(message, {ErrorCode::invalid_options, "mongo-idproxy: stmtIds must be distinct"},
                workspace);
  }

  const auto now = std::chrono::duration_cast<std::chrono::seconds>(workspace.clock.wall());
  InsertResult result = workspace.insert.rewrite(message, *command, *plan, now, workspace.patched);
  driver_made_ = result.driver_made;
  const bool acknowledged = !message.has(wire::flag::kMoreToCome);
  switch (result.kind) {
    case InsertResult::Kind::unchanged:
      return Action::relay;
    case InsertResult::Kind::patched:
      assigned_ = result.assigned;
      awaits_reply_ = acknowledged;
      refused_ = std::move(result.refused);
      return Action::send;
    case InsertResult::Kind::failed:
      return fail(message, result.error, workspace);
  }
  return Action::relay;
}

/// The whole command fails here. Nobody waits for an answer to an unacknowledged one.
Action Exchange::fail(const wire::OpMsgView& message, const CommandError& error,
                      Workspace& workspace) {
  workspace.reply.clear();
  if (!message.has(wire::flag::kMoreToCome)) {
    const auto id = static_cast<std::int32_t>(workspace.next_request_id++);
    append_error_reply(message, id, error, workspace.reply);
  }
  return Action::reply;
}

Action Exchange::reply(Bytes message, Workspace& workspace) {
  workspace.reply.clear();
  return append_reply_with_refusals(message, refused_, workspace.reply) ? Action::reply
                                                                        : Action::relay;
}

}  // namespace idproxy::rewrite
