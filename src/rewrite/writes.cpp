#include "rewrite/writes.hpp"

#include <utility>

#include "rewrite/find_and_modify_write.hpp"
#include "rewrite/insert_write.hpp"
#include "rewrite/update_write.hpp"
#include "rewrite/upserts.hpp"

namespace idproxy::rewrite {

ScanResult scan(const WriteRequest& write, Workspace& workspace, GivenValues& given) {
  if (write.command.kind == WriteKind::insert) return workspace.insert.scan(write, given);
  return scan_upserts(write, given);
}

void emit(const WriteRequest& write, const GivenValues& given, Workspace& workspace,
          wire::PatchedMessage& out) {
  if (write.command.kind == WriteKind::insert) return workspace.insert.emit(write, given, out);
  emit_upserts(write, given, out);
}

bool emit_with(Bytes fields, const WriteRequest& write, const GivenValues& given,
               Workspace& workspace, wire::PatchedMessage& out) {
  std::vector<std::int32_t> all;
  BatchStatements statements(write.command);
  while (statements.next()) all.push_back(static_cast<std::int32_t>(all.size()));
  if (statements.malformed() || !statements.plain_keys()) return false;
  const std::int32_t request_id = write.message.header().request_id;
  const WritePart whole{all, nullptr, true, std::nullopt, request_id, fields};
  return write.command.kind == WriteKind::insert
             ? workspace.insert.emit_part(write, given, whole, out)
             : emit_part_of_upserts(write, given, whole, out);
}

bool separable(const WriteRequest& write) {
  switch (write.command.kind) {
    case WriteKind::insert:
      return InsertWrite::separable(write.command);
    case WriteKind::update:
      return separable_updates(write.command);
    case WriteKind::find_and_modify:
      break;
  }
  return false;  // it has only one statement
}

std::unique_ptr<WriteCommand> make_command(Buffer original, WriteRequest write,
                                           std::vector<RefusedDocument> refused) {
  switch (write.command.kind) {
    case WriteKind::insert:
      return std::make_unique<InsertWrite>(std::move(original), std::move(write),
                                           std::move(refused));
    case WriteKind::update:
      return std::make_unique<UpdateWrite>(std::move(original), std::move(write));
    case WriteKind::find_and_modify:
      break;
  }
  return std::make_unique<FindAndModifyWrite>(std::move(original), std::move(write));
}

}  // namespace idproxy::rewrite
