#include "insert_write.hpp"

#include <algorithm>

namespace idproxy::rewrite {

InsertWrite::InsertWrite(Buffer original, InsertRequest insert,
                         std::vector<RefusedDocument> refused)
    : WriteCommand(std::move(original), insert.message),
      insert_(std::move(insert)),
      refused_(std::move(refused)),
      ns_(std::string(insert_.command.db) + "." + std::string(insert_.command.collection)) {}

bool InsertWrite::separable(const InsertCommand& command) {
  constexpr std::size_t kLevels = 100;  // mongod accepts somewhat more
  InsertDocuments documents(command);
  while (const auto document = documents.next()) {
    if (static_cast<std::int64_t>(document->size()) > bson::kMaxInternalDocument) return false;
    if (!bson::well_formed(*document, kLevels)) return false;
  }
  return !documents.malformed() && documents.plain_keys();
}

std::size_t InsertWrite::fitting(const GivenValues& given,
                                 std::span<const std::int32_t> statements) const {
  return InsertRewriter::fitting(insert_, given, statements);
}

bool InsertWrite::emit(const GivenValues& given, const WritePart& part, Workspace& workspace,
                       wire::PatchedMessage& out) const {
  return workspace.insert.emit_part(insert_, given, part, out);
}

std::optional<WriteReply> InsertWrite::read(Bytes body, std::size_t sent) const {
  return WriteReply::read(body, sent);
}

bool InsertWrite::adds_up(const WriteReply& reply, const WriteOptions& options,
                          std::size_t sent) const {
  const auto all = static_cast<std::int64_t>(sent);
  const auto failed = static_cast<std::int64_t>(reply.errors.size());
  if (!reply.n) return false;
  // A write with {w: 0} that nevertheless asks for a reply gets {n: 0, ok: 1} (observed, 6.0.5).
  if (!options.acknowledged) return reply.errors.empty() && *reply.n == 0;
  // A transaction stops at the first error, even if the insert is unordered (observed, 6.0.5).
  const bool stops = options.ordered || options.in_transaction;
  if (!stops) return *reply.n + failed == all;
  return failed == 0 ? *reply.n == all : failed == 1 && *reply.n == reply.errors.front().index;
}

bool InsertWrite::replaces_errors(const WriteReply& reply,
                                  std::span<const std::int32_t> sent) const {
  return std::ranges::any_of(reply.errors, [&](const WriteError& error) {
    return error.code == kInvalidIdField &&
           std::ranges::binary_search(refused_, sent[static_cast<std::size_t>(error.index)], {},
                                      &RefusedDocument::index);
  });
}

void InsertWrite::add(const wire::OpMsgView& message, const WriteReply& reply,
                      std::span<const std::int32_t> sent) {
  merge_.add(message, reply, sent);
}

void InsertWrite::append_reply(std::span<const Assigned> assigned, Buffer& out) const {
  merge_.append(message().header().request_id, refused_, assigned, out);
}

}  // namespace idproxy::rewrite
