#pragma once

#include <memory>
#include <vector>

#include "rewrite/write_command.hpp"

/// The steps of an exchange with a client's write command, for each WriteKind.
namespace idproxy::rewrite {

/// Records in `given`, which must be empty, which statements get values, and how many each
/// assignment needs.
[[nodiscard]] ScanResult scan(const WriteRequest& write, Workspace& workspace, GivenValues& given);
/// Writes the whole message with these values. Must follow scan() for the same request.
void emit(const WriteRequest& write, const GivenValues& given, Workspace& workspace,
          wire::PatchedMessage& out);
/// The same with further fields in the body: `fields`, a document. Statements of an array in the
/// body move to a sequence. False if mongod itself must see the array, because of its keys.
[[nodiscard]] bool emit_with(Bytes fields, const WriteRequest& write, const GivenValues& given,
                             Workspace& workspace, wire::PatchedMessage& out);
/// True if the statements may go in several commands: no statement can make mongod refuse a whole
/// command.
[[nodiscard]] bool separable(const WriteRequest& write);
/// `write` borrows `original`. `refused` as in ScanResult.
[[nodiscard]] std::unique_ptr<WriteCommand> make_command(Buffer original, WriteRequest write,
                                                         std::vector<RefusedDocument> refused);

}  // namespace idproxy::rewrite
