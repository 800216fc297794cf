#include "insert_write.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::rewrite {

InsertWrite::InsertWrite(Buffer original, WriteRequest insert, std::vector<RefusedDocument> refused)
    : BatchWrite(std::move(original), std::move(insert), std::move(refused)) {}

bool InsertWrite::separable(const BatchCommand& command) {
  constexpr std::size_t kLevels = 100;  // mongod accepts somewhat more
  BatchStatements documents(command);
  while (const auto document = documents.next()) {
    if (static_cast<std::int64_t>(document->size()) > bson::kMaxInternalDocument) return false;
    if (!bson::well_formed(*document, kLevels)) return false;
  }
  return !documents.malformed() && documents.plain_keys();
}

std::size_t InsertWrite::fitting(const GivenValues& given,
                                 std::span<const std::int32_t> statements) const {
  return InsertRewriter::fitting(write(), given, statements);
}

bool InsertWrite::emit(const GivenValues& given, const WritePart& part, Workspace& workspace,
                       wire::PatchedMessage& out) const {
  WritePart all = part;
  all.refused = refused();
  return workspace.insert.emit_part(write(), given, all, out);
}

bool InsertWrite::adds_up(const WriteReply& reply, const WriteOptions& options,
                          std::span<const std::int32_t> sent) const {
  const auto all = static_cast<std::int64_t>(sent.size());
  const auto failed = static_cast<std::int64_t>(reply.errors.size());
  if (!reply.n) return false;
  // A write with {w: 0} that nevertheless asks for a reply gets {n: 0, ok: 1} (observed, 6.0.5).
  if (!options.acknowledged) return reply.errors.empty() && *reply.n == 0;
  // A transaction stops at the first error, even if the insert is unordered (observed, 6.0.5).
  if (!options.stops()) return *reply.n + failed == all;
  return failed == 0 ? *reply.n == all : failed == 1 && *reply.n == reply.errors.front().index;
}

bool InsertWrite::replaces_errors(const WriteReply& reply,
                                  std::span<const std::int32_t> sent) const {
  return std::ranges::any_of(reply.errors, [&](const WriteError& error) {
    return error.code == kInvalidIdField &&
           std::ranges::binary_search(refused(), sent[static_cast<std::size_t>(error.index)], {},
                                      &RefusedDocument::index);
  });
}

}  // namespace idproxy::rewrite
