#include <algorithm>
#include <utility>
#include <vector>

#include "idproxy/rewrite/document_fields.hpp"
#include "rewrite/upsert_statement.hpp"
#include "rewrite/upserts.hpp"
#include "rewrite/write_command.hpp"

namespace idproxy::rewrite {
namespace {

/// A write command with an array of statements: insert or update.
class BatchWrite : public WriteCommand {
 public:
  /// `refused`: documents that were replaced by refused_document(); they ascend by index.
  BatchWrite(const WriteRequest& write, std::vector<RefusedDocument> refused)
      : WriteCommand(write), refused_(std::move(refused)) {}

  [[nodiscard]] std::optional<WriteReply> read(Bytes body, std::size_t sent) const override {
    return WriteReply::read(body, sent);
  }
  void add_stored(std::int64_t count) override { merge_.add_stored(count); }
  void add(const wire::OpMsgView& message, const WriteReply& reply,
           std::span<const std::int32_t> sent) override {
    merge_.add(message, reply, sent);
  }
  [[nodiscard]] const std::map<std::int32_t, Buffer>& errors() const override {
    return merge_.errors();
  }
  void refuse(RefusedDocument&& document) override {
    const auto at = std::ranges::lower_bound(refused_, document.index, {}, &RefusedDocument::index);
    refused_.insert(at, std::move(document));
  }
  [[nodiscard]] bool retried(std::int32_t number) const override { return merge_.retried(number); }
  [[nodiscard]] bool has_reply() const override { return !merge_.empty(); }
  void append_reply(std::span<const Assigned> assigned, Buffer& out) const override {
    merge_.append(message().header().request_id, refused_, assigned, out);
  }

 protected:
  [[nodiscard]] const std::vector<RefusedDocument>& refused() const { return refused_; }
  [[nodiscard]] const ReplyMerge& merged() const { return merge_; }

 private:
  std::vector<RefusedDocument> refused_;
  ReplyMerge merge_;
};

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

namespace {

/// An update with upserts.
class UpdateWrite final : public BatchWrite {
 public:
  explicit UpdateWrite(const WriteRequest& update);

  [[nodiscard]] std::size_t fitting(const GivenValues& given,
                                    std::span<const std::int32_t> statements) const override {
    return fitting_upserts(write(), given, statements);
  }
  [[nodiscard]] bool emit(const GivenValues& given, const WritePart& part, Workspace& /*workspace*/,
                          wire::PatchedMessage& out) const override {
    return emit_part_of_upserts(write(), given, part, out);
  }
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool replaces_errors(const WriteReply& /*reply*/,
                                     std::span<const std::int32_t> /*sent*/) const override {
    return false;
  }
  [[nodiscard]] bool inserted(std::int32_t statement) const override {
    return merged().upserted(statement);
  }

 private:
  std::vector<bool> upserts_;  // by statement
  std::vector<bool> multi_;    // by statement
};

UpdateWrite::UpdateWrite(const WriteRequest& update) : BatchWrite(update, {}) {
  BatchStatements statements(write().command);
  while (const auto statement = statements.next()) {
    const auto found = UpsertStatement::read(*statement, WriteKind::update);
    upserts_.push_back(found && found->kind == UpsertStatement::Kind::upsert);
    multi_.push_back(found && found->multi);
  }
}

/// A statement counts once in `n` if it found a document or, as an upsert, inserted one; with
/// multi: true, once for each document that it found.
bool UpdateWrite::adds_up(const WriteReply& reply, const WriteOptions& options,
                          std::span<const std::int32_t> sent) const {
  if (!reply.n) return false;
  if (!options.acknowledged) {
    return reply.errors.empty() && reply.upserted.empty() && *reply.n == 0;
  }
  const bool stops = options.stops();
  if (stops && reply.errors.size() > 1) return false;
  const bool stopped = stops && !reply.errors.empty();
  const auto end = stopped ? static_cast<std::size_t>(reply.errors.front().index) : sent.size();
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool multi = false;
  auto error = reply.errors.begin();
  auto upserted = reply.upserted.begin();
  for (std::size_t i = 0; i < end; ++i) {
    const bool inserted =
        upserted != reply.upserted.end() && static_cast<std::size_t>(*upserted) == i;
    const bool failed = error != reply.errors.end() && static_cast<std::size_t>(error->index) == i;
    if (inserted) ++upserted;
    if (failed) ++error;
    const auto statement = static_cast<std::size_t>(sent[i]);
    if (inserted && (failed || !upserts_[statement])) return false;
    if (failed) continue;
    least += upserts_[statement] ? 1 : 0;
    ++most;
    multi = multi || multi_[statement];
  }
  return upserted == reply.upserted.end() && *reply.n >= least && (multi || *reply.n <= most);
}

}  // namespace

std::unique_ptr<WriteCommand> update_command(const WriteRequest& write) {
  return std::make_unique<UpdateWrite>(write);
}

}  // namespace idproxy::rewrite
