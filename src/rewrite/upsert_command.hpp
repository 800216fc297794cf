#pragma once

#include <vector>

#include "idproxy/rewrite/insert.hpp"
#include "idproxy/rewrite/write.hpp"

/// Puts generated values into the statements of an update, findAndModify or bulkWrite, as a Plan
/// says.
namespace idproxy::rewrite {

/// As InsertRewriter::scan(), of a command that is no insert. Keeps what it has read of each
/// statement in `given`, from which the other functions have it. Counts those upserts that get no
/// value of a rule by their reason. `documents`: for those that a bulkWrite inserts.
[[nodiscard]] ScanResult scan_updates(const WriteRequest& write, GivenValues& given,
                                      InsertRewriter& documents);
/// Adds to the counts, which are sorted by assignment: a bulkWrite may have thousands.
void count(const Forwarded& statement, std::vector<Forwarded>& forwarded);
void count(const TakenAway& updates, std::vector<TakenAway>& taken);
/// True if the only statement of the command can be sent without upsert first, since there will be
/// a reply to decide by. A bulkWrite counts as one of several.
[[nodiscard]] bool goes_alone(const WriteRequest& write);
/// True if the reply to such an update says that it has found no document.
[[nodiscard]] bool found_nothing(Bytes reply);

}  // namespace idproxy::rewrite
