#include "config/uri_tls.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "config/uri_parts.hpp"
#include "config/words.hpp"
#include "idproxy/base/text.hpp"

namespace idproxy::config {
namespace {

constexpr const char* kInsecure = "tlsInsecure";
constexpr const char* kInvalidCertificates = "tlsAllowInvalidCertificates";
constexpr const char* kInvalidHostnames = "tlsAllowInvalidHostnames";
constexpr const char* kNoOcsp = "tlsDisableOCSPEndpointCheck";
constexpr const char* kNoRevocation = "tlsDisableCertificateRevocationCheck";
constexpr const char* kCaFile = "tlsCAFile";
constexpr const char* kKeyFile = "tlsCertificateKeyFile";
constexpr const char* kPassword = "tlsCertificateKeyFilePassword";

constexpr auto kBesideTls =
    std::to_array<const char*>({kInsecure, kInvalidCertificates, kInvalidHostnames, kNoOcsp,
                                kNoRevocation, kCaFile, kKeyFile, kPassword});

struct Pair {
  const char* option;
  const char* other;
};

/// Options that must not be set together, whatever their values
/// (https://github.com/mongodb/specifications/blob/master/source/uri-options/uri-options.md).
/// libmongoc refuses them, too, but its message lists options that the string does not contain.
constexpr auto kExclusive = std::to_array<Pair>({
    {kInsecure, kInvalidCertificates},
    {kInsecure, kInvalidHostnames},
    {kInsecure, kNoRevocation},
    {kInsecure, kNoOcsp},
    {kInvalidCertificates, kNoRevocation},
    {kInvalidCertificates, kNoOcsp},
    {kNoRevocation, kNoOcsp},
});

/// The values of all TLS options, by name in lower case.
using Given = std::map<std::string, std::string_view, std::less<>>;

bool is_given(const Given& given, std::string_view name) {
  return given.contains(ascii_lower(name));
}

bool is_true(const mongoc_uri_t& uri, const char* name) {
  return mongoc_uri_get_option_as_bool(&uri, name, false);
}

std::string text_of(const mongoc_uri_t& uri, const char* name) {
  return mongoc_uri_get_option_as_utf8(&uri, name, "");
}

/// Warns of options that are set but have no effect.
void warn_of_no_effect(const mongoc_uri_t& uri, std::string_view key, Reader& reader) {
  const auto warn = [&](const char* name, std::string_view why) {
    if (!mongoc_uri_has_option(&uri, name)) return;
    reader.warning(key, std::string(name) + " has no effect: " + std::string(why));
  };
  if (!mongoc_uri_get_tls(&uri)) {
    for (const char* name : kBesideTls) warn(name, "tls=false");
    return;
  }
  constexpr std::string_view kNothingAsked =
      "the proxy does not ask authorities for revoked certificates";
  warn(kNoOcsp, kNothingAsked);
  warn(kNoRevocation, kNothingAsked);
  if (!mongoc_uri_has_option(&uri, kKeyFile)) warn(kPassword, "no tlsCertificateKeyFile");
}

void warn_of_unsafe(const net::tls::ClientOptions& options, std::string_view key, Reader& reader) {
  if (options.allow_invalid_certificates) {
    reader.warning(key,
                   "server certificates are not verified: anybody on the path to the servers can "
                   "read and change all traffic");
  } else if (options.allow_invalid_hostnames) {
    reader.warning(
        key,
        "names in server certificates are not verified: anybody with a certificate of the "
        "same authorities can pose as a server");
  }
}

}  // namespace

std::string fault_of_tls_options(std::string_view options) {
  Given given;
  std::string repeated;
  for_each_option(options, [&](std::string_view name, std::string_view value) {
    const std::string lower = ascii_lower(name);
    if (!lower.starts_with("tls") && !lower.starts_with("ssl")) return;
    if (!given.emplace(lower, value).second && repeated.empty()) repeated = name;
  });
  if (!repeated.empty()) return "has the option '" + shown(repeated) + "' twice";
  const auto both = [&](const Pair& pair) {
    return is_given(given, pair.option) && is_given(given, pair.other);
  };
  if (const auto* pair = std::ranges::find_if(kExclusive, both); pair != kExclusive.end()) {
    return std::string(pair->option) + " and " + pair->other + " must not be set together";
  }
  if (both({"tls", "ssl"}) && given.at("tls") != given.at("ssl")) {
    return "tls and ssl are two names of one option, and have different values";
  }
  for (const char* file : {kCaFile, kKeyFile}) {
    const auto found = given.find(ascii_lower(file));
    if (found != given.end() && found->second.empty()) return std::string(file) + " names no file";
  }
  return {};
}

net::tls::ClientOptions read_tls_options(const mongoc_uri_t& uri, std::string_view key,
                                         Reader& reader) {
  warn_of_no_effect(uri, key, reader);
  if (!mongoc_uri_get_tls(&uri)) return {};
  net::tls::ClientOptions options;
  const bool insecure = is_true(uri, kInsecure);
  options.ca_file = text_of(uri, kCaFile);
  options.certificate_key_file = text_of(uri, kKeyFile);
  options.password = text_of(uri, kPassword);
  options.allow_invalid_certificates = insecure || is_true(uri, kInvalidCertificates);
  options.allow_invalid_hostnames = insecure || is_true(uri, kInvalidHostnames);
  warn_of_unsafe(options, key, reader);
  return options;
}

}  // namespace idproxy::config
