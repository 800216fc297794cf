#include "idproxy/rewrite/request.hpp"

#include "idproxy/rewrite/upsert.hpp"

namespace idproxy::rewrite {

std::optional<WriteRequest> WriteRequest::read(Bytes message, Namespaces& namespaces) {
  const auto view = wire::OpMsgView::parse(message);
  if (!view) return std::nullopt;
  const auto command = BatchCommand::read(*view);
  if (!command) return std::nullopt;
  const auto& plan = namespaces.plan(command->db, command->collection);
  if (plan == nullptr) return std::nullopt;
  if (command->kind != WriteKind::insert && !has_upsert(*command)) return std::nullopt;
  return WriteRequest{*view, *command, plan};
}

WriteRequest WriteRequest::in(Bytes copy) const {
  const auto view = *wire::OpMsgView::parse(copy);
  return {view, *BatchCommand::read(view), plan, now};
}

std::string WriteRequest::ns() const {
  return std::string(command.db) + "." + std::string(command.collection);
}

}  // namespace idproxy::rewrite
