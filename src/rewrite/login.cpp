#include "rewrite/login.hpp"

#include <algorithm>
#include <string>

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

/// The text of a field, cut off at the length that servers accept for the whole of `client`; empty
/// if there is none.
std::string_view name_in(Bytes document, std::string_view key) {
  return bson::text_in(document, key).substr(0, ClientDescription::kLongestName);
}

/// The user in SCRAM's first message, "n,,n=user,r=nonce", as it stands there: "," and "=" in the
/// name are "=2C" and "=3D".
std::string_view user_in(std::string_view scram) {
  constexpr std::string_view kName = "n=";
  for (int header = 0; header < 2; ++header) {  // the GS2 header: a flag, an authorization id
    const auto comma = scram.find(',');
    if (comma == std::string_view::npos) return {};
    scram.remove_prefix(comma + 1);
  }
  if (!scram.starts_with(kName)) return {};
  scram.remove_prefix(kName.size());
  return scram.substr(0, std::min(scram.find(','), ClientDescription::kLongestName));
}

std::string_view user_of_sasl_start(Bytes command) {
  const std::string_view mechanism = name_in(command, "mechanism");
  const auto payload = bson::find(command, "payload");
  constexpr std::size_t kBinaryHead = 5;  // int32 length, subtype
  if (!mechanism.starts_with("SCRAM-") || !payload) return {};
  if (payload->type == bson::Type::string) return user_in(payload->text());
  if (payload->type != bson::Type::binary || payload->value.size() < kBinaryHead) return {};
  return user_in(as_text(payload->value.subspan(kBinaryHead)));
}

/// "nodejs 6.3.0, Mongoose 9.1" of "nodejs|Mongoose" and "6.3.0|9.1": libraries that use the driver
/// add their names, which need not have a version.
std::string driver_of(std::string_view driver_names, std::string_view versions) {
  const auto take = [](std::string_view& list) {
    const std::string_view first = list.substr(0, list.find('|'));
    list.remove_prefix(std::min(list.size(), first.size() + 1));
    return first;
  };
  std::string out;
  while (!driver_names.empty() || !versions.empty()) {
    const std::string_view its_name = take(driver_names);
    const std::string_view its_version = take(versions);
    if (!out.empty()) out += ", ";
    out.append(its_name);
    if (!its_version.empty()) out.append(" ").append(its_version);
  }
  return out;
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

std::optional<std::string_view> user_after(const Command& command) {
  if (command.name == "logout") return std::string_view();
  if (command.name == "saslStart") return user_of_sasl_start(command.document());
  return std::nullopt;
}

void note_names(Bytes hello, ConnectionMemory& memory) {
  if (const auto client = bson::document_in(hello, "client")) {
    ClientDescription& names = memory.description();
    if (const auto application = bson::document_in(*client, "application")) {
      names.application = name_in(*application, "name");
    }
    if (const auto driver = bson::document_in(*client, "driver")) {
      names.driver = driver_of(name_in(*driver, "name"), name_in(*driver, "version"));
    }
  }
  if (const auto login = bson::document_in(hello, "speculativeAuthenticate")) {
    if (const auto user = user_of_sasl_start(*login); !user.empty())
      memory.description().user = user;
  }
}

}  // namespace idproxy::rewrite
