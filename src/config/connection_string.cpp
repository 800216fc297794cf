#include "config/connection_string.hpp"

#include <mongoc/mongoc.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>

#include "idproxy/base/owned.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::config {
namespace {

// The options of the connection string specification and of libmongoc, which ignore case. libmongoc
// can only tell whether it knows a name: it has no list to suggest names from, has them in lower
// case, and does not know all options of the specification.
constexpr auto kOptions = std::to_array<std::string_view>({
    "appName",
    "authMechanism",
    "authMechanismProperties",
    "authSource",
    "canonicalizeHostname",
    "compressors",
    "connectTimeoutMS",
    "directConnection",
    "gssapiServiceName",
    "heartbeatFrequencyMS",
    "journal",
    "loadBalanced",
    "localThresholdMS",
    "maxConnecting",
    "maxIdleTimeMS",
    "maxPoolSize",
    "maxStalenessSeconds",
    "minPoolSize",
    "proxyHost",
    "proxyPassword",
    "proxyPort",
    "proxyUsername",
    "readConcernLevel",
    "readPreference",
    "readPreferenceTags",
    "replicaSet",
    "retryReads",
    "retryWrites",
    "serverMonitoringMode",
    "serverSelectionTimeoutMS",
    "serverSelectionTryOnce",
    "socketCheckIntervalMS",
    "socketTimeoutMS",
    "srvMaxHosts",
    "srvServiceName",
    "ssl",
    "sslAllowInvalidCertificates",
    "sslAllowInvalidHostnames",
    "sslCertificateAuthorityFile",
    "sslClientCertificateKeyFile",
    "sslClientCertificateKeyPassword",
    "timeoutMS",
    "tls",
    "tlsAllowInvalidCertificates",
    "tlsAllowInvalidHostnames",
    "tlsCAFile",
    "tlsCRLFile",
    "tlsCertificateKeyFile",
    "tlsCertificateKeyFilePassword",
    "tlsDisableCertificateRevocationCheck",
    "tlsDisableOCSPEndpointCheck",
    "tlsInsecure",
    "uuidRepresentation",
    "w",
    "waitQueueMultiple",
    "waitQueueTimeoutMS",
    "wTimeoutMS",
    "zlibCompressionLevel",
    "zstdCompressionLevel",
});

/// Without this, libmongoc prints warnings about connection strings, which may include passwords.
void silence_libmongoc() {
  static std::once_flag once;
  std::call_once(once, [] { mongoc_log_set_handler(nullptr, nullptr); });
}

constexpr const char* kInsecure = "tlsInsecure";
constexpr const char* kInvalidCertificates = "tlsAllowInvalidCertificates";
constexpr const char* kInvalidHostnames = "tlsAllowInvalidHostnames";
constexpr const char* kNoOcsp = "tlsDisableOCSPEndpointCheck";
constexpr const char* kNoRevocation = "tlsDisableCertificateRevocationCheck";
constexpr const char* kCaFile = "tlsCAFile";
constexpr const char* kCrlFile = "tlsCRLFile";
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

/// The option as kOptions spells it; nothing: it is none.
std::optional<std::string_view> known_option(std::string_view name) {
  const auto* const known = std::ranges::find_if(
      kOptions, [&](std::string_view each) { return ascii_lower(each) == ascii_lower(name); });
  return known == kOptions.end() ? std::nullopt : std::optional(*known);
}

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
void warn_of_no_effect(const mongoc_uri_t& uri, std::string_view key, Parameters& reader) {
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
  if (!mongoc_uri_has_option(&uri, kKeyFile)) warn(kPassword, "no tlsCertificateKeyFile");
}

void warn_of_unsafe(const net::tls::ClientOptions& options, std::string_view key,
                    Parameters& reader) {
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

/// Why the options contradict each other, or "". `options` is the part after "?".
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
  for (const char* file : {kCaFile, kCrlFile, kKeyFile}) {
    const auto found = given.find(ascii_lower(file));
    if (found != given.end() && found->second.empty()) return std::string(file) + " names no file";
  }
  return {};
}

/// Reads the TLS options
/// (https://www.mongodb.com/docs/manual/reference/connection-string-options/#tls-options). Warns at
/// `key` of those that disable verification or have no effect.
net::tls::ClientOptions read_tls_options(const mongoc_uri_t& uri, std::string crl_file,
                                         std::string_view key, Parameters& reader) {
  warn_of_no_effect(uri, key, reader);
  if (!mongoc_uri_get_tls(&uri)) {
    if (!crl_file.empty()) {
      reader.warning(key,
                     std::string(kCrlFile) + " has no effect: the string does not say tls=true");
    }
    return {};
  }
  net::tls::ClientOptions options;
  const bool insecure = is_true(uri, kInsecure);
  options.ca_file = text_of(uri, kCaFile);
  options.crl_file = std::move(crl_file);
  options.certificate_key_file = text_of(uri, kKeyFile);
  options.password = text_of(uri, kPassword);
  options.allow_invalid_certificates = insecure || is_true(uri, kInvalidCertificates);
  options.ignore_staple = is_true(uri, kNoRevocation);
  options.allow_invalid_hostnames = insecure || is_true(uri, kInvalidHostnames);
  warn_of_unsafe(options, key, reader);
  return options;
}

/// True if the user or password seems to contain a character that must be written as %XX. It would
/// end the password, and the rest would be taken for a host or an option.
bool has_bare_character(const UriParts& parts) {
  const auto colons = std::count(parts.user_info.begin(), parts.user_info.end(), ':');
  return colons > 1 || parts.user_info.find_first_of("@?#[]") != std::string_view::npos ||
         parts.path.find('@') != std::string_view::npos;
}

/// Faults that libmongoc does not report, or reports unclearly; "" if there are none.
std::string fault_of(std::string_view uri) {
  if (!uri.starts_with(kScheme) && !uri.starts_with(kSrvScheme)) {
    return "must be a connection string that begins with mongodb://";
  }
  const UriParts parts = split_uri(uri);
  if (has_bare_character(parts)) {
    return "the characters : / ? # [ ] @ % of user and password must be written as %3A, %2F, %3F, "
           "%23, %5B, %5D, %40, %25";
  }
  const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; };
  if (std::any_of(parts.hosts.begin(), parts.hosts.end(), is_blank)) {
    return "must not contain blanks between its hosts";
  }
  if (parts.hosts.find('?') != std::string_view::npos) return "must have a / before its options";
  return fault_of_tls_options(parts.options);
}

