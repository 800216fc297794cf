#include "rewrite/hello_fields.hpp"

#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/op_query.hpp"

namespace idproxy::rewrite {

std::optional<HelloDocument> find_hello_document(Bytes message) {
  if (wire::read_header(message).op_code == wire::OpCode::msg) {
    const auto view = wire::OpMsgView::parse(message);
    if (!view || view->sequence_count() > 0) return std::nullopt;
    return HelloDocument{view->body(), view->has(wire::flag::kChecksumPresent)};
  }
  if (message.size() < wire::kReplyDocuments) return std::nullopt;
  const Bytes documents = message.subspan(wire::kReplyDocuments);
  const auto first = bson::document_at(documents);
  if (!first || first->size() != documents.size()) return std::nullopt;
  return HelloDocument{*first};
}

NamesMembers names_members(std::string_view key) {
  if (key == "hosts" || key == "passives" || key == "arbiters") return NamesMembers::list;
  return key == "primary" || key == "me" ? NamesMembers::one : NamesMembers::none;
}

}  // namespace idproxy::rewrite
