#include "rewrite/client_description.hpp"

#include <algorithm>
#include <string>

#include "idproxy/bson/elements.hpp"

namespace idproxy::rewrite {
namespace {

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

ClientDescription& of(ConnectionMemory& memory) {
  if (memory.client == nullptr) memory.client = std::make_unique<ClientDescription>();
  return *memory.client;
}

}  // namespace

std::optional<std::string_view> user_after(const Command& command) {
  if (command.name == "logout") return std::string_view();
  if (command.name == "saslStart") return user_of_sasl_start(command.document());
  return std::nullopt;
}

void note_names(Bytes hello, ConnectionMemory& memory) {
  if (const auto client = bson::document_in(hello, "client")) {
    ClientDescription& names = of(memory);
    if (const auto application = bson::document_in(*client, "application")) {
      names.application = name_in(*application, "name");
    }
    if (const auto driver = bson::document_in(*client, "driver")) {
      names.driver = driver_of(name_in(*driver, "name"), name_in(*driver, "version"));
    }
  }
  if (const auto login = bson::document_in(hello, "speculativeAuthenticate")) {
    if (const auto user = user_of_sasl_start(*login); !user.empty()) of(memory).user = user;
  }
}

void ConnectionMemory::user_changed(std::string_view user) {
  if (client == nullptr && user.empty()) return;
  of(*this).user = user;
}

}  // namespace idproxy::rewrite