/// The option that libmongoc's message is about, as kOptions spells it; nothing if none can be
/// determined.
std::optional<std::string_view> refused_option(std::string_view message, const UriParts& parts) {
  constexpr auto kBeginnings =
      std::to_array<std::string_view>({"Unsupported", "Invalid \"", "Value for URI option"});
  const auto begins = [&](std::string_view beginning) { return message.starts_with(beginning); };
  if (std::ranges::none_of(kBeginnings, begins)) return std::nullopt;
  const std::string lower = ascii_lower(message);
  std::optional<std::string_view> refused;
  for_each_option(parts.options, [&](std::string_view given, std::string_view) {
    const std::string name = ascii_lower(given);
    const bool is_named = lower.find('"' + name + '"') != std::string::npos ||
                          lower.find('[' + name + '=') != std::string::npos;
    if (is_named && !refused) refused = known_option(name);
  });
  return refused;
}

std::string expectation_of(std::string_view option) {
  const std::string name(option);
  if (mongoc_uri_option_is_bool(name.c_str())) return "must be true or false";
  const bool is_integer =
      mongoc_uri_option_is_int32(name.c_str()) || mongoc_uri_option_is_int64(name.c_str());
  return is_integer ? "must be an integer" : "has an invalid value";
}

/// libmongoc's message, or a replacement if it contains a part of the string that may be secret.
std::string public_message(std::string_view message, std::string_view uri) {
  const UriParts parts = split_uri(uri);
  const auto shows = [message](std::string_view secret) {
    return !secret.empty() && message.find(secret) != std::string_view::npos;
  };
  bool is_public = !shows(parts.user_info);
  const std::size_t colon = parts.user_info.find(':');
  if (colon != std::string_view::npos) {
    is_public = is_public && !shows(parts.user_info.substr(colon + 1));
  }
  for_each_option(parts.options, [&](std::string_view, std::string_view value) {
    is_public = is_public && !shows(value);
  });
  std::string refusal = "is not a valid connection string";
  const bool shows_value = message.starts_with("Unsupported");  // perhaps decoded
  if (is_public && !shows_value) return refusal + ": " + shown(message);
  const auto option = refused_option(message, parts);
  if (!option) return refusal;
  return refusal + ": its option " + std::string(*option) + ' ' +
         (shows_value ? expectation_of(*option) : "has an invalid value");
}

