#include "app/doctor/proxies_check.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "app/state/process_statistics.hpp"
#include "app/state/proxy_differences.hpp"
#include "app/views/wait_reason.hpp"
#include "idproxy/app/version.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/rewrite/rule_outcomes.hpp"

namespace idproxy::app::doctor {
namespace {

using namespace std::chrono_literals;
using id_store::KnownProxy;
using rewrite::ForwardReason;

// A proxy says every 30 s that it is there.
constexpr std::chrono::seconds kSilentAfter = 50s;

std::optional<ForwardReason> reason_named(std::string_view name) {
  for (std::size_t i = 0; i < rewrite::kForwardReasons; ++i) {
    const auto reason = static_cast<ForwardReason>(i);
    if (rewrite::name_of(reason) == name) return reason;
  }
  return std::nullopt;
}

/// True if the doctor says as `found` what a running proxy says as `said`.
bool is_same(std::string_view said, std::string_view found) {
  constexpr std::array<std::string_view, 6> kUnreachable{
      finding::kServerNameUnknown.id, finding::kServerTlsFails.id,  finding::kServerSilent.id,
      finding::kServerTooOld.id,      finding::kSetNotInitiated.id, finding::kMemberNotReady.id,
  };
  if (said == finding::kServerUnreachable.id) {
    return found == said || std::ranges::find(kUnreachable, found) != kUnreachable.end();
  }
  return found == said ||
         (said == finding::kCertificateExpires.id && found == finding::kCertificateExpired.id);
}

/// It stores documents by another command than an upsert.
bool is_past_the_rules(ForwardReason reason) {
  return reason == ForwardReason::merge || reason == ForwardReason::out ||
         reason == ForwardReason::apply_ops || reason == ForwardReason::time_series;
}

/// When the file was last changed, in seconds since 1970.
std::optional<std::int64_t> changed_at(const std::string& file) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(file, error);
  if (error) return std::nullopt;
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::floor<std::chrono::seconds>(system).time_since_epoch().count();
}

/// "app2 (10.0.0.2:27117)"
std::string name_of_proxy(const KnownProxy& proxy) {
  return proxy.host + (proxy.listeners.empty() ? "" : " (" + proxy.listeners.front() + ")");
}

Finding versions_differ(const std::string& proxy, const std::string& its, std::string_view own) {
  Finding found = state::proxy_versions_differ({proxy}, its, "this program, " + std::string(own));
  found.subject = proxy;
  return found;
}

/// Collects the findings about the running proxy.
class ProxyCheck {
 public:
  ProxyCheck(const JsonView& status, const ExaminedFile& file) : status_(status), file_(file) {}

  DoctorCheck run(const std::vector<const DoctorCheck*>& others) {
    const auto pid = status_["pid"].count();
    check_.what = "version " + status_["version"].text() + ", " + status_["phase"].text() +
                  (pid ? ", pid " + std::to_string(*pid) : "");
    look_at_file();
    look_at_named_files();
    look_at_version();
    for (const JsonView& rule : status_["rules"].items()) look_at_rule(rule);
    look_at_what_is_wrong(others);
    look_at_phase();
    return std::move(check_);
  }

 private:
  void look_at_file() {
    const JsonView configuration = status_["configuration"];
    const std::string its = configuration["file"].text();
    if (its.empty()) return;
    std::error_code error;
    const bool is_absolute = its.starts_with('/');
    if (is_absolute && !std::filesystem::equivalent(its, file_.name, error)) {
      check_.add(finding::kProxyReadsOtherFile, its,
                 "the running proxy reads " + its + ", not " + file_.name,
                 Commands().shell({"mongo-idproxy", "doctor", "--config", as_path(its)}));
      return;
    }
    const auto changed = changed_at(file_.name);
    const double read = configuration["read"].number().value_or(0);
    const bool is_newer = changed && static_cast<double>(*changed) > read;
    const bool differs =
        !file_.rules_hash.empty() && configuration["hash"].text() != file_.rules_hash;
    if (!is_newer && !differs) return;
    check_.add(finding::kConfigNotLoaded, file_.name,
               is_newer ? "the file has changed since the running proxy read it"
                        : "the running proxy has other rules than the file: perhaps by variables",
               reload(file_.name));
  }

  void look_at_version() {
    const std::string its = status_["version"].text();
    if (its == version()) return;
    check_.add(versions_differ("the running proxy", its, version()),
               Commands().shell({"sudo", "systemctl", "restart", "mongo-idproxy"}));
  }

  void look_at_rule(const JsonView& rule) {
    const std::string ns = rule["ns"].text();
    const std::string field = rule["field"].text();
    const std::string subject = rule_subject(ns, field);
    for (const std::string& name : rule["forwarded"].keys()) {
      const auto reason = reason_named(name);
      // `upserts: forward` asks for it.
      if (!reason || *reason == ForwardReason::configured) continue;
      const std::uint64_t count = rule["forwarded"][name].count().value_or(0);
      const bool is_write = is_past_the_rules(*reason);
      check_.add(is_write ? finding::kWriteBypassesRule : finding::kUpsertBypassesRule, subject,
                 std::to_string(count) + (is_write ? " commands" : " upserts") +
                     " since the start got no value (" + name +
                     "): " + std::string(rewrite::way_out_of(*reason, field)),
                 about_rule("backfill", ns, field, file_.name, {"--dry-run"}));
    }
    if (!rule["driver_made_ids"].is_true()) return;
    check_.add(finding::kDriverSendsId, subject,
               "a driver sends an _id of its own with every document, so that the rule has nothing "
               "to give: make the driver leave _id out, or set assign: driver",
               own("status", "--clients"));
  }

