#include "rewrite/write_command.hpp"

#include <utility>

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
      return separable_inserts(write.command);
    case WriteKind::update:
      return separable_updates(write.command);
    case WriteKind::find_and_modify:
      break;
  }
  return false;  // it has only one statement
}

std::unique_ptr<WriteCommand> make_command(const WriteRequest& write,
                                           std::vector<RefusedDocument> refused) {
  switch (write.command.kind) {
    case WriteKind::insert:
      return insert_command(write, std::move(refused));
    case WriteKind::update:
      return update_command(write);
    case WriteKind::find_and_modify:
      break;
  }
  return find_and_modify_command(write);
}

}  // namespace idproxy::rewrite
