#include "idproxy/rewrite/classify.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "rewrite/bulk_write.hpp"
#include "rewrite/catalog_command.hpp"
#include "rewrite/keep.hpp"
#include "rewrite/login.hpp"
#include "rewrite/status.hpp"
#include "rewrite/turn_stage.hpp"

namespace idproxy::rewrite {
namespace {

using decision::NeedMore;
using decision::Relay;

constexpr std::size_t kLongestCommand = 17;  // "commitTransaction", the longest name to recognise
constexpr std::size_t kLegacyName = wire::kHeaderSize + 4;  // of OP_QUERY, OP_INSERT, OP_UPDATE
constexpr std::size_t kLongestName = 256;  // a collection's name and its NUL; mongod allows 255

bool ends_transaction(std::string_view command) {
  return equals(command, "commitTransaction") || equals(command, "abortTransaction");
}

// ---- a whole message -------------------------------------------------------------------------

/// For messages that may be a hello or a login, or that cannot be read.
Decision understand_other(Bytes message, X509 x509) {
  auto command = Command::find(message);
  if (x509 == X509::refused) {
    if (auto fault = fault_of_login(command)) return Request{RefusedRequest{std::move(*fault)}};
  }
  if (!command) return Relay{.changes_user = true};
  if (is_login(command->name)) return Request{LoginRequest{*std::move(command)}};
  if (!is_hello(command->name)) return Relay{};
  const bool may_wait = bson::find(command->document(), "maxAwaitTimeMS").has_value();
  return Request{HelloRequest{std::move(*command), may_wait}};
}

/// For the proxy's own commands.
Decision understand_own(Bytes message, Namespaces& namespaces, X509 x509) {
  const auto view = wire::OpMsgView::parse(message);
  if (!view) return understand_other(message, x509);
  if (auto own = read_own_request(*view, namespaces)) {
    if (auto* next = std::get_if<NextRequest>(&*own)) return Request{std::move(*next)};
    if (auto* assign = std::get_if<AssignRequest>(&*own)) return Request{std::move(*assign)};
    return Request{RefusedRequest{std::get<CommandError>(*std::move(own))}};
  }
  if (auto fault = fault_of_status_request(*view)) {
    return Request{RefusedRequest{std::move(*fault)}};
  }
  return Request{StatusRequest{*view}};
}

/// For a command that may change collections. Relays it if that concerns no rule.
Decision understand_catalog_command(Bytes message, Namespaces& namespaces) {
  const auto view = wire::OpMsgView::parse(message);
  if (!view) return Relay{};
  CatalogRequest request = read_catalog_command(*view);
  const RuleSet& rules = *namespaces.rules();
  std::erase_if(request.changes, [&](const auto& change) { return !rules.concerns(change); });
  for (CatalogRequest::Past& each : request.past) {
    each.plan = namespaces.plan(each.collection.db, each.collection.collection);
  }
  std::erase_if(request.past, [](const auto& each) { return each.plan == nullptr; });
  if (request.changes.empty() && request.past.empty()) return Relay{};
  request.rules = namespaces.rules();
  return Request{std::move(request)};
}

Decision understand_end_of_transaction(Bytes message, const Namespaces& namespaces) {
  const auto view = wire::OpMsgView::parse(message);
  auto transaction = view ? transaction_of(view->body()) : std::nullopt;
  if (!transaction) return Relay{};
  return Request{EndOfTransaction{*std::move(transaction), namespaces.rules()}};
}

// ---- the first bytes -------------------------------------------------------------------------

/// The head of a document in a message of which only the front has been received.
struct DocumentHead {
  std::size_t at;      // position of the document in the message
  std::size_t length;  // as the document states it; within the message
  bson::Type first_type;
  std::string_view first_key;  // cut off after kLongestCommand + 1 bytes

