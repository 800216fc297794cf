#include <algorithm>
#include <utility>

#include "idproxy/rewrite/document_fields.hpp"
#include "rewrite/batch_write.hpp"

namespace idproxy::rewrite {
namespace {

/// Its statements are its documents.
class InsertWrite final : public BatchWrite {
 public:
  using BatchWrite::BatchWrite;

  [[nodiscard]] std::size_t fitting(const GivenValues& given,
                                    std::span<const std::int32_t> statements) const override {
    return InsertRewriter::fitting(write(), given, statements);
  }
  [[nodiscard]] std::vector<ids::TypedValue> ids(const Plan& plan,
                                                 const GivenValues& given) const override;
  [[nodiscard]] bool emit(const GivenValues& given, const WritePart& part, Workspace& workspace,
                          wire::PatchedMessage& out) const override;
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool replaces_errors(const WriteReply& reply,
                                     std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool inserted(std::int32_t /*statement*/) const override { return true; }
};

std::vector<ids::TypedValue> InsertWrite::ids(const Plan& plan, const GivenValues& given) const {
  std::vector<ids::TypedValue> ids;
  BatchStatements documents(write().command);
  while (const auto document = documents.next()) {
    const auto id = field_at(*document, "_id");
    const bool has_one = id && id->is == ids::FieldValue::Is::there;
    ids.push_back(has_one ? typed(id->element.type, id->element.value) : ids::TypedValue{});
  }
  for (const Given& each : given.given) {
    if (!plan[each.assignment].is_id()) continue;
    const ids::Values& values = given.values[each.assignment];
    ids[static_cast<std::size_t>(each.statement)] = typed(values.type(), values[each.value]);
  }
  return ids;
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
    return refuses_id(error.code) &&
           std::ranges::binary_search(refused(), sent[static_cast<std::size_t>(error.index)], {},
                                      &RefusedDocument::index);
  });
}

}  // namespace

bool separable_inserts(const BatchCommand& command) {
  constexpr std::size_t kLevels = 100;  // mongod accepts somewhat more
  BatchStatements documents(command);
  while (const auto document = documents.next()) {
    if (static_cast<std::int64_t>(document->size()) > bson::kMaxInternalDocument) return false;
    if (!bson::well_formed(*document, kLevels)) return false;
  }
  return !documents.malformed() && documents.plain_keys();
}

std::unique_ptr<WriteCommand> insert_command(const WriteRequest& write,
                                             std::vector<RefusedDocument> refused) {
  return std::make_unique<InsertWrite>(write, std::move(refused));
}

}  // namespace idproxy::rewrite
