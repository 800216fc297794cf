#pragma once

#include "idproxy/app/command_line.hpp"

/// What runs over a rule's collection, beside the proxies.
namespace idproxy::app::jobs {

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
