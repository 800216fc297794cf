#pragma once

#include <string>

/// What `mongo-idproxy doctor` can find.
namespace idproxy::app::state {

/// A kind of findings.
struct Diagnosis {
  enum class Level {
    error,    ///< clients notice it, or will with the next start
    warning,  ///< something may go wrong
    note,     ///< good to know; nothing has to be done
  };
  const char* id;  ///< never changes; an anchor of docs/troubleshooting.md
  Level level;
};

/// All of them. A test holds that each is explained, and found where its cause is.
namespace diagnosis {

inline constexpr auto kError = Diagnosis::Level::error;
inline constexpr auto kWarning = Diagnosis::Level::warning;
inline constexpr auto kNote = Diagnosis::Level::note;

// The configuration and its files.
inline constexpr Diagnosis kConfigError{"config-error", kError};
inline constexpr Diagnosis kConfigWarning{"config-warning", kWarning};
inline constexpr Diagnosis kVariableUndefined{"variable-undefined", kError};
inline constexpr Diagnosis kSecretFileOpen{"secret-file-open", kError};
inline constexpr Diagnosis kPasswordInFile{"password-in-file", kWarning};
inline constexpr Diagnosis kCertificateUnusable{"certificate-unusable", kError};
inline constexpr Diagnosis kCertificateExpired{"certificate-expired", kError};
inline constexpr Diagnosis kCertificateExpires{"certificate-expires", kWarning};
inline constexpr Diagnosis kCertificateNotYetValid{"certificate-not-yet-valid", kError};

// This host.
inline constexpr Diagnosis kPortInUse{"port-in-use", kError};
inline constexpr Diagnosis kAddressUnavailable{"address-unavailable", kError};
inline constexpr Diagnosis kDescriptorsTooFew{"descriptors-too-few", kWarning};
inline constexpr Diagnosis kDescriptorsOfShell{"descriptors-of-shell", kNote};

// The servers.
inline constexpr Diagnosis kServerUnreachable{"server-unreachable", kError};
inline constexpr Diagnosis kServerSilent{"server-silent", kError};
inline constexpr Diagnosis kServerNameUnknown{"server-name-unknown", kError};
inline constexpr Diagnosis kServerTlsFails{"server-tls-fails", kError};
inline constexpr Diagnosis kServerTooOld{"server-too-old", kError};
inline constexpr Diagnosis kServerLacks{"server-lacks", kNote};
inline constexpr Diagnosis kServerReleasesDiffer{"server-releases-differ", kNote};
inline constexpr Diagnosis kFcvBehind{"fcv-behind", kNote};
inline constexpr Diagnosis kSetNameDiffers{"set-name-differs", kError};
inline constexpr Diagnosis kSetNotInitiated{"set-not-initiated", kError};
inline constexpr Diagnosis kPrimaryMissing{"primary-missing", kError};
inline constexpr Diagnosis kMemberNotReady{"member-not-ready", kWarning};
inline constexpr Diagnosis kMemberUnlisted{"member-unlisted", kNote};
inline constexpr Diagnosis kStandaloneServer{"standalone-server", kNote};
inline constexpr Diagnosis kClockSkew{"clock-skew", kWarning};
inline constexpr Diagnosis kStoreElsewhere{"store-elsewhere", kError};

// The user of the id store.
inline constexpr Diagnosis kLoginRefused{"login-refused", kError};
inline constexpr Diagnosis kLoginMissing{"login-missing", kError};
inline constexpr Diagnosis kRoleMissing{"role-missing", kWarning};

// Rules and counters.
inline constexpr Diagnosis kRuleNotReady{"rule-not-ready", kError};
inline constexpr Diagnosis kIndexMissing{"index-missing", kWarning};
inline constexpr Diagnosis kDuplicatesStored{"duplicates-stored", kWarning};
inline constexpr Diagnosis kCounterBehind{"counter-behind", kWarning};
inline constexpr Diagnosis kNumbersRunOut{"numbers-run-out", kWarning};

// The running proxy, and the others of its id store.
inline constexpr Diagnosis kProxyUnknown{"proxy-unknown", kError};
inline constexpr Diagnosis kProxyReadsOtherFile{"proxy-reads-other-file", kWarning};
inline constexpr Diagnosis kConfigNotLoaded{"config-not-loaded", kWarning};
inline constexpr Diagnosis kFileNotLoaded{"file-not-loaded", kError};
inline constexpr Diagnosis kProxyNotReady{"proxy-not-ready", kError};
inline constexpr Diagnosis kProxyError{"proxy-error", kError};
inline constexpr Diagnosis kProxyWarning{"proxy-warning", kWarning};
inline constexpr Diagnosis kUpsertBypassesRule{"upsert-bypasses-rule", kWarning};
inline constexpr Diagnosis kWriteBypassesRule{"write-bypasses-rule", kWarning};
inline constexpr Diagnosis kDriverSendsId{"driver-sends-id", kWarning};
inline constexpr Diagnosis kProxiesDisagree{"proxies-disagree", kWarning};
inline constexpr Diagnosis kProxyVersionsDiffer{"proxy-versions-differ", kWarning};
inline constexpr Diagnosis kProxySilent{"proxy-silent", kNote};
inline constexpr Diagnosis kProxyGone{"proxy-gone", kError};

/// A part of the examination took too long.
inline constexpr Diagnosis kNoAnswerInTime{"no-answer-in-time", kError};

}  // namespace diagnosis

/// "shop.orders, number"
[[nodiscard]] inline std::string rule_subject(const std::string& ns, const std::string& field) {
  return ns + ", " + field;
}

}  // namespace idproxy::app::state
