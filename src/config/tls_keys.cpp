#include "config/tls_keys.hpp"

#include <optional>
#include <string>

#include "idproxy/base/secret_file.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

using net::tls::ClientCertificate;
using net::tls::Context;
using net::tls::Fault;
using Shared = std::shared_ptr<const Context>;

void warn_of_dates(const Context& context, std::chrono::sys_seconds now, std::string_view key,
                   Parameters& reader) {
  for (const std::string& text : context.warnings(now))
    reader.warning(key, text, FileFinding::About::certificate_date);
}

void warn_of_no_effect(std::string_view key, std::string_view why, Parameters& tls) {
  if (tls.optional_text(key)) tls.warning(key, "has no effect with " + std::string(why));
}

void warn_of_mode(ClientCertificate client_certificate, Parameters& tls) {
  warn_of_no_effect("certificate_key_file", "mode: off", tls);
  warn_of_no_effect("ca_file", "mode: off", tls);
  warn_of_no_effect("crl_file", "mode: off", tls);
  if (client_certificate == ClientCertificate::none) return;
  tls.warning("client_certificate", "has no effect with mode: off");
}

/// Reads a path that must be set. Nothing after an error.
std::optional<std::string> read_needed(std::string_view key, Access access, std::string_view what,
                                       Parameters& tls) {
  if (tls.is_none(key)) tls.error(key, "must name " + std::string(what));
  return read_path(key, access, tls);
}

std::optional<net::tls::ServerOptions> read_files(ClientCertificate client_certificate,
                                                  Parameters& tls) {
  const auto own = read_needed("certificate_key_file", Access::secret,
                               "a PEM file with the certificate and its key: mode is require", tls);
  const bool asks = client_certificate != ClientCertificate::none;
  // If clients are not asked for certificates, the CA file may still complete the own chain.
  const auto ca = asks ? read_needed("ca_file", Access::any,
                                     "a PEM file with the authorities that sign clients' "
                                     "certificates: client_certificate is not none",
                                     tls)
                       : read_path("ca_file", Access::any, tls);
  const auto crl = read_path("crl_file", Access::any, tls);
  if (crl && !asks) warn_of_no_effect("crl_file", "client_certificate: none", tls);
  const bool lacks_ca = !ca && (asks || !tls.is_none("ca_file"));
  if (!own || lacks_ca || (!crl && !tls.is_none("crl_file"))) return std::nullopt;
  return net::tls::ServerOptions{*own, ca.value_or(""), client_certificate, crl.value_or("")};
}

/// How a file is called in listen.tls, and in a connection string.
struct Names {
  const char* key;
  const char* option;
};

const Names& names_of(Fault::File file) {
  static constexpr std::array<Names, 3> kNames{{{"certificate_key_file", "tlsCertificateKeyFile"},
                                                {"ca_file", "tlsCAFile"},
                                                {"crl_file", "tlsCRLFile"}}};
  return kNames[static_cast<std::size_t>(file)];
}

/// `options`: of either side.
template <class Options>
const std::string& path_of(Fault::File file, const Options& options) {
  switch (file) {
    case Fault::File::ca:
      return options.ca_file;
    case Fault::File::crl:
      return options.crl_file;
    case Fault::File::certificate_key:
      break;
  }
  return options.certificate_key_file;
}

void report(const Fault& fault, const net::tls::ServerOptions& options, Parameters& tls) {
  const char* key = names_of(fault.file).key;
  const std::string& path = path_of(fault.file, options);
  tls.error(key, "cannot use " + shown_path(path, key, tls) + ": " + fault.reason, path,
            FileFinding::About::certificate);
}

/// Does not show a path that contains '@': it may be the end of a password that was not
/// percent-encoded, and whose '/' and '?' seemed to begin the options.
void report(const Fault& fault, const std::string& path, std::string_view key, Parameters& reader,
            FileFinding::About about = FileFinding::About::certificate) {
  const bool may_be_secret = path.empty() || path.find('@') != std::string::npos;
  const std::string file = may_be_secret ? "the file" : "'" + shown(path) + "'";
  reader.error(key,
               "cannot use " + file + " of " + names_of(fault.file).option + ": " + fault.reason,
               may_be_secret ? "" : path, about);
}

/// Also keeps OpenSSL from opening a pipe, which would block it.
bool can_be_used(const std::string& path, Access access, Fault::File file, std::string_view key,
                 Parameters& reader) {
  const FileFault fault = path.empty() ? FileFault{} : fault_of_file(path, access, reader);
  if (!fault.text.empty()) report({file, fault.text}, path, key, reader, fault.about);
  return fault.text.empty();
}

}  // namespace

Shared read_client_tls(Parameters& tls, std::chrono::sys_seconds now) {
  const std::size_t errors = tls.errors();
  const bool required = tls.choice("mode", {"off", "require"}) == 1;
  const bool is_word = tls.errors() == errors;
  const auto client_certificate = static_cast<ClientCertificate>(
      tls.choice("client_certificate", {"none", "optional", "require"}));
  if (!required) {
    // After an invalid mode, these keys are known, but whether they have an effect is not.
    for (const char* key : {"certificate_key_file", "ca_file", "crl_file"})
      (void)tls.optional_text(key);
    if (is_word) warn_of_mode(client_certificate, tls);
    return nullptr;
  }
  const auto options = read_files(client_certificate, tls);
  if (!options) return nullptr;
  const auto context = Context::for_clients(*options);
  if (!context) {
    report(context.error(), *options, tls);
    return nullptr;
  }
  warn_of_dates(**context, now, "certificate_key_file", tls);
  return *context;
}

Shared make_server_tls(const ConnectionString& uri, std::string_view key,
                       std::chrono::sys_seconds now, Parameters& reader) {
  if (!uri.tls) return nullptr;
  const net::tls::ClientOptions& options = uri.tls_options;
  const bool own = can_be_used(options.certificate_key_file, Access::secret,
                               Fault::File::certificate_key, key, reader);
  const bool ca = can_be_used(options.ca_file, Access::any, Fault::File::ca, key, reader);
  const bool crl = can_be_used(options.crl_file, Access::any, Fault::File::crl, key, reader);
  if (!own || !ca || !crl) return nullptr;
  const auto context = Context::for_servers(options);
  if (!context) {
    report(context.error(), path_of(context.error().file, options), key, reader);
    return nullptr;
  }
  warn_of_dates(**context, now, key, reader);
  return *context;
}

}  // namespace idproxy::config
