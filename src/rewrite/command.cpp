#include "idproxy/rewrite/command.hpp"

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/op_query.hpp"

namespace idproxy::rewrite {
namespace {

/// {$query: {isMaster: 1}, $readPreference: ...}, as drivers wrote it for mongos. mongod also
/// accepts an array as the inner document, and unwraps only one level (observed, 6.0.5).
bool is_wrapper(const bson::Element& first) {
  return is_query_wrapper(first.key) &&
         (first.type == bson::Type::document || first.type == bson::Type::array);
}

/// Reads a Command from an OP_MSG or OP_QUERY, except its name.
std::optional<Command> read(Bytes message) {
  Command command;
  if (wire::read_header(message).op_code == wire::OpCode::msg) {
    const auto view = wire::OpMsgView::parse(message);
    if (!view) return std::nullopt;
    command.documents = {view->body()};
    command.has_checksum = view->has(wire::flag::kChecksumPresent);
    return command;
  }
  const auto view = wire::OpQueryView::parse(message);
  if (!view || !view->full_collection_name.ends_with(".$cmd")) return std::nullopt;
  command.documents = {view->query};
  const auto first = bson::Elements(view->query).next();
  if (first && is_wrapper(*first)) command.documents.push_back(first->value);
  return command;
}

}  // namespace

bool is_query_wrapper(std::string_view key) {
  return key == "$query" || key == "query";
}

bool is_hello(std::string_view command) {
  return equals(command, "hello") || equals(command, "isMaster") || equals(command, "ismaster");
}

std::optional<Command> Command::find(Bytes message) {
  auto command = read(message);
  if (!command) return std::nullopt;
  const auto first = bson::Elements(command->document()).next();
  if (!first) return std::nullopt;
  command->name = first->key;
  return command;
}

}  // namespace idproxy::rewrite
