#pragma once

#include <cstdint>
#include <string>

#include "idproxy/app/command_line.hpp"

/// What runs over a rule's collection, beside the proxies.
namespace idproxy::app::jobs {

/// The rule that a command is for.
struct RuleOptions {
  std::string file{};   ///< the configuration
  std::string ns{};     ///< "db.collection"
  std::string field{};  ///< which a rule fills; dotted path
};

/// A backfill as the command line asks for it.
struct BackfillRequest : RuleOptions {
  std::string sort = "_id";   ///< documents get values in its order; "-created": descending
  std::string period_from{};  ///< the field whose date says a document's period; empty: not given
  std::uint32_t rate = 0;     ///< documents per second at most; 0: no limit
  enum class Mode { write, dry_run } mode = Mode::write;
};

/// A proof of what a collection has in the field of a rule.
struct VerifyRequest : RuleOptions {
  std::string scope{};  ///< JSON: only the documents of this scope; empty: all
  std::string allow{};  ///< a regular expression: values that no rule has made; empty: none
  bool as_json = false;
};

/// Gives the collection's documents without the field their values, through the rule's own
/// strategy, and prints a report. SIGINT and SIGTERM end it behind the batch under way, a second
/// one at once. Returns `ok` if no document is left, `left` if some are, `unavailable` if it could
/// not begin, and `usage` if no rule suits the request. Prints to standard output and, progress
/// and errors, to standard error.
[[nodiscard]] ExitCode backfill(const BackfillRequest& request);

/// Reads what the collection's documents have in the field, compares it with what the rule gives,
/// and prints a report; changes nothing. SIGINT and SIGTERM end it with a report of what was read.
/// Returns `ok` if nothing is wrong, `findings` if something is or not all was read, `unavailable`
/// if it could not begin, and `usage` if no rule suits the request. Prints to standard output and,
/// progress and errors, to standard error.
[[nodiscard]] ExitCode verify(const VerifyRequest& request);

}  // namespace idproxy::app::jobs