  /// A command of this program about the proxy.
  [[nodiscard]] Commands own(const char* name, const char* option = nullptr) const {
    std::vector<std::string> words{"mongo-idproxy", name};
    if (option != nullptr) words.emplace_back(option);
    words.insert(words.end(), {"--config", as_path(file_.name)});
    return Commands().shell(std::move(words));
  }

  /// The proxy repeats what the other checks have found from here: the same kind of thing of the
  /// same subject. Of several subjects together it names none.
  static bool is_found(std::string_view id, const std::string& subject,
                       const std::vector<const DoctorCheck*>& others) {
    const auto repeats = [&](const Finding& each) {
      return (subject.empty() || each.subject == subject) && is_same(id, each.kind.id);
    };
    return std::ranges::any_of(others, [&](const DoctorCheck* check) {
      return std::ranges::any_of(check->findings, repeats);
    });
  }

  /// The proxy uses what it has read.
  void look_at_named_files() {
    const double read = status_["configuration"]["read"].number().value_or(0);
    for (const std::string& name : file_.named) {
      const auto changed = changed_at(name);
      if (name == file_.name || !changed || static_cast<double>(*changed) <= read) continue;
      stale_.insert(name);
      std::string text =
          "the file has changed since the running proxy read it, which goes on with "
          "what was in it before";
      for (const JsonView& each : status_["wrong"].items()) {
        if (is_of_certificate(each) && each["subject"].text() == name) {
          text += ": " + each["text"].text();
        }
      }
      check_.add(finding::kFileNotLoaded, name, text, reload(file_.name));
    }
  }

  static bool is_of_certificate(const JsonView& problem) {
    const std::string id = problem["id"].text();
    return id == finding::kCertificateExpired.id || id == finding::kCertificateExpires.id ||
           id == finding::kCertificateNotYetValid.id;
  }

  void look_at_what_is_wrong(const std::vector<const DoctorCheck*>& others) {
    for (const JsonView& each : status_["wrong"].items()) {
      const std::string subject = each["subject"].text();
      const bool is_said = is_of_certificate(each) && stale_.contains(subject);
      if (is_said || is_found(each["id"].text(), subject, others)) continue;
      const bool is_error = each["level"].text() == "error";
      check_.add(is_error ? finding::kProxyError : finding::kProxyWarning, "the running proxy",
                 each["text"].text() + ": " + each["remedy"].text(), own("status"));
    }
  }

  /// A proxy that starts says nothing else yet.
  void look_at_phase() {
    if (status_["phase"].text() != "starting") return;
    check_.add(finding::kProxyNotReady, "the running proxy", views::why_not_ready(status_),
               own("wait"));
  }

  const JsonView& status_;
  const ExaminedFile& file_;
  DoctorCheck check_{"proxy"};
  std::set<std::string> stale_;  // files that have changed since the proxy read them
};

/// The first listener of the proxy that `status` is of.
std::string own_listener(const JsonView& status) {
  const auto servers = status["servers"].items();
  return servers.empty() ? "" : servers.front()["listener"].text();
}

}  // namespace

DoctorCheck check_proxy(const JsonView& status, const ExaminedFile& file,
                        const std::vector<const DoctorCheck*>& others) {
  return ProxyCheck(status, file).run(others);
}

/// Anybody who may write to the id store may have named the other hosts: there are no commands that
/// reach them, or that send them anything.
DoctorCheck check_proxies(const std::vector<KnownProxy>& proxies, const JsonView& status,
                          const ExaminedFile& file, std::string_view version) {
  DoctorCheck check{"proxies"};
  const std::string own = own_listener(status);
  const std::string host = state::host_name();
  for (const KnownProxy& each : proxies) {
    const bool is_own = !own.empty() && each.host == host && !each.listeners.empty() &&
                        each.listeners.front() == own;
    const bool is_here =
        each.host == host && !each.listeners.empty() &&
        std::ranges::find(file.deserted, each.listeners.front()) != file.deserted.end();
    check.what += (check.what.empty() ? "" : ", ") + name_of_proxy(each);
    if (is_here) {
      check.add(finding::kProxyGone, each.listeners.front(),
                "a proxy said " + seconds_text(each.unseen) +
                    " ago that it listens here, and nobody does: it has been killed, or has "
                    "crashed, and clients are refused",
                Commands()
                    .shell({"systemctl", "status", "mongo-idproxy"})
                    .shell({"journalctl", "--unit=mongo-idproxy", "--lines=50"}));
      continue;
    }
    if (each.unseen > kSilentAfter) {
      check.add(finding::kProxySilent, name_of_proxy(each),
                "the proxy last said " + seconds_text(each.unseen) +
                    " ago that it is there: it has been killed, or cannot write to the id store",
                is_own ? Commands().shell({"systemctl", "status", "mongo-idproxy"}) : Commands());
    }
    if (is_own) continue;
    if (each.rules_hash != file.rules_hash &&
        state::share_collections(each.namespaces, file.namespaces)) {
      Finding found = state::proxies_disagree({name_of_proxy(each)}, file.name);
      found.subject = name_of_proxy(each);
      found.remedy = {
          "one field may get values of two kinds; if it is one of yours, give it the same file, "
          "and "
          "reload it there"};
      check.add(std::move(found), {});
    }
    if (each.version != version) {
      check.add(versions_differ(name_of_proxy(each), each.version, version), {});
    }
  }
  if (proxies.empty()) {
    check.what = "none has told the id store of itself lately";
    check.skipped = true;
  }
  return check;
}

}  // namespace idproxy::app::doctor
