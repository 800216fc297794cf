#include "idproxy/rewrite/request.hpp"

#include "rewrite/upsert.hpp"

namespace idproxy::rewrite {

bool WriteRequest::read(Bytes whole, Namespaces& namespaces) {
  const auto view = wire::OpMsgView::parse(whole);
  if (!view) return false;
  const auto found = BatchCommand::read(*view);
  if (!found) return false;
  plan = namespaces.plan(found->db, found->collection);
  message = *view;
  command = *found;
  return plan != nullptr && (command.kind == WriteKind::insert || has_upsert(command));
}

WriteRequest WriteRequest::in(Bytes copy) const {
  const auto view = *wire::OpMsgView::parse(copy);
  return {view, *BatchCommand::read(view), plan, now};
}

std::string WriteRequest::ns() const {
  return std::string(command.db) + "." + std::string(command.collection);
}

}  // namespace idproxy::rewrite
