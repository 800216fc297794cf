#include "id_store/server_text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "id_store/counter_commands.hpp"
#include "idproxy/base/printable.hpp"

namespace idproxy::id_store {
namespace {

constexpr std::size_t kLongestText = 300;
constexpr std::string_view kCut = "…";

// Sorted. Codes whose texts name commands, their options, collections, users or servers, and
// nothing of a document; names as in the server's error_codes.yml: HostUnreachable, HostNotFound,
// AuthenticationFailed, IllegalOperation, NamespaceNotFound, MaxTimeMSExpired, CommandNotFound,
// WriteConcernFailed, CannotCreateIndex, InvalidOptions, UnknownReplWriteConcern, NetworkTimeout,
// ShutdownInProgress, UnsatisfiableWriteConcern, CommandNotSupported, NotAReplicaSet,
// FailedToSatisfyReadPreference, ReadConcernMajorityNotAvailableYet, ReadConcernMajorityNotEnabled,
// CommandNotSupportedOnView, InvalidPipelineOperator, PrimarySteppedDown, DatabaseDropPending,
// NotImplemented, ExceededTimeLimit, FeatureNotSupported, APIVersionError, APIStrictError,
// UnsupportedOpQueryCommand, SocketException, LegacyNotPrimary, NotWritablePrimary,
// InterruptedAtShutdown, InterruptedDueToReplStateChange, NotPrimaryNoSecondaryOk,
// NotPrimaryOrSecondary, an unrecognised pipeline stage, a missing field of the command, an unknown
// field of the command.
constexpr auto kOfTheCommand = std::to_array<std::int32_t>(
    {6,   7,   18,  20,   26,    50,    59,    64,    67,    72,    79,    89,    91,
     100, 115, 123, 133,  134,   148,   166,   168,   189,   215,   238,   262,   303,
     322, 323, 352, 9001, 10058, 10107, 11600, 11602, 13435, 13436, 40324, 40414, 40415});

/// The text up to `what`, if it has that.
std::string_view up_to(std::string_view text, std::string_view what) {
  return text.substr(0, text.find(what));
}

/// Returns the beginning of the text that certainly shows no value. That of 13 Unauthorized goes on
/// with the whole command.
std::string_view safe_part(std::int32_t code, std::string_view text) {
  if (code == mongo::kDuplicateKey) return up_to(up_to(text, " dup key"), " collation:");
  if (code == mongo::kUnauthorized) return up_to(text, " to execute command");
  if (std::ranges::binary_search(kOfTheCommand, code)) return text;
  return text.substr(0, text.find_first_of("\"'`{}[]()<>0123456789"));
}

}  // namespace

std::string server_text(std::int32_t code, std::string_view message) {
  std::string_view safe = safe_part(code, message);
  const bool is_cut = safe.size() < message.size();
  while (safe.ends_with(' ')) safe.remove_suffix(1);
  std::string text = printable(safe, kLongestText);
  if (is_cut && !text.empty() && !text.ends_with(kCut)) text.append(" ").append(kCut);
  return text;
}

std::string error_text(const mongo::Reply& reply) {
  const std::string text = server_text(reply.code, reply.message);
  return "error " + code_name(reply) + (text.empty() ? "" : ": " + text);
}

}  // namespace idproxy::id_store
