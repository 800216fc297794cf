#include "idproxy/rewrite/hello_reply.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "idproxy/base/server_address.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/op_query.hpp"

namespace idproxy::rewrite {
namespace {

// For each of hosts, passives and arbiters. A set has at most 50 members; a much longer list would
// take too long to process, because each name is looked up among the others.
constexpr std::size_t kMostNames = 100;
constexpr std::int64_t kMostWireVersion = 1000;

/// The fields that together determine HelloReply::state.
struct Flags {
  bool ok = false;
  bool writable = false;
  bool secondary = false;
  bool arbiter = false;
  bool mongos = false;
  bool ghost = false;  // a member that does not know its set's configuration

  void read(const bson::Element& field) {
    if (field.key == "ok") ok = field.is_true();
    if (field.key == "isWritablePrimary" || field.key == "ismaster") writable = field.is_true();
    if (field.key == "secondary") secondary = field.is_true();
    if (field.key == "arbiterOnly") arbiter = field.is_true();
    if (field.key == "isreplicaset") ghost = field.is_true();
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
  const auto process = bson::find(version, "processId", bson::Type::object_id);
  const auto counter = bson::find(version, "counter");
  if (!process || !counter) return;
  reply.process_id = as_text(process->value);
  reply.counter = counter->as_integer().value_or(0);
}

/// Reads a field that names members; what is no address is nobody's. False if the field has the
/// wrong type or too many names.
bool read_names(const bson::Element& field, HelloReply& reply,
                std::array<std::vector<std::string>, 3>& lists) {
  if (names_members(field.key) == NamesMembers::one) {
    if (field.type != bson::Type::string) return false;
    if (field.key == "me" && is_server_address(field.text())) reply.me = ascii_lower(field.text());
    return true;
  }
  if (field.type != bson::Type::array) return false;
  auto& list = lists[field.key == "hosts" ? 0 : field.key == "passives" ? 1 : 2];
  bson::Elements names(field.value);
  while (const auto name = names.next()) {
    if (name->type != bson::Type::string || list.size() == kMostNames) return false;
    if (is_server_address(name->text())) list.push_back(ascii_lower(name->text()));
  }
  return !names.malformed();
}

}  // namespace

std::string_view state_name(HelloReply::State state) {
  constexpr std::array<std::string_view, 7> kNames{"unknown",   "STANDALONE", "MONGOS", "PRIMARY",
                                                   "SECONDARY", "ARBITER",    "OTHER"};
  return kNames[static_cast<std::size_t>(state)];
}

/// All hosts and arbiters vote, and perhaps others. Arbiters hold nothing.
std::int64_t HelloReply::majority() const {
  return static_cast<std::int64_t>(std::min(hosts, (hosts + arbiters) / 2 + 1));
}

std::optional<HelloReply> read_hello_reply(Bytes message) {
  const auto answer = find_hello_document(message);
  if (!answer) return std::nullopt;
  HelloReply reply;
  Flags flags;
  std::array<std::vector<std::string>, 3> lists;
  bson::Elements fields(answer->document);
  while (const auto field = fields.next()) {
    if (names_members(field->key) != NamesMembers::none) {
      if (!read_names(*field, reply, lists)) return std::nullopt;
    } else if (field->key == "setName" && field->type == bson::Type::string) {
      reply.set_name = field->text();
    } else if (field->key == "setVersion") {
      reply.set_version = field->as_integer().value_or(0);
    } else if (field->key == "topologyVersion" && field->type == bson::Type::document) {
      read_topology_version(field->value, reply);
    } else if (field->key == "maxWireVersion") {
      reply.wire_version = static_cast<std::int32_t>(
          std::clamp<std::int64_t>(field->as_integer().value_or(0), 0, kMostWireVersion));
    } else if (field->key == "electionId" && field->type == bson::Type::object_id) {
      reply.election_id = as_text(field->value);
    } else {
      flags.read(*field);
    }
  }
  if (fields.malformed()) return std::nullopt;
  reply.hosts = lists[0].size();
  reply.arbiters = lists[2].size();
  for (auto& list : lists) std::ranges::move(list, std::back_inserter(reply.members));
  reply.state = flags.state(!reply.set_name.empty());
  return reply;
}

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
