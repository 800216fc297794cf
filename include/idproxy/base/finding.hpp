#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "idproxy/base/typed_command.hpp"

/// What can be wrong with a proxy and all that it depends on, for an operator.
namespace idproxy {

enum class FindingLevel {
  error,    ///< clients notice it, or will with the next start
  warning,  ///< something may go wrong
  note,     ///< good to know; nothing has to be done
};
/// "error", "warning" or "note".
[[nodiscard]] constexpr std::string_view name_of(FindingLevel level) {
  constexpr std::array<std::string_view, 3> kNames{"error", "warning", "note"};
  return kNames[static_cast<std::size_t>(level)];
}

struct FindingKind {
  const char* id;  ///< never changes; an anchor of docs/troubleshooting.md
  FindingLevel level;
  /// Where the documentation says more, of those that a running proxy finds.
  const char* page = nullptr;
  /// Of the log, if log::event() tells of it there.
  const char* event = nullptr;
  friend bool operator==(const FindingKind& a, const FindingKind& b) {
    return std::string_view(a.id) == b.id;
  }
};

/// Something that is so, and what to do about it. The page, status.json, the terminal, /readyz,
/// `wait`, `doctor` and the log say it in these words.
struct Finding {
  FindingKind kind;
  std::string subject;  ///< a server, a file, "shop.orders, number", …; empty: the proxy itself
  Reason what;          ///< a sentence without its full stop
  Reason remedy{};      ///< what to do; empty: the commands say it

