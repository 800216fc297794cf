// Input: a client's message, with X.509 refused. The test reads the message that the proxy passes
// on as leniently as a server that checks nothing but lengths (net.wireObjectCheck off): it must
// not log in with a certificate.

#include <array>
#include <cstring>
#include <string>

#include "fuzz.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "support/fake_clock.hpp"
#include "support/rule_set.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;

/// An element; its type and its own length give the size of its value.
struct Field {
  std::uint8_t type = 0;
  std::string_view key;
  Bytes value;
};

/// The size of the value at the front of `rest`; nothing if it does not fit.
std::optional<std::size_t> size_of(std::uint8_t type, Bytes rest) {
  const auto counted = [&](std::int64_t more) -> std::optional<std::size_t> {
    if (rest.size() < 4) return std::nullopt;
    const std::int64_t size = load_i32(rest.data()) + more;
    if (size < 4 || size > static_cast<std::int64_t>(rest.size())) return std::nullopt;
    return static_cast<std::size_t>(size);
  };
  switch (static_cast<bson::Type>(type)) {
    case bson::Type::string:
    case bson::Type::code:
    case bson::Type::symbol:
      return counted(4);
    case bson::Type::document:
    case bson::Type::array:
    case bson::Type::code_with_scope:
      return counted(0);
    case bson::Type::binary:
      return counted(5);
    case bson::Type::db_pointer:
      return counted(16);
    case bson::Type::regex: {
      std::size_t size = 0;
      for (int i = 0; i < 2; ++i) {
        while (size < rest.size() && rest[size] != 0) ++size;
        ++size;
      }
      return size;
    }
    case bson::Type::boolean:
      return 1;
    case bson::Type::int32:
      return 4;
    case bson::Type::number_double:
    case bson::Type::date:
    case bson::Type::timestamp:
    case bson::Type::int64:
      return 8;
    case bson::Type::object_id:
      return 12;
    case bson::Type::decimal128:
      return 16;
    case bson::Type::undefined:
    case bson::Type::null:
    case bson::Type::max_key:
    case bson::Type::min_key:
      return 0;
  }
  return std::nullopt;
}

/// The fields of the document up to the first malformed one.
std::vector<Field> fields_of(Bytes document) {
  std::vector<Field> fields;
  if (document.size() < 5) return fields;
  Bytes rest = document.subspan(4, document.size() - 5);
  while (!rest.empty() && rest[0] != 0) {
    const auto* nul = static_cast<const std::uint8_t*>(std::memchr(rest.data(), 0, rest.size()));
    if (nul == nullptr) break;
    const auto head = static_cast<std::size_t>(nul - rest.data()) + 1;
    const auto size = size_of(rest[0], rest.subspan(head));
    if (!size || *size > rest.size() - head) break;
    fields.push_back({rest[0], as_text(rest.subspan(1, head - 2)), rest.subspan(head, *size)});
    rest = rest.subspan(head + *size);
  }
  return fields;
}

bool is_embedded(const Field& field) {
  return field.type == 3 || field.type == 4;
}

/// Compares a text up to its first NUL, and searches all of a value of another type, which a server
/// might accept.
bool names_x509(const Field& field) {
  static constexpr std::string_view kName = "MONGODB-X509";
  if (field.key != "mechanism") return false;
  const auto value = as_text(field.value);
  if (field.type != 2) return value.find(kName) != std::string_view::npos;
  const auto text = value.substr(4);
  return text.substr(0, text.find('\0')) == kName;
}

bool logs_in(const std::vector<Field>& command) {
  if (command.empty()) return false;
  const std::string_view name = command.front().key;
  if (name != "authenticate" && name != "saslStart") return false;
  for (const Field& field : command) {
    if (names_x509(field)) return true;
  }
  return false;
}

void check_command(Bytes document) {
  const auto command = fields_of(document);
  require(!logs_in(command));
  if (command.empty() || !rewrite::is_hello(command.front().key)) return;
  for (const Field& field : command) {
    if (field.key != "speculativeAuthenticate" || !is_embedded(field)) continue;
    require(!logs_in(fields_of(field.value)));
  }
}

/// The document at the front of `bytes`, with the length that it states.
std::optional<Bytes> document_in(Bytes bytes) {
  if (bytes.size() < 5) return std::nullopt;
  const std::int64_t size = load_i32(bytes.data());
  if (size < 5 || size > static_cast<std::int64_t>(bytes.size())) return std::nullopt;
  return bytes.first(static_cast<std::size_t>(size));
}

/// Checks the first body of an OP_MSG, which may follow other sections. Servers cannot read past a
/// malformed section either.
void check_msg(Bytes message) {
  for (Bytes rest = message.subspan(std::min(message.size(), wire::kSectionsOffset));
       rest.size() > 5;) {
    if (rest[0] > 2) return;
    if (rest[0] == 1) {
      const std::int64_t size = load_i32(rest.data() + 1);
      if (size < 5 || size > static_cast<std::int64_t>(rest.size()) - 1) return;
      rest = rest.subspan(static_cast<std::size_t>(size) + 1);
      continue;
    }
    const auto document = document_in(rest.subspan(1));
    if (!document) return;
    if (rest[0] == 0) return check_command(*document);
    rest = rest.subspan(1 + document->size());
  }
}

void check_query(Bytes message) {
  if (message.size() < wire::kHeaderSize + 4) return;
  const Bytes rest = message.subspan(wire::kHeaderSize + 4);
  const auto* nul = static_cast<const std::uint8_t*>(std::memchr(rest.data(), 0, rest.size()));
  if (nul == nullptr) return;
  const auto name = static_cast<std::size_t>(nul - rest.data());
  constexpr std::size_t kLongestDatabase = 63;
  if (!as_text(rest.first(name)).ends_with(".$cmd") || name > kLongestDatabase + 5) return;
  if (rest.size() < name + 9) return;
  const auto document = document_in(rest.subspan(name + 9));
  if (!document) return;
  const auto fields = fields_of(*document);
  const bool wrapped = !fields.empty() && is_embedded(fields.front()) &&
                       (fields.front().key == "$query" || fields.front().key == "query");
  check_command(wrapped ? fields.front().value : *document);
}

void check(Bytes message) {
  if (wire::read_header(message).op_code == wire::OpCode::msg) check_msg(message);
  if (wire::read_header(message).op_code == wire::OpCode::query) check_query(message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < wire::kHeaderSize) return 0;
  static const test::FakeClock clock;
  static rewrite::Namespaces namespaces(test::rule_set());
  static rewrite::Workspace workspace;
  const rewrite::Context context{clock, system_random(), rewrite::X509::refused};
  Buffer message;
  message.append({data, size});
  store_i32(message.data(), static_cast<std::int32_t>(size));
  auto decision = rewrite::classify(wire::read_header(message.view()), message.view(), namespaces,
                                    context.x509);
  require(!std::holds_alternative<rewrite::decision::NeedMore>(decision));
  if (std::holds_alternative<rewrite::decision::Close>(decision)) return 0;
  rewrite::Action action;
  rewrite::Exchange exchange;
  if (auto* request = std::get_if<rewrite::Request>(&decision)) {
    action = exchange.request(std::move(*request), message.view(), nullptr, context, workspace);
  }
  if (std::holds_alternative<rewrite::action::Relay>(action)) check(message.view());
  if (const auto* send = std::get_if<rewrite::action::Send>(&action)) {
    Buffer out;
    send->message->copy(send->original, 0, out);
    require(load_i32(out.data()) == static_cast<std::int32_t>(out.size()));
    check(out.view());
  }
  exchange.release(workspace);
  return 0;
}
