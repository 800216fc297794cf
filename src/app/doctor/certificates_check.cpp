#include "app/doctor/certificates_check.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "idproxy/base/words.hpp"
#include "idproxy/net/tls.hpp"

namespace idproxy::app::doctor {
namespace {

using net::tls::Certificate;
using net::tls::Context;

constexpr auto kExpiresWithin = std::chrono::days(30);

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

std::string days_text(std::chrono::seconds time) {
  const auto days = std::chrono::floor<std::chrono::days>(time);
  return days.count() < 2 ? seconds_text(time) : std::to_string(days.count()) + " days";
}

void add_dates(const Certificate& certificate, const std::string& key, std::chrono::sys_seconds now,
               const std::string& config_file, DoctorCheck& check) {
  const std::string name = "the certificate " + certificate.subject + " of " + key;
  Commands look;
  look.shell({"openssl", "x509", "-in", certificate.file, "-noout", "-subject", "-dates"});
  const auto add = [&](const Diagnosis& which, const std::string& what,
                       std::vector<std::string> then) {
    check.add(which, certificate.file, name + what, look.shell(std::move(then)));
  };
  const std::vector<std::string> reload{"sudo", "mongo-idproxy", "reload", "--config",
                                        as_path(config_file)};
  if (certificate.not_before > now) {
    return add(diagnosis::kCertificateNotYetValid,
               " is valid only in " + days_text(certificate.not_before - now) +
                   ": correct this host's clock, or issue it again",
               {"timedatectl", "status"});
  }
  if (certificate.not_after <= now) {
    return add(diagnosis::kCertificateExpired, " has expired: renew it, and reload the proxy",
               reload);
  }
  if (certificate.not_after - now > kExpiresWithin) return;
  add(diagnosis::kCertificateExpires,
      " expires in " + days_text(certificate.not_after - now) + ": renew it, and reload the proxy",
      reload);
}

}  // namespace

bool is_about_dates(const Finding& finding, const config::Config& config,
                    std::chrono::sys_seconds now) {
  return std::ranges::any_of(contexts_of(config), [&](const NamedContext& each) {
    const auto said = each.context->warnings(now);
    return std::ranges::any_of(
        said, [&](const std::string& text) { return finding.message.ends_with(text); });
  });
}

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
