#include "idproxy/rewrite/request.hpp"

namespace idproxy::rewrite {

std::optional<InsertRequest> InsertRequest::read(Bytes message, Namespaces& namespaces) {
  const auto view = wire::OpMsgView::parse(message);
  if (!view) return std::nullopt;
  const auto command = InsertCommand::read(*view);
  if (!command) return std::nullopt;
  const auto& plan = namespaces.plan(command->db, command->collection);
  if (plan == nullptr) return std::nullopt;
  return InsertRequest{*view, *command, plan};
}

InsertRequest InsertRequest::in(Bytes copy) const {
  const auto view = *wire::OpMsgView::parse(copy);
  return {view, *InsertCommand::read(view), plan, now};
}

}  // namespace idproxy::rewrite