void warn_of_unknown_options(std::string_view uri, std::string_view key, Parameters& reader) {
  for_each_option(split_uri(uri).options, [&](std::string_view name, std::string_view) {
    if (known_option(name)) return;
    reader.warning(key, "unknown option '" + shown(name) + "'" + suggestion(name, kOptions));
  });
}

/// The host in the form in which libmongoc compares hosts to drop repeated ones.
std::string with_port(std::string_view host) {
  const std::size_t bracket = host.rfind(']');
  const std::size_t from = bracket == std::string_view::npos ? 0 : bracket;
  const bool is_unix = host.find('%') != std::string_view::npos;
  const bool has_port = host.find(':', from) != std::string_view::npos;
  return ascii_lower(host) + (is_unix || has_port ? "" : ":27017");
}

void warn_of_repeated_hosts(std::string_view uri, std::string_view key, Parameters& reader) {
  std::set<std::string> known;
  std::set<std::string> repeated;
  std::string_view hosts = split_uri(uri).hosts;
  while (!hosts.empty()) {
    const std::string host = with_port(take_part(hosts, ","));
    if (!known.insert(host).second) repeated.insert(host);
  }
  for (const std::string& host : repeated) {
    reader.warning(key, "names " + shown(host) +
                            " more than once, which has no effect: should one of "
                            "them be another server?");
  }
}

net::Endpoint endpoint_of(const mongoc_host_list_t& host) {
  net::Endpoint endpoint;
  if (host.family == AF_UNIX) {
    endpoint.unix_path = host.host;
  } else {
    endpoint.host = host.host;
    endpoint.port = host.port;
  }
  return endpoint;
}

}  // namespace

UriParts split_uri(std::string_view uri) {
  uri.remove_prefix(uri.starts_with(kSrvScheme) ? kSrvScheme.size() : kScheme.size());
  UriParts parts;
  parts.hosts = uri.substr(0, uri.find('/'));
  parts.path = uri.substr(parts.hosts.size());
  if (const std::size_t query = parts.path.find('?'); query != std::string_view::npos) {
    parts.options = parts.path.substr(query + 1);
    parts.path = parts.path.substr(0, query);
  }
  if (const std::size_t at = parts.hosts.rfind('@'); at != std::string_view::npos) {
    parts.user_info = parts.hosts.substr(0, at);
    parts.hosts.remove_prefix(at + 1);
  }
  return parts;
}

std::optional<ConnectionString> parse_connection_string(const std::string& uri,
                                                        std::string_view key, Parameters& reader) {
  silence_libmongoc();
  if (const std::string fault = fault_of(uri); !fault.empty()) {
    reader.error(key, fault);
    return std::nullopt;
  }
  bson_error_t fault{};
  const Owned<mongoc_uri_t, mongoc_uri_destroy> parsed(
      mongoc_uri_new_with_error(uri.c_str(), &fault));
  if (!parsed) {
    reader.error(key, public_message(static_cast<const char*>(fault.message), uri));
    return std::nullopt;
  }
  warn_of_unknown_options(uri, key, reader);
  warn_of_repeated_hosts(uri, key, reader);
  ConnectionString result;
  for (const auto* host = mongoc_uri_get_hosts(parsed.get()); host != nullptr; host = host->next) {
    result.hosts.push_back(endpoint_of(*host));
  }
  result.srv = uri.starts_with(kSrvScheme);
  result.tls = mongoc_uri_get_tls(parsed.get());
  result.tls_options = read_tls_options(*parsed, id_store::mongo::crl_file_of(uri), key, reader);
  result.direct = mongoc_uri_get_option_as_bool(parsed.get(), MONGOC_URI_DIRECTCONNECTION, false);
  if (const char* name = mongoc_uri_get_replica_set(parsed.get())) result.replica_set = name;
  result.has_user = mongoc_uri_get_username(parsed.get()) != nullptr;
  return result;
}

}  // namespace idproxy::config
