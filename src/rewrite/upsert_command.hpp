#pragma once

#include <cstddef>
#include <span>

#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/patched_message.hpp"
#include "rewrite/upsert_edit.hpp"
#include "rewrite/upsert_statement.hpp"

/// Puts generated values into the upserts of an update or findAndModify, as a Plan says.
namespace idproxy::rewrite {

/// As InsertRewriter::scan(). Keeps what it has read of each statement in `given`, from which the
/// other functions have it. Counts those upserts that get no value of a rule by their reason.
[[nodiscard]] ScanResult scan_upserts(const WriteRequest& write, GivenValues& given);
/// Scans one statement of a command, of which `all` has the rules of `ns`: notes in `given` which
/// values it gets and keeps, and counts it in `result` if it is an upsert that does not get one, or
/// takes one away. `is_alone`: as for judge_keep(). Returns false if mongod will refuse the
/// command.
[[nodiscard]] bool scan_upsert(const UpsertStatement& statement, std::int32_t index, bool is_alone,
                               const BulkNamespace& ns, const Plan& all, GivenValues& given,
                               ScanResult& result);
/// Adds to the counts, which are sorted by assignment: a bulkWrite may have thousands.
void count(const Forwarded& statement, std::vector<Forwarded>& forwarded);
void count(const TakenAway& updates, std::vector<TakenAway>& taken);
/// True if the only statement of the command can be sent without upsert first, since there will be
/// a reply to decide by. A bulkWrite counts as one of several.
[[nodiscard]] bool goes_alone(const WriteRequest& write);
/// True if the reply to it says that it has found no document.
[[nodiscard]] bool says_nothing_found(Bytes reply, WriteKind kind);
/// True if the command fails because a rule refuses upserts that get no value: `result` says so.
[[nodiscard]] bool fails_for_upserts(ScanResult& result);
/// Writes the whole message with these values; As::update: without upsert, of a command with one
/// statement.
void emit_upserts(const WriteRequest& write, const GivenValues& given, UpsertEdit::As as,
                  wire::PatchedMessage& out);

/// Writes a command with the statements of `part`: of an update, as InsertRewriter::emit_part()
/// does. A findAndModify has only one statement, which the server knows by the txnNumber alone.
[[nodiscard]] std::size_t emit_part_of_upserts(const WriteRequest& write, const GivenValues& given,
                                               const WritePart& part, wire::PatchedMessage& out,
                                               UpsertEdit::As as = UpsertEdit::As::upsert);
/// True if no statement can make mongod refuse the whole command instead of only that statement.
[[nodiscard]] bool separable_updates(const WriteCommand& command);
/// The same of one statement, whose fields may have these names; it must have the first `needed`.
[[nodiscard]] bool separable_statement(Bytes statement, std::span<const std::string_view> known,
                                       std::size_t needed);

}  // namespace idproxy::rewrite
