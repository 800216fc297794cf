#include "idproxy/rewrite/hello.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "command.hpp"
#include "idproxy/base/text.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/members.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/op_query.hpp"
#include "login.hpp"

namespace idproxy::rewrite {
namespace {

/// An array of strings: what mongod accepts as `compression`.
bool names_compressors(const bson::Element& element) {
  if (element.type != bson::Type::array) return false;
  bson::Elements names(element.value);
  while (const auto name = names.next()) {
    if (name->type != bson::Type::string) return false;
  }
  return !names.malformed();
}

/// `compression`, unless mongod will refuse it, as it does in any other form, and twice.
std::optional<bson::Element> compression_in(Bytes hello) {
  std::optional<bson::Element> found;
  bson::Elements elements(hello);
  while (const auto element = elements.next()) {
    if (element->key != "compression") continue;
    if (found || !names_compressors(*element)) return std::nullopt;
    found = element;
  }
  return found;
}

/// The elements that patch_hello_request() takes out, in their order. None of a malformed one.
std::vector<Bytes> not_to_be_asked(Bytes hello, X509 x509) {
  std::vector<Bytes> found;
  const auto compression = compression_in(hello);
  bson::Elements elements(hello);
  while (const auto element = elements.next()) {
    const bool login = x509 == X509::refused && element->key == "speculativeAuthenticate" &&
                       may_use_certificate(*element);
    if (login || (compression && element->begin == compression->begin)) {
      found.emplace_back(element->begin, element->end());
    }
  }
  if (elements.malformed()) found.clear();
  return found;
}

// Of hosts, passives and arbiters each. A set has 50 members at most; whoever names many more would
// have us look each of them up among the others.
constexpr std::size_t kMostNames = 100;

/// The document of a reply.
struct Answer {
  Bytes document;
  bool has_checksum = false;
};

std::optional<Answer> find_answer(Bytes message) {
  if (wire::read_header(message).op_code == wire::OpCode::msg) {
    const auto view = wire::OpMsgView::parse(message);
    if (!view || view->sequence_count() > 0) return std::nullopt;
    return Answer{view->body(), view->has(wire::flag::kChecksumPresent)};
  }
  if (message.size() < wire::kReplyDocuments) return std::nullopt;
  const Bytes documents = message.subspan(wire::kReplyDocuments);
  const auto first = bson::document_at(documents);
  if (!first || first->size() != documents.size()) return std::nullopt;
  return Answer{*first};
}

enum class Names { none, list, one };

/// What names members of the set.
Names names_in(std::string_view key) {
  if (key == "hosts" || key == "passives" || key == "arbiters") return Names::list;
  return key == "primary" || key == "me" ? Names::one : Names::none;
}

/// Appends the element, its names replaced.
void append_mapped(const bson::Element& element, const Members& members, Buffer& out) {
  if (names_in(element.key) == Names::one) {
    const auto listener = members.listener_of(element.text());
    if (listener) bson::append_string(out, element.key, *listener);
    return;
  }
  bson::append_head(out, bson::Type::array, element.key);
  bson::Scope array(out);
  std::size_t position = 0;
  bson::Elements names(element.value);
  while (const auto name = names.next()) {
    const auto listener = members.listener_of(name->text());
    if (listener) bson::append_string(out, std::to_string(position++), *listener);
  }
  array.close();
}

bool is_true(const bson::Element& element) {
  return element.as_integer().value_or(0) != 0;
}

/// The parts of a HelloReply that depend on several fields.
struct Flags {
  bool ok = false;
  bool writable = false;
  bool secondary = false;
  bool arbiter = false;
  bool mongos = false;
  bool ghost = false;  // of a set, but of none that it knows

