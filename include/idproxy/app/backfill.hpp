#pragma once

#include "idproxy/app/backfill_request.hpp"
#include "idproxy/app/exit_code.hpp"

namespace idproxy::app {

/// Gives the collection's documents without the field their values, through the rule's own
/// strategy, and prints a report. SIGINT and SIGTERM end it behind the batch under way, a second
/// one at once. Returns `ok` if no document is left, `left` if some are, `unavailable` if it could
/// not begin, and `usage` if no rule suits the request. Prints to standard output and, progress
/// and errors, to standard error.
[[nodiscard]] ExitCode backfill(const BackfillRequest& request);

}  // namespace idproxy::app
