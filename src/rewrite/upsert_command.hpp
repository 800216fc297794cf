#pragma once

#include <cstddef>
#include <span>

#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/patched_message.hpp"

/// Puts generated values into the upserts of an update or findAndModify, as a Plan says.
namespace idproxy::rewrite {

/// As InsertRewriter::scan(). Keeps what it has read of each statement in `given`, from which the
/// other functions have it. Counts those upserts that get no value of a rule by their reason.
[[nodiscard]] ScanResult scan_upserts(const WriteRequest& write, GivenValues& given);
/// Writes the whole message with these values.
void emit_upserts(const WriteRequest& write, const GivenValues& given, wire::PatchedMessage& out);

/// How many of these statements of an update, from the first on, fit into one message of at most
/// kMaxMessageSize; at least one.
[[nodiscard]] std::size_t fitting_upserts(const WriteRequest& write, const GivenValues& given,
                                          std::span<const std::int32_t> statements);
/// Writes a command with the statements of `part`: of an update, as InsertRewriter::emit_part()
/// does. A findAndModify has only one statement, which the server knows by the txnNumber alone.
void emit_part_of_upserts(const WriteRequest& write, const GivenValues& given,
                          const WritePart& part, wire::PatchedMessage& out);
/// True if no statement can make mongod refuse the whole command instead of only that statement.
[[nodiscard]] bool separable_updates(const WriteCommand& command);

}  // namespace idproxy::rewrite