  void read(const bson::Element& field) {
    if (field.key == "ok") ok = is_true(field);
    if (field.key == "isWritablePrimary" || field.key == "ismaster") writable = is_true(field);
    if (field.key == "secondary") secondary = is_true(field);
    if (field.key == "arbiterOnly") arbiter = is_true(field);
    if (field.key == "isreplicaset") ghost = is_true(field);
    if (field.key == "msg") {
      mongos = field.type == bson::Type::string && field.text() == "isdbgrid";
    }
  }
  [[nodiscard]] HelloReply::State state(bool in_set) const {
    using State = HelloReply::State;
    if (!ok) return State::unknown;
    if (!in_set) return mongos ? State::mongos : ghost ? State::other : State::standalone;
    if (writable) return State::primary;
    if (secondary) return State::secondary;
    return arbiter ? State::arbiter : State::other;
  }
};

/// {processId: ObjectId, counter: int64}
void read_topology_version(Bytes version, HelloReply& reply) {
  const auto process = bson::find(version, "processId");
  const auto counter = bson::find(version, "counter");
  if (!process || process->type != bson::Type::object_id || !counter) return;
  reply.process_id = as_text(process->value);
  reply.counter = counter->as_integer().value_or(0);
}

/// Reads a field that names members; false if it is not of its type.
bool read_names(const bson::Element& field, HelloReply& reply,
                std::array<std::vector<std::string>, 3>& lists) {
  if (names_in(field.key) == Names::one) {
    if (field.type != bson::Type::string) return false;
    if (field.key == "me") reply.me = ascii_lower(field.text());
    return true;
  }
  if (field.type != bson::Type::array) return false;
  auto& list = lists[field.key == "hosts" ? 0 : field.key == "passives" ? 1 : 2];
  bson::Elements names(field.value);
  while (const auto name = names.next()) {
    if (name->type != bson::Type::string || list.size() == kMostNames) return false;
    list.push_back(ascii_lower(name->text()));
  }
  return !names.malformed();
}

}  // namespace

HelloRequest patch_hello_request(Bytes message, X509 x509, wire::PatchedMessage& out) {
  const auto command = Command::find(message);
  if (!command || !is_hello(command->name)) return HelloRequest::other;
  const auto removed = not_to_be_asked(command->document(), x509);
  if (removed.empty()) return HelloRequest::as_it_is;
  std::size_t removed_size = 0;
  for (const Bytes element : removed) removed_size += element.size();

  const auto offset = [&](const std::uint8_t* at) {
    return static_cast<std::size_t>(at - message.data());
  };
  const auto shrink = [&](std::size_t old_size) {
    out.set_i32(out.add_i32(), static_cast<std::int64_t>(old_size - removed_size));
  };
  out.start(message);
  shrink(message.size());
  std::size_t position = 4;
  for (const Bytes enclosing : command->documents) {
    out.keep(position, offset(enclosing.data()));
    shrink(enclosing.size());
    position = offset(enclosing.data()) + 4;
  }
  for (const Bytes element : removed) {
    out.keep(position, offset(element.data()));
    position = offset(element.data()) + element.size();
  }
  out.keep(position, message.size() - (command->has_checksum ? 4 : 0));
  if (command->has_checksum) out.add_checksum();
  return HelloRequest::patched;
}

std::string_view state_name(HelloReply::State state) {
  switch (state) {
    case HelloReply::State::unknown:
      return "unknown";
    case HelloReply::State::standalone:
      return "STANDALONE";
    case HelloReply::State::mongos:
      return "MONGOS";
    case HelloReply::State::primary:
      return "PRIMARY";
    case HelloReply::State::secondary:
      return "SECONDARY";
    case HelloReply::State::arbiter:
      return "ARBITER";
    case HelloReply::State::other:
      return "OTHER";
  }
  return "unknown";
}

std::optional<HelloReply> read_hello_reply(Bytes message) {
  const auto answer = find_answer(message);
  if (!answer) return std::nullopt;
  HelloReply reply;
  Flags flags;
  std::array<std::vector<std::string>, 3> lists;
  bson::Elements fields(answer->document);
  while (const auto field = fields.next()) {
    if (names_in(field->key) != Names::none) {
      if (!read_names(*field, reply, lists)) return std::nullopt;
    } else if (field->key == "setName" && field->type == bson::Type::string) {
      reply.set_name = field->text();
    } else if (field->key == "setVersion") {
      reply.set_version = field->as_integer().value_or(0);
    } else if (field->key == "topologyVersion" && field->type == bson::Type::document) {
      read_topology_version(field->value, reply);
    } else if (field->key == "electionId" && field->type == bson::Type::object_id) {
      reply.election_id = as_text(field->value);
    } else {
      flags.read(*field);
    }
  }
  if (fields.malformed()) return std::nullopt;
  for (auto& list : lists) std::ranges::move(list, std::back_inserter(reply.members));
  reply.state = flags.state(!reply.set_name.empty());
  return reply;
}

bool patch_hello_reply(Bytes message, const Members& members, wire::PatchedMessage& out) {
  const auto answer = find_answer(message);
  const auto offset = [&](const std::uint8_t* at) {
    return static_cast<std::size_t>(at - message.data());
  };
  const std::size_t start = offset(answer->document.data());
  std::size_t size = answer->document.size();
  bool changed = false;
  out.start(message);
  const std::size_t message_length = out.add_i32();
  out.keep(4, start);
  const std::size_t document_length = out.add_i32();
  std::size_t position = start + 4;
  Buffer mapped;
  bson::Elements fields(answer->document);
  while (const auto field = fields.next()) {
    if (names_in(field->key) == Names::none) continue;
    mapped.clear();
    append_mapped(*field, members, mapped);
    const Bytes before(field->begin, field->end());
    if (std::ranges::equal(before, mapped.view())) continue;
    changed = true;
    out.keep(position, offset(field->begin));
    out.add(mapped.view());
    position = offset(field->end());
    size = size - before.size() + mapped.size();
  }
  out.keep(position, message.size() - (answer->has_checksum ? 4 : 0));
  out.set_i32(document_length, static_cast<std::int64_t>(size));
  out.set_i32(message_length,
              static_cast<std::int64_t>(message.size() - answer->document.size() + size));
  if (answer->has_checksum) out.add_checksum();
  return changed;
}

}  // namespace idproxy::rewrite
