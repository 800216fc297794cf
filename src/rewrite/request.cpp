#include "idproxy/rewrite/request.hpp"

namespace idproxy::rewrite {

WriteRequest WriteRequest::in(Bytes copy) const {
  const auto view = *wire::OpMsgView::parse(copy);
  return {view, *WriteCommand::read(view), plan, now, namespaces, all_results, known};
}

std::string WriteRequest::ns() const {
  return std::string(command.db) + "." + std::string(command.collection);
}

}  // namespace idproxy::rewrite
