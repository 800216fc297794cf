#include "idproxy/rewrite/classify.hpp"

#include <algorithm>
#include <cstring>

#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::rewrite {
namespace {

using Kind = Decision::Kind;

constexpr Decision kRelay{Kind::relay};
constexpr Decision kCollect{Kind::collect};
constexpr Decision kCollectInsert{Kind::collect, 0, true};
constexpr std::size_t kLongestCommand = 12;  // "authenticate", the longest that we look for
constexpr std::size_t kLongestName = 256;    // of a collection with its NUL; mongod's limit is 255

/// The head of a document inside a message of which only the front is there.
struct DocumentHead {
  std::size_t at;      // where the document starts in the message
  std::size_t length;  // as it says of itself; lies within the message
  bson::Type first_type;
  std::string_view first_key;  // cut at kLongestCommand + 1

  [[nodiscard]] std::size_t end() const { return at + length; }
  [[nodiscard]] std::size_t first_value() const { return at + 4 + 1 + first_key.size() + 1; }
};

/// Reads the head of the document at `at`; if it cannot, `otherwise` says what to do instead.
std::optional<DocumentHead> read_head(Bytes front, std::size_t at, std::size_t message_length,
                                      Decision& otherwise) {
  otherwise = kRelay;
  if (at + bson::kMinDocument > message_length) return std::nullopt;
  const std::size_t wanted = std::min(at + 4 + 1 + kLongestCommand + 1, message_length);
  if (front.size() < wanted) {
    otherwise = {Kind::need_more, wanted};
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

/// Of commands, but for insert.
bool is_wanted(std::string_view command, X509 x509) {
  if (is_hello(command)) return true;
  return x509 == X509::refused && (command == "authenticate" || command == "saslStart");
}

/// insert: the body is needed, for $db; the documents only if a rule applies.
Decision classify_insert(Bytes front, const DocumentHead& head, Namespaces& namespaces) {
  // mongod takes the deprecated symbol type for the collection's name too.
  if (head.first_type != bson::Type::string && head.first_type != bson::Type::symbol) return kRelay;
  const std::size_t value = head.first_value();
  if (value + 4 > head.end()) return kRelay;
  if (front.size() < value + 4) return {Kind::need_more, value + 4};
  const std::int64_t size = load_i32(front.data() + value);
  if (size < 1 || size > static_cast<std::int64_t>(kLongestName)) return kRelay;
  const std::size_t name_end = value + 4 + static_cast<std::size_t>(size);
  if (name_end > head.end()) return kRelay;
  if (front.size() < name_end) return {Kind::need_more, name_end};
  const std::string_view collection =
      as_text(front.subspan(value + 4, static_cast<std::size_t>(size) - 1));
  if (!namespaces.possible(collection)) return kRelay;
  if (front.size() < head.end()) return {Kind::need_more, head.end()};
  const auto body = bson::document_at(front.subspan(head.at, head.length));
  if (!body) return kRelay;
  const auto db = bson::find(*body, "$db");
  if (!db || db->type != bson::Type::string) return kRelay;
  return namespaces.plan(db->text(), collection) == nullptr ? kRelay : kCollectInsert;
}

Decision classify_msg(Bytes front, std::size_t length, Namespaces& namespaces, X509 x509) {
  std::size_t at = wire::kSectionsOffset;
  // Whatever follows: expects_reply() needs the flags.
  if (front.size() < std::min(at, length)) return {Kind::need_more, std::min(at, length)};
  // No more sections than OpMsgView takes: walking thousands of them again for every piece that
  // arrives would be work that a client can order.
  for (std::size_t sequences = 0; sequences <= wire::kMaxSequences && at + 5 <= length;
       ++sequences) {
    if (front.size() < at + 5) return {Kind::need_more, at + 5};
    if (front[at] == 0) {
      Decision otherwise{};
      const auto head = read_head(front, at + 1, length, otherwise);
      if (!head) return otherwise;
      if (is_wanted(head->first_key, x509) || head->first_key == "idproxy") return kCollect;
      if (head->first_key != "insert") return kRelay;
      return classify_insert(front, *head, namespaces);
    }
    const std::int64_t size = load_i32(front.data() + at + 1);
    if (front[at] != 1 || size < 5 || size > static_cast<std::int64_t>(length - at) - 1) break;
    at += 1 + static_cast<std::size_t>(size);
  }
  // Where the command is has not been found: mongod will refuse it, unless it knows more than we.
  return x509 == X509::refused ? kCollect : kRelay;
}

Decision classify_query(Bytes front, std::size_t length, X509 x509) {
  constexpr std::size_t kName = wire::kHeaderSize + 4;
  const std::size_t wanted = std::min(kName + kLongestName, length);
  const Bytes name = front.subspan(std::min(kName, front.size()));
  const auto* nul = static_cast<const std::uint8_t*>(
      std::memchr(name.data(), 0, std::min(name.size(), kLongestName)));
  if (nul == nullptr) {
    return front.size() < wanted ? Decision{Kind::need_more, front.size() + 1} : kRelay;
  }
  if (!as_text({name.data(), nul}).ends_with(".$cmd")) return kRelay;
  Decision otherwise{};
  const auto at = static_cast<std::size_t>(nul + 1 - front.data()) + 8;
  const auto head = read_head(front, at, length, otherwise);
  if (!head) return otherwise;
  const bool collects = is_wanted(head->first_key, x509) || is_query_wrapper(head->first_key);
  return collects ? kCollect : kRelay;
}

}  // namespace

bool is_query_wrapper(std::string_view key) {
  return key == "$query" || key == "query";
}

bool is_hello(std::string_view command) {
  return command == "hello" || command == "isMaster" || command == "ismaster";
}

Decision classify(const wire::MsgHeader& header, Bytes front, Namespaces& namespaces, X509 x509) {
  const auto length = static_cast<std::size_t>(header.message_length);
  switch (header.op_code) {
    case wire::OpCode::msg:
      return classify_msg(front, length, namespaces, x509);
    case wire::OpCode::query:
      return classify_query(front, length, x509);
    case wire::OpCode::compressed:
      // What is inside is not seen: relaying it would let a client pass the rules by compressing.
      // hello never offers a compressor, so no driver sends this.
      return {Kind::close};
    default:
      return kRelay;
  }
}

bool expects_reply(const wire::MsgHeader& header, Bytes front) {
  switch (header.op_code) {
    case wire::OpCode::msg:
      return !wire::has_flag(header, front, wire::flag::kMoreToCome);
    case wire::OpCode::query:
    case wire::OpCode::get_more:
      return true;
    default:
      return false;
  }
}

bool is_legacy_exhaust(const wire::MsgHeader& header, Bytes front) {
  constexpr std::uint32_t kExhaust = 1U << 6;
  return header.op_code == wire::OpCode::query && front.size() >= wire::kHeaderSize + 4 &&
         (load_u32(front.data() + wire::kHeaderSize) & kExhaust) != 0;
}

}  // namespace idproxy::rewrite
