#include "config/connection_string.hpp"

#include <mongoc/mongoc.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <set>

#include "config/uri_parts.hpp"
#include "config/uri_tls.hpp"
#include "config/words.hpp"
#include "idproxy/base/text.hpp"

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

struct DestroyUri {
  void operator()(mongoc_uri_t* uri) const { mongoc_uri_destroy(uri); }
};
using Uri = std::unique_ptr<mongoc_uri_t, DestroyUri>;

/// Without this, libmongoc prints warnings about connection strings, which may include passwords.
void silence_libmongoc() {
  static std::once_flag once;
  std::call_once(once, [] { mongoc_log_set_handler(nullptr, nullptr); });
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
    const auto is_this = [&](std::string_view known) { return ascii_lower(known) == name; };
    const auto* known = std::ranges::find_if(kOptions, is_this);
    if (is_named && known != kOptions.end() && !refused) refused = *known;
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

void warn_of_unknown_options(std::string_view uri, std::string_view key, Reader& reader) {
  for_each_option(split_uri(uri).options, [&](std::string_view name, std::string_view) {
    const auto is_this = [&](std::string_view known) {
      return ascii_lower(known) == ascii_lower(name);
    };
    if (std::any_of(kOptions.begin(), kOptions.end(), is_this)) return;
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

void warn_of_repeated_hosts(std::string_view uri, std::string_view key, Reader& reader) {
  std::set<std::string> known;
  std::set<std::string> repeated;
  std::string_view hosts = split_uri(uri).hosts;
  while (!hosts.empty()) {
    const std::size_t end = std::min(hosts.find(','), hosts.size());
    const std::string host = with_port(hosts.substr(0, end));
    if (!known.insert(host).second) repeated.insert(host);
    hosts.remove_prefix(std::min(end + 1, hosts.size()));
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

std::optional<ConnectionString> parse_connection_string(const std::string& uri,
                                                        std::string_view key, Reader& reader) {
  silence_libmongoc();
  if (const std::string fault = fault_of(uri); !fault.empty()) {
    reader.error(key, fault);
    return std::nullopt;
  }
  bson_error_t fault{};
  const Uri parsed(mongoc_uri_new_with_error(uri.c_str(), &fault));
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
  result.tls_options = read_tls_options(*parsed, key, reader);
  result.direct = mongoc_uri_get_option_as_bool(parsed.get(), MONGOC_URI_DIRECTCONNECTION, false);
  if (const char* name = mongoc_uri_get_replica_set(parsed.get())) result.replica_set = name;
  result.has_user = mongoc_uri_get_username(parsed.get()) != nullptr;
  return result;
}

}  // namespace idproxy::config
