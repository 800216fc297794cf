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
// nothing of a document; names as in the server's error_codes.yml.
constexpr auto kOfTheCommand = std::to_array<std::int32_t>({
    6,      // HostUnreachable
    7,      // HostNotFound
    18,     // AuthenticationFailed
    20,     // IllegalOperation
    26,     // NamespaceNotFound
    50,     // MaxTimeMSExpired
    59,     // CommandNotFound
    64,     // WriteConcernFailed
    67,     // CannotCreateIndex
    72,     // InvalidOptions
    79,     // UnknownReplWriteConcern
    89,     // NetworkTimeout
    91,     // ShutdownInProgress
    100,    // UnsatisfiableWriteConcern
    115,    // CommandNotSupported
    123,    // NotAReplicaSet
    133,    // FailedToSatisfyReadPreference
    134,    // ReadConcernMajorityNotAvailableYet
    148,    // ReadConcernMajorityNotEnabled
    166,    // CommandNotSupportedOnView
    168,    // InvalidPipelineOperator
    189,    // PrimarySteppedDown
    215,    // DatabaseDropPending
    238,    // NotImplemented
    262,    // ExceededTimeLimit
    303,    // FeatureNotSupported
    322,    // APIVersionError
    323,    // APIStrictError
    352,    // UnsupportedOpQueryCommand
    9001,   // SocketException
    10058,  // LegacyNotPrimary
    10107,  // NotWritablePrimary
    11600,  // InterruptedAtShutdown
    11602,  // InterruptedDueToReplStateChange
    13435,  // NotPrimaryNoSecondaryOk
    13436,  // NotPrimaryOrSecondary
    40324,  // an unrecognised pipeline stage
    40414,  // a missing field of the command
    40415,  // an unknown field of the command
});

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
