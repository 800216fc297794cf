#include "app/doctor/certificates_check.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "app/state/findings.hpp"
#include "idproxy/net/tls.hpp"

namespace idproxy::app::doctor {
namespace {

using net::tls::Certificate;
using net::tls::Context;

/// One side's certificates, and the key of the configuration that names them.
struct NamedContext {
  const char* key;
  const Context* context;
};

std::vector<NamedContext> contexts_of(const config::Config& config) {
  std::vector<NamedContext> found;
  const auto add = [&](const char* key, const std::shared_ptr<const Context>& context) {
    if (context != nullptr) found.push_back({key, context.get()});
  };
  add("listen.tls", config.net.client_tls);
  add("upstream.uri", config.net.server_tls);
  add(config.id_store.uri_key.c_str(), config.written.store_tls);
  return found;
}

void add_dates(const Certificate& certificate, const std::string& key, std::chrono::sys_seconds now,
               const std::string& config_file, DoctorCheck& check) {
  auto found = state::date_of_certificate(certificate, key, now, net::tls::kExpiresInSight);
  if (!found) return;
  Commands commands;
  commands.shell({"openssl", "x509", "-in", certificate.file, "-noout", "-subject", "-dates"});
  const bool is_early = certificate.not_before > now;
  check.add(*std::move(found), is_early ? commands.shell({"timedatectl", "status"})
                                        : commands.append(reload(config_file)));
}

}  // namespace

DoctorCheck check_certificates(const std::string& file, const config::Config& config,
                               std::chrono::sys_seconds now) {
  DoctorCheck check{"certificates"};
  std::size_t count = 0;
  std::string keys;
  for (const auto& [key, context] : contexts_of(config)) {
    keys += (keys.empty() ? "" : ", ") + std::string(key);
    for (const Certificate& each : context->certificates()) {
      ++count;
      add_dates(each, key, now, file, check);
    }
  }
  check.skipped = keys.empty();
  check.what = keys.empty()
                   ? "no TLS"
                   : std::to_string(count) + (count == 1 ? " date of " : " dates of ") + keys;
  return check;
}

}  // namespace idproxy::app::doctor