  [[nodiscard]] std::size_t end() const { return at + length; }
  [[nodiscard]] std::size_t first_value() const { return at + 4 + 1 + first_key.size() + 1; }
};

/// Reads the head of the document at `at`. If it cannot, `otherwise` is the decision to return.
std::optional<DocumentHead> read_head(Bytes front, std::size_t at, std::size_t message_length,
                                      Decision& otherwise) {
  otherwise = Relay{};
  if (at + bson::kMinDocument > message_length) return std::nullopt;
  const std::size_t wanted = std::min(at + 4 + 1 + kLongestCommand + 1, message_length);
  if (front.size() < wanted) {
    otherwise = NeedMore{wanted};
    return std::nullopt;
  }
  const std::int64_t length = load_i32(front.data() + at);
  if (length < static_cast<std::int64_t>(bson::kMinDocument)) return std::nullopt;
  if (length > static_cast<std::int64_t>(message_length - at)) return std::nullopt;
  DocumentHead head{
      at, static_cast<std::size_t>(length), static_cast<bson::Type>(front[at + 4]), {}};
  const Bytes key = front.subspan(at + 5, wanted - at - 5);
  const auto* nul = std::memchr(key.data(), 0, key.size());
  const auto size =
      nul == nullptr ? key.size()
                     : static_cast<std::size_t>(static_cast<const std::uint8_t*>(nul) - key.data());
  head.first_key = as_text(key.first(size));
  return head;
}

/// True if the proxy must see the whole of such a command, which is not a write.
bool is_wanted(std::string_view command) {
  return is_hello(command) || is_login(command);
}

/// True for a getMore that waits for data: only there do servers accept a maxTimeMS. A body that
/// has not arrived whole is not waited for.
bool awaits_data(Bytes front, const DocumentHead& head) {
  if (front.size() < head.end()) return false;
  const auto body = bson::document_at(front.subspan(head.at, head.length));
  return body && bson::find(*body, "maxTimeMS").has_value();
}

/// Asks for the body because it needs $db, and for the statements only if a rule applies.
Decision classify_by_namespace(Bytes front, std::size_t length, const DocumentHead& head,
                               std::string_view collection, Namespaces& namespaces, X509 x509) {
  if (front.size() < head.end()) return NeedMore{head.end()};
  const auto body = bson::document_at(front.subspan(head.at, head.length));
  if (!body) return Relay{};
  const auto db = bson::find(*body, "$db", bson::Type::string);
  if (!db) return Relay{};
  if (namespaces.plan(db->text(), collection) == nullptr) {
    // Of a time-series collection the server refuses upserts.
    const bool inserts = write_kind(head.first_key) == WriteKind::insert;
    return inserts ? Relay{.past = namespaces.bypassed(db->text(), collection)} : Relay{};
  }
  if (front.size() < length) return NeedMore{length, true};
  // A rule applies, but no statement concerns it, or mongod will refuse the message.
  return understand_other(front, x509);
}

/// Reads a whole message. False if mongod will refuse it, no rule applies, or no statement can
/// insert a document or concerns a stored value.
bool read_write(Bytes message, Namespaces& namespaces, WriteRequest& out) {
  const auto view = wire::OpMsgView::parse(message);
  if (!view) return false;
  const WriteCommand& command = out.command;
  if (!WriteCommand::read(*view, namespaces.write_fields(), out.command)) return false;
  out.plan = namespaces.plan(command.db(), command.collection());
  out.known = &namespaces;
  out.message = *view;
  if (out.plan == nullptr) return false;
  return command.kind == WriteKind::insert || has_upsert(command) ||
         touches_values(command, *out.plan);
}

/// For a whole message. Reads the request where the caller gets it: there is no cheap way to move
/// it.
Decision understand_write(Bytes message, const DocumentHead& head, std::string_view collection,
                          Namespaces& namespaces, X509 x509) {
  Decision decision(std::in_place_type<Request>, std::in_place_type<WriteRequest>);
  if (!read_write(message, namespaces, std::get<WriteRequest>(std::get<Request>(decision)))) {
    decision = classify_by_namespace(message, message.size(), head, collection, namespaces, x509);
  }
  return decision;
}

/// For a bulkWrite, whose collections may come last: all of it is needed.
Decision understand_bulk(Bytes message, Namespaces& namespaces, X509 x509) {
  const auto view = wire::OpMsgView::parse(message);
  WriteRequest request{};
  if (!view || !WriteCommand::read(*view, namespaces.write_fields(), request.command)) {
    return understand_other(message, x509);
  }
  request.message = *view;
  std::optional<CommandError> fault;
  const bool is_read = read_namespaces(request, namespaces, fault);
  if (fault) return Request{RefusedRequest{*std::move(fault)}};
  if (!is_read || request.plan == nullptr) return Relay{};
  return Request{std::move(request)};
}

Decision classify_write(Bytes front, std::size_t length, const DocumentHead& head,
                        Namespaces& namespaces, X509 x509) {
  // mongod also accepts the deprecated symbol type for the collection's name.
  if (head.first_type != bson::Type::string && head.first_type != bson::Type::symbol) {
    return Relay{};
  }
  const std::size_t value = head.first_value();
  if (value + 4 > head.end()) return Relay{};
  if (front.size() < value + 4) return NeedMore{value + 4};
  const std::int64_t size = load_i32(front.data() + value);
  if (size < 1 || size > static_cast<std::int64_t>(kLongestName)) return Relay{};
  const std::size_t name_end = value + 4 + static_cast<std::size_t>(size);
  if (name_end > head.end()) return Relay{};
  if (front.size() < name_end) return NeedMore{name_end};
  const std::string_view collection =
      as_text(front.subspan(value + 4, static_cast<std::size_t>(size) - 1));
  if (!namespaces.possible(collection)) return Relay{};
  return front.size() < length
             ? classify_by_namespace(front, length, head, collection, namespaces, x509)
             : understand_write(front, head, collection, namespaces, x509);
}

/// The section of kind 0 in an OP_MSG.
struct BodySection {
  enum class Kind { found, need_more, none };
  Kind kind;
  std::size_t at = 0;  ///< position of the section; with `need_more` the number of bytes needed
};

BodySection find_body(Bytes front, std::size_t length) {
  using Kind = BodySection::Kind;
  std::size_t at = wire::kSectionsOffset;
  // Looks at no more sections than OpMsgView accepts. Otherwise a client could make the proxy walk
  // thousands of them again for every piece that arrives.
  for (std::size_t sequences = 0; sequences <= wire::kMaxSequences && at + 5 <= length;
       ++sequences) {
    if (front.size() < at + 5) return {Kind::need_more, at + 5};
    if (front[at] == 0) return {Kind::found, at};
    const std::int64_t size = load_i32(front.data() + at + 1);
    if (front[at] != 1 || size < 5 || size > static_cast<std::int64_t>(length - at) - 1) break;
    at += 1 + static_cast<std::size_t>(size);
  }
  return {Kind::none};
}

Decision classify_msg(Bytes front, std::size_t length, Namespaces& namespaces, X509 x509) {
  // expects_reply() needs the flags even if the message is relayed.
  const std::size_t flags_end = std::min(wire::kSectionsOffset, length);
  if (front.size() < flags_end) return NeedMore{flags_end};
  const BodySection body = find_body(front, length);
  if (body.kind == BodySection::Kind::need_more) return NeedMore{body.at};
  if (body.kind == BodySection::Kind::none) {
    // mongod will refuse the message, unless it knows more kinds of sections than the proxy.
    if (x509 == X509::allowed) return Relay{.changes_user = true};
    if (front.size() < length) return NeedMore{length};
    return understand_other(front, x509);
  }
  Decision otherwise{};
  const auto head = read_head(front, body.at + 1, length, otherwise);
  if (!head) return otherwise;
  const std::string_view command = head->first_key;
  if (equals(command, "bulkWrite")) {
    if (namespaces.rules()->rules().empty()) return Relay{};
    return front.size() < length ? Decision(NeedMore{length, true})
                                 : understand_bulk(front, namespaces, x509);
  }
  if (write_kind(command)) return classify_write(front, length, *head, namespaces, x509);
  if (namespaces.rules()->follows_transactions() && ends_transaction(command)) {
    if (front.size() < length) return NeedMore{length};
    return understand_end_of_transaction(front, namespaces);
  }
  if (may_change_catalog(command) && !namespaces.rules()->rules().empty()) {
    if (front.size() < length) return NeedMore{length};
    return understand_catalog_command(front, namespaces);
  }
  const bool own = equals(command, "idproxy");
  if (!own && !is_wanted(command)) {
    return Relay{.may_wait = equals(command, "getMore") && awaits_data(front, *head)};
  }
  if (front.size() < length) return NeedMore{length};
  return own ? understand_own(front, namespaces, x509) : understand_other(front, x509);
}

/// False for nearly all commands, for a fifth of what a walk over their fields takes. The longer
/// ones are walked over, since their fields are few.
bool may_be_in_transaction(Bytes body) {
  constexpr std::size_t kShort = 1024;
  // Servers want a boolean there (observed, 6.0.5).
  constexpr std::string_view kNoAutocommit(
      "\x08"
      "autocommit\0\0",
      1 + 10 + 1 + 1);
  return body.size() > kShort || as_text(body).find(kNoAutocommit) != std::string_view::npos;
}

/// A namespace as one string, "shop.orders".
bool has_rule(std::string_view ns, Namespaces& namespaces) {
  const auto [db, collection] = split_ns(ns);
  return namespaces.possible(collection) && namespaces.plan(db, collection) != nullptr;
}

/// Reads fullCollectionName, which these opcodes have behind an int32. If it cannot, `otherwise` is
/// the decision to return.
std::optional<std::string_view> legacy_name(Bytes front, std::size_t length, Decision& otherwise) {
  otherwise = Relay{};
  const std::size_t wanted = std::min(kLegacyName + kLongestName, length);
  const Bytes name = front.subspan(std::min(kLegacyName, front.size()));
  const auto* nul = static_cast<const std::uint8_t*>(
      std::memchr(name.data(), 0, std::min(name.size(), kLongestName)));
  if (nul != nullptr) return as_text({name.data(), nul});
  if (front.size() < wanted) otherwise = NeedMore{front.size() + 1};
  return std::nullopt;
}

/// OP_INSERT, and OP_UPDATE, which can upsert. Servers before 5.1 take them; later ones close the
/// connection, and so does the proxy where a rule applies.
Decision classify_legacy_write(Bytes front, std::size_t length, Namespaces& namespaces) {
  Decision otherwise{};
  const auto name = legacy_name(front, length, otherwise);
  if (name && has_rule(*name, namespaces)) return decision::Close{};
  return otherwise;
}

/// A write in OP_QUERY, as clients before OP_MSG (3.6) send it. Servers before 5.1 take it; where a
/// rule applies, the proxy answers as later ones do.
std::optional<CommandError> fault_of_legacy_write(Bytes message, std::string_view db,
                                                  Namespaces& namespaces) {
  const auto command = Command::find(message);
  if (!command || !write_kind(command->name)) return std::nullopt;
  const auto collection = bson::Elements(command->document()).next();
  if (!collection ||
      (collection->type != bson::Type::string && collection->type != bson::Type::symbol)) {
    return std::nullopt;
  }
  if (namespaces.plan(db, collection->text()) == nullptr) return std::nullopt;
  return CommandError{ErrorCode::unsupported_op_query_command,
                      "mongo-idproxy: Unsupported OP_QUERY command: " + std::string(command->name) +
                          ". The client driver may require an upgrade: where a rule applies, "
                          "writes must come as OP_MSG (MongoDB 3.6)"};
}

Decision classify_query(Bytes front, std::size_t length, Namespaces& namespaces, X509 x509) {
  Decision otherwise{};
  const auto name = legacy_name(front, length, otherwise);
  if (!name) return otherwise;
  constexpr std::string_view kCommands = ".$cmd";
  if (!name->ends_with(kCommands)) return Relay{};
  const std::size_t at = kLegacyName + name->size() + 1 + 8;
  const auto head = read_head(front, at, length, otherwise);
  if (!head) return otherwise;
  const std::string_view command = head->first_key;
  const bool may_write = write_kind(command).has_value() || is_query_wrapper(command);
  if (!is_wanted(command) && !may_write) return Relay{};
  if (front.size() < length) return NeedMore{length};
  if (may_write) {
    const std::string_view db = name->substr(0, name->size() - kCommands.size());
    if (auto fault = fault_of_legacy_write(front, db, namespaces)) {
      return Request{RefusedRequest{std::move(*fault)}};
    }
  }
  return understand_other(front, x509);
}

}  // namespace

std::optional<TransactionStep> transaction_step(const wire::MsgHeader& header, Bytes front) {
  constexpr std::size_t kBody = wire::kSectionsOffset + 1;
  if (header.op_code != wire::OpCode::msg || front.size() <= kBody || front[kBody - 1] != 0) {
    return std::nullopt;
  }
  const auto body = bson::document_at(front.subspan(kBody));
  if (!body || !may_be_in_transaction(*body)) return std::nullopt;
  std::optional<Bytes> session;
  bool is_one = false;
  bool begins = false;
  bson::Elements fields(*body);
  const auto command = fields.next();
  while (const auto field = fields.next()) {
    if (equals(field->key, "lsid") && field->type == bson::Type::document) session = field->value;
    if (equals(field->key, "autocommit")) is_one = field->as_integer() == 0;
    if (equals(field->key, "startTransaction")) begins = field->as_integer() == 1;
  }
  if (!is_one || !session) return std::nullopt;
  const auto id = bson::find(*session, "id", bson::Type::binary);
  if (!id) return std::nullopt;
  return TransactionStep{id->value.subspan(4 + 1), ends_transaction(command->key), begins};
}

bool stays_plain(const wire::MsgHeader& header, Bytes front) {
  // The specification names hello and logins, too. But monitors of Node.js (6.21) compress hello,
  // Go (2.8) an application's isMaster, and members of a set (6.0.5) the logins at each other.
  const auto length = static_cast<std::size_t>(header.message_length);
  const BodySection body = find_body(front, length);
  if (body.kind != BodySection::Kind::found) return false;
  Decision otherwise{};
  const auto head = read_head(front, body.at + 1, length, otherwise);
  return head && (equals(head->first_key, "createUser") || equals(head->first_key, "updateUser"));
}

Decision classify(const wire::MsgHeader& header, Bytes front, Namespaces& namespaces, X509 x509) {
  const auto length = static_cast<std::size_t>(header.message_length);
  switch (header.op_code) {
    case wire::OpCode::msg:
      return classify_msg(front, length, namespaces, x509);
    case wire::OpCode::query:
      return classify_query(front, length, namespaces, x509);
    case wire::OpCode::insert:
    case wire::OpCode::update:
      return classify_legacy_write(front, length, namespaces);
    case wire::OpCode::compressed:
      // The caller inflates, and nothing is compressed twice.
      return decision::Close{};
    default:
      return Relay{};
  }
}

}  // namespace idproxy::rewrite
