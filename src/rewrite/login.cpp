#include "rewrite/login.hpp"

#include "idproxy/base/words.hpp"
#include "idproxy/rewrite/hello_reply.hpp"

namespace idproxy::rewrite {
namespace {

constexpr std::string_view kRefused =
    "mongo-idproxy: MONGODB-X509 is not possible through a proxy that ends TLS, since the server "
    "would see the proxy's certificate: use SCRAM (see docs/tls-and-logins.md#x509)";

/// More lenient than servers, which compare exactly, and of which some checks end at a NUL.
bool is_x509(std::string_view mechanism) {
  return ascii_lower(mechanism.substr(0, mechanism.find('\0'))) == "mongodb-x509";
}

/// True if a server can only read a single mechanism, which is not MONGODB-X509.
bool names_other_mechanism(Bytes sasl_start) {
  std::size_t others = 0;
  bson::Elements fields(sasl_start);
  while (const auto field = fields.next()) {
    if (field->key != "mechanism") continue;
    if (field->type != bson::Type::string || is_x509(field->text())) return false;
    ++others;
  }
  return others == 1 && !fields.malformed();
}

/// `authenticate` supports no other mechanism.
bool may_use_certificate(std::string_view name, Bytes command) {
  return name == "authenticate" || (name == "saslStart" && !names_other_mechanism(command));
}

bool is_readable(Bytes document) {
  bson::Elements fields(document);
  while (fields.next()) {
  }
  return !fields.malformed();
}

}  // namespace

bool is_login(std::string_view command) {
  return equals(command, "saslStart") || equals(command, "saslContinue") ||
         equals(command, "authenticate") || equals(command, "logout");
}

bool note_login(std::string_view command, Bytes reply, ConnectionMemory& memory) {
  const auto answer = find_hello_document(reply);
  if (!answer) return false;
  Bytes said = answer->document;
  const bool ok = bson::is_true(said, "ok");
  if (is_hello(command)) {
    const auto login = bson::find(said, "speculativeAuthenticate", bson::Type::document);
    if (!ok || !login) return true;
    said = login->value;
  }
  // Without `done` there are more steps. A login that fails leaves the one before it.
  const bool done = command == "authenticate" || bson::is_true(said, "done");
  if (ok && done && command != "logout") memory.logged_in = true;
  return true;
}

std::optional<CommandError> fault_of_login(const std::optional<Command>& command) {
  if (!command || (is_hello(command->name) && !is_readable(command->document()))) {
    return CommandError{ErrorCode::invalid_bson, "mongo-idproxy: the message cannot be read"};
  }
  if (!may_use_certificate(command->name, command->document())) return std::nullopt;
  return CommandError{ErrorCode::authentication_failed, std::string(kRefused)};
}

bool may_use_certificate(const bson::Element& speculative_authenticate) {
  if (speculative_authenticate.type != bson::Type::document) return true;
  const Bytes command = speculative_authenticate.value;
  const auto first = bson::Elements(command).next();
  return !first || first->key != "saslStart" || may_use_certificate(first->key, command);
}

}  // namespace idproxy::rewrite