  /// What is so and what to do, without the commands.
  [[nodiscard]] std::string text() const {
    return remedy.text.empty() ? what.text : what.text + ": " + remedy.text;
  }
  /// The same with the commands.
  [[nodiscard]] std::string whole() const {
    const std::string todo = remedy.whole();
    return todo.empty() ? what.whole() : what.whole() + ": " + todo;
  }
  [[nodiscard]] Commands commands() const {
    return Commands(what.commands).append(remedy.commands);
  }
};

/// All kinds. A test holds that each is explained, and found where its cause is.
namespace finding {

inline constexpr auto kError = FindingLevel::error;
inline constexpr auto kWarning = FindingLevel::warning;
inline constexpr auto kNote = FindingLevel::note;

// The configuration and its files.
inline constexpr FindingKind kConfigError{"config-error", kError};
inline constexpr FindingKind kConfigWarning{"config-warning", kWarning};
inline constexpr FindingKind kVariableUndefined{"variable-undefined", kError};
inline constexpr FindingKind kSecretFileOpen{"secret-file-open", kError};
inline constexpr FindingKind kPasswordInFile{"password-in-file", kWarning};
inline constexpr FindingKind kCertificateUnusable{"certificate-unusable", kError};
inline constexpr FindingKind kCertificateExpired{"certificate-expired", kError,
                                                 "tls-and-logins.md#renewing-certificates"};
inline constexpr FindingKind kCertificateExpires{"certificate-expires", kWarning,
                                                 "tls-and-logins.md#renewing-certificates"};
inline constexpr FindingKind kCertificateNotYetValid{"certificate-not-yet-valid", kError,
                                                     "tls-and-logins.md#renewing-certificates"};

// This host.
inline constexpr FindingKind kPortInUse{"port-in-use", kError};
inline constexpr FindingKind kAddressUnavailable{"address-unavailable", kError};
inline constexpr FindingKind kDescriptorsTooFew{"descriptors-too-few", kWarning};
inline constexpr FindingKind kDescriptorsOfShell{"descriptors-of-shell", kNote};

// The servers.
inline constexpr FindingKind kServerUnreachable{"server-unreachable", kError,
                                                "troubleshooting.md#a-server-cannot-be-reached",
                                                "upstream_unreachable"};
inline constexpr FindingKind kServerSilent{"server-silent", kError};
inline constexpr FindingKind kServerNameUnknown{"server-name-unknown", kError};
inline constexpr FindingKind kServerTlsFails{"server-tls-fails", kError};
inline constexpr FindingKind kServerSlow{
    "server-slow", kError, "troubleshooting.md#it-is-slow-or-takes-much-memory", "server_slow"};
inline constexpr FindingKind kServerTooOld{"server-too-old", kError};
inline constexpr FindingKind kServerLacks{"server-lacks", kNote, nullptr, "server_limit"};
inline constexpr FindingKind kServerReleasesDiffer{"server-releases-differ", kNote};
inline constexpr FindingKind kFcvBehind{"fcv-behind", kNote};
inline constexpr FindingKind kSetNameDiffers{"set-name-differs", kError, "replica-sets.md#names",
                                             "set_name_differs"};
inline constexpr FindingKind kSetNotInitiated{"set-not-initiated", kError, "replica-sets.md#names"};
inline constexpr FindingKind kPrimaryMissing{"primary-missing", kError, "replica-sets.md#failover"};
inline constexpr FindingKind kMemberNotReady{"member-not-ready", kWarning};
inline constexpr FindingKind kMemberUnlisted{"member-unlisted", kNote};
inline constexpr FindingKind kStandaloneServer{"standalone-server", kNote};
inline constexpr FindingKind kClockSkew{"clock-skew", kWarning};
inline constexpr FindingKind kStoreElsewhere{"store-elsewhere", kError};

// The id store and its user.
inline constexpr FindingKind kStoreDown{"store-down", kError,
                                        "troubleshooting.md#the-store-is-down", "store_down"};
inline constexpr FindingKind kLoginRefused{"login-refused", kError};
inline constexpr FindingKind kLoginMissing{"login-missing", kError};
inline constexpr FindingKind kRoleMissing{"role-missing", kWarning};

// Rules and counters.
inline constexpr FindingKind kRuleNotReady{"rule-not-ready", kError,
                                           "troubleshooting.md#inserts-are-refused", "not_ready"};
inline constexpr FindingKind kWritesRefused{
    "writes-refused", kError, "troubleshooting.md#inserts-are-refused", "writes_refused"};
inline constexpr FindingKind kNumberHeld{"number-held", kError, "strategies.md#gapless",
                                         "writes_refused"};
inline constexpr FindingKind kIndexMissing{"index-missing", kWarning,
                                           "duplicates.md#the-unique-index", "no_unique_index"};
inline constexpr FindingKind kDuplicatesStored{"duplicates-stored", kWarning};
inline constexpr FindingKind kCounterBehind{"counter-behind", kWarning};
inline constexpr FindingKind kNumbersRunOut{
    "numbers-run-out", kWarning, "troubleshooting.md#inserts-are-refused", "numbers_run_out"};

// The running proxy, and the others of its id store.
inline constexpr FindingKind kProxyUnknown{"proxy-unknown", kError};
inline constexpr FindingKind kProxyStopping{"proxy-stopping", kWarning, "operations.md#stop"};
inline constexpr FindingKind kClientsAtLimit{"clients-at-limit", kWarning, "operations.md#limits"};
inline constexpr FindingKind kMemoryAtLimit{"memory-at-limit", kWarning, "operations.md#limits"};
inline constexpr FindingKind kReloadFailed{"reload-failed", kWarning, "operations.md#reload",
                                           "reload_failed"};
inline constexpr FindingKind kProxyReadsOtherFile{"proxy-reads-other-file", kWarning};
inline constexpr FindingKind kConfigNotLoaded{"config-not-loaded", kWarning};
inline constexpr FindingKind kFileNotLoaded{"file-not-loaded", kError};
inline constexpr FindingKind kProxyNotReady{"proxy-not-ready", kError};
inline constexpr FindingKind kProxyError{"proxy-error", kError};
inline constexpr FindingKind kProxyWarning{"proxy-warning", kWarning};
inline constexpr FindingKind kUpsertBypassesRule{"upsert-bypasses-rule", kWarning};
inline constexpr FindingKind kWriteBypassesRule{"write-bypasses-rule", kWarning};
inline constexpr FindingKind kDriverSendsId{"driver-sends-id", kWarning};
inline constexpr FindingKind kProxiesDisagree{"proxies-disagree", kWarning,
                                              "operations.md#several-proxies", "proxies_differ"};
inline constexpr FindingKind kProxyVersionsDiffer{
    "proxy-versions-differ", kWarning, "operations.md#several-proxies", "proxies_differ"};
inline constexpr FindingKind kProxySilent{"proxy-silent", kNote};
inline constexpr FindingKind kProxyGone{"proxy-gone", kError};

/// A part of the examination took too long.
inline constexpr FindingKind kNoAnswerInTime{"no-answer-in-time", kError};

}  // namespace finding

// What is found in several modules. Each is made in one place, as a test holds.

[[nodiscard]] Finding server_unreachable(const std::string& server, std::string_view reason);
/// "is a member of the replica set rs0, but upstream.uri has replicaSet=rs1: write replicaSet=rs0"
[[nodiscard]] std::string fault_of_set(const std::string& found, const std::string& expected,
                                       const std::string& uri_key);
/// `fault`: as fault_of_set(), with a subject.
[[nodiscard]] Finding set_name_differs(const std::string& server, const std::string& fault);
/// `why`: "is not found: …"; empty: it just does not answer.
[[nodiscard]] Finding store_down(const std::string& why);

/// "shop.orders, number"
[[nodiscard]] inline std::string rule_subject(const std::string& ns, const std::string& field) {
  return ns + ", " + field;
}

}  // namespace idproxy
