#include "idproxy/rewrite/hello.hpp"

#include <vector>

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/op_query.hpp"

namespace idproxy::rewrite {
namespace {

/// The command inside a message, with the documents around it, outermost first.
struct Command {
  std::vector<Bytes> documents;  // the last one is the command itself
  bool has_checksum = false;
};

std::optional<Command> find_command(Bytes message) {
  Command command;
  if (wire::read_header(message).op_code == wire::OpCode::msg) {
    const auto view = wire::OpMsgView::parse(message);
    if (!view) return std::nullopt;
    command.documents = {view->body()};
    command.has_checksum = view->has(wire::flag::kChecksumPresent);
    return command;
  }
  const auto view = wire::OpQueryView::parse(message);
  if (!view) return std::nullopt;
  command.documents = {view->query};
  // {$query: {isMaster: 1}, $readPreference: ...}, as drivers write it for mongos.
  const auto first = bson::Elements(view->query).next();
  if (first && first->type == bson::Type::document && !is_hello(first->key)) {
    command.documents.push_back(first->value);
  }
  return command;
}

/// An array of strings: what mongod accepts as `compression`.
bool names_compressors(const bson::Element& element) {
  if (element.type != bson::Type::array) return false;
  bson::Elements names(element.value);
  while (const auto name = names.next()) {
    if (name->type != bson::Type::string) return false;
  }
  return !names.malformed();
}

}  // namespace

HelloRequest patch_hello_request(Bytes message, wire::PatchedMessage& out) {
  const auto command = find_command(message);
  if (!command) return HelloRequest::other;
  const Bytes document = command->documents.back();
  bson::Elements elements(document);
  Bytes removed;
  for (bool first = true; auto element = elements.next(); first = false) {
    if (first && !is_hello(element->key)) return HelloRequest::other;
    if (element->key != "compression") continue;
    // mongod refuses it in any other form, and twice.
    if (!removed.empty() || !names_compressors(*element)) return HelloRequest::other;
    removed = {element->begin, element->end()};
  }
  if (elements.malformed() || document.size() == bson::kMinDocument) return HelloRequest::other;
  if (removed.empty()) return HelloRequest::as_it_is;

  const auto offset = [&](const std::uint8_t* at) {
    return static_cast<std::size_t>(at - message.data());
  };
  const auto shrink = [&](std::size_t old_size) {
    out.set_i32(out.add_i32(), static_cast<std::int64_t>(old_size - removed.size()));
  };
  out.start(message);
  shrink(message.size());
  std::size_t position = 4;
  for (const Bytes enclosing : command->documents) {
    out.keep(position, offset(enclosing.data()));
    shrink(enclosing.size());
    position = offset(enclosing.data()) + 4;
  }
  out.keep(position, offset(removed.data()));
  out.keep(offset(removed.data()) + removed.size(),
           message.size() - (command->has_checksum ? 4 : 0));
  if (command->has_checksum) out.add_checksum();
  return HelloRequest::patched;
}

std::optional<HelloReply> read_hello_reply(Bytes message) {
  std::optional<Bytes> document;
  if (wire::read_header(message).op_code == wire::OpCode::msg) {
    const auto view = wire::OpMsgView::parse(message);
    if (view) document = view->body();
  } else if (message.size() > wire::kHeaderSize + 20) {
    document = bson::document_at(message.subspan(wire::kHeaderSize + 20));  // OP_REPLY
  }
  if (!document) return std::nullopt;
  HelloReply reply;
  bson::Elements elements(*document);
  while (auto element = elements.next()) {
    if (element->type != bson::Type::string) continue;
    if (element->key == "setName") reply.set_name = element->text();
    if (element->key == "me") reply.me = element->text();
  }
  if (elements.malformed()) return std::nullopt;
  return reply;
}

}  // namespace idproxy::rewrite
