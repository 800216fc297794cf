#include "rewrite/batch_kind.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "rewrite/bulk_write.hpp"
#include "rewrite/own_message.hpp"
#include "rewrite/upsert_command.hpp"

namespace idproxy::rewrite {

bool emit_naming(std::span<const NamedCollection> named, const WriteRequest& write,
                 const GivenValues& given, Workspace& workspace, wire::PatchedMessage& out) {
  const auto all = write.command.movable();
  if (!all) return false;
  const std::int32_t request_id = write.message.header().request_id;
  const WritePart whole{*all, nullptr, true, std::nullopt, request_id, {}, named};
  if (write.command.kind == WriteKind::insert) {
    return workspace.insert.emit_part(write, given, whole, out).has_value();
  }
  if (write.command.kind == WriteKind::bulk_write) {
    return emit_part_of_bulk(write, given, whole, workspace.insert, out).has_value();
  }
  return emit_part_of_upserts(write, given, whole, out) > 0;
}

namespace {

bool separable_inserts(const WriteCommand& command) {
  constexpr std::size_t kLevels = 100;  // mongod accepts somewhat more
  Statements documents(command);
  while (const auto document = documents.next()) {
    if (static_cast<std::int64_t>(document->size()) > bson::kMaxInternalDocument) return false;
    if (!bson::well_formed(*document, kLevels)) return false;
  }
  return !documents.malformed() && documents.plain_keys();
}

}  // namespace

bool separable(const WriteRequest& write) {
  switch (write.command.kind) {
    case WriteKind::insert:
      return separable_inserts(write.command);
    case WriteKind::update:
      return separable_updates(write.command);
    case WriteKind::bulk_write:
      return separable_bulk(write);
    case WriteKind::find_and_modify:
      break;
  }
  return false;  // it has only one statement
}

namespace {

/// A write command with an array of statements: insert or update.
class BatchWrite : public BatchKind {
 public:
  /// `refused`: documents that were replaced by refused_document(); they ascend by index.
  BatchWrite(const WriteRequest& write, const GivenValues& given,
             std::vector<RefusedDocument> refused)
      : BatchKind(write, given), refused_(std::move(refused)), merge_(write.all_results) {}

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
  /// True if the reply has an error that the merged one would have otherwise.
  [[nodiscard]] bool has_refused(const WriteReply& reply, std::span<const std::int32_t> sent) const;

 private:
  std::vector<RefusedDocument> refused_;
  ReplyMerge merge_;
};

bool BatchWrite::has_refused(const WriteReply& reply, std::span<const std::int32_t> sent) const {
  return std::ranges::any_of(reply.errors, [&](const WriteError& error) {
    return refuses_id(error.code) &&
           std::ranges::binary_search(refused_, sent[static_cast<std::size_t>(error.index)], {},
                                      &RefusedDocument::index);
  });
}

/// Its statements are its documents.
class InsertWrite final : public BatchWrite {
 public:
  using BatchWrite::BatchWrite;

  [[nodiscard]] std::vector<ids::TypedValue> ids() const override;
  [[nodiscard]] std::optional<std::size_t> emit(const WritePart& part, Workspace& workspace,
                                                wire::PatchedMessage& out) const override;
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool replaces_errors(const WriteReply& reply,
                                     std::span<const std::int32_t> sent) const override {
    return has_refused(reply, sent);
  }
  [[nodiscard]] bool inserted(std::int32_t /*statement*/) const override { return true; }
};

std::vector<ids::TypedValue> InsertWrite::ids() const {
  std::vector<ids::TypedValue> ids;
  Statements documents(write().command);
  while (const auto document = documents.next()) {
    const auto id = field_at(*document, "_id");
    const bool has_one = id && id->is == ids::FieldValue::Is::there;
    ids.push_back(has_one ? typed(id->element.type, id->element.value) : ids::TypedValue{});
  }
  for (const Given& each : given().given) {
    if (!(*write().plan)[each.assignment].is_id()) continue;
    const ids::Values& values = given().values[each.assignment];
    ids[static_cast<std::size_t>(each.statement)] = typed(values.type(), values[each.value]);
  }
  return ids;
}

std::optional<std::size_t> InsertWrite::emit(const WritePart& part, Workspace& workspace,
                                             wire::PatchedMessage& out) const {
  WritePart all = part;
  all.refused = refused();
  return workspace.insert.emit_part(write(), given(), all, out);
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

/// An update with upserts.
class UpdateWrite final : public BatchWrite {
 public:
  using BatchWrite::BatchWrite;

  [[nodiscard]] std::optional<std::size_t> emit(const WritePart& part, Workspace& /*workspace*/,
                                                wire::PatchedMessage& out) const override {
    return emit_part_of_upserts(write(), given(), part, out);
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
};

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
    const UpsertParts& statement = given().upserts[static_cast<std::size_t>(sent[i])];
    const bool is_upsert = statement.kind == UpsertParts::Kind::upsert;
    if (inserted && (failed || !is_upsert)) return false;
    if (failed) continue;
    least += is_upsert ? 1 : 0;
    ++most;
    multi = multi || statement.multi;
  }
  return upserted == reply.upserted.end() && *reply.n >= least && (multi || *reply.n <= most);
}

/// A bulkWrite.
class BulkWrite final : public BatchWrite {
 public:
  using BatchWrite::BatchWrite;

  [[nodiscard]] std::optional<std::size_t> emit(const WritePart& part, Workspace& workspace,
                                                wire::PatchedMessage& out) const override {
    WritePart all = part;
    all.refused = refused();
    return emit_part_of_bulk(write(), given(), all, workspace.insert, out);
  }
  [[nodiscard]] std::optional<WriteReply> read(Bytes body, std::size_t sent) const override {
    return read_bulk_reply(body, sent);
  }
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool replaces_errors(const WriteReply& reply,
                                     std::span<const std::int32_t> sent) const override {
    return write().all_results || has_refused(reply, sent);
  }
  [[nodiscard]] bool inserted(std::int32_t statement) const override {
    const UpsertParts& its = given().upserts[static_cast<std::size_t>(statement)];
    return its.kind == UpsertParts::Kind::insert || merged().upserted(statement);
  }
};

/// nInserted and nUpserted prove what is stored. Only a reply with all results names the upserts.
bool BulkWrite::adds_up(const WriteReply& reply, const WriteOptions& options,
                        std::span<const std::int32_t> sent) const {
  if (!options.acknowledged) return reply.errors.empty() && *reply.n == 0;
  if (options.stops() && reply.errors.size() > 1) return false;
  const bool stopped = options.stops() && !reply.errors.empty();
  const auto end = stopped ? static_cast<std::size_t>(reply.errors.front().index) : sent.size();
  std::int64_t inserts = 0;
  std::int64_t upserts = 0;
  auto error = reply.errors.begin();
  auto upserted = reply.upserted.begin();
  for (std::size_t i = 0; i < end; ++i) {
    const bool failed = error != reply.errors.end() && static_cast<std::size_t>(error->index) == i;
    const bool inserted =
        upserted != reply.upserted.end() && static_cast<std::size_t>(*upserted) == i;
    const auto kind = given().upserts[static_cast<std::size_t>(sent[i])].kind;
    const bool is_upsert = kind == UpsertParts::Kind::upsert || kind == UpsertParts::Kind::unknown;
    if (failed) ++error;
    if (inserted) ++upserted;
    if (inserted && !is_upsert) return false;
    if (failed) continue;
    inserts += kind == UpsertParts::Kind::insert ? 1 : 0;
    upserts += is_upsert ? 1 : 0;
  }
  if (upserted != reply.upserted.end() || *reply.n != inserts) return false;
  const bool has_all = reply.results == end + (stopped ? 1 : 0);
  const auto named = static_cast<std::int64_t>(reply.upserted.size());
  return has_all ? reply.n_upserted == named
                 : reply.results == reply.errors.size() && reply.n_upserted <= upserts;
}

/// The content of lastErrorObject.
struct Result {
  std::int64_t n = 0;
  bool inserted = false;
};

/// Returns nothing unless lastErrorObject says either that a document was found or that one was
/// inserted.
std::optional<Result> read_result(const bson::Element& last_error) {
  if (last_error.type != bson::Type::document) return std::nullopt;
  const auto updated = bson::find(last_error.value, "updatedExisting", bson::Type::boolean);
  const bool inserted = bson::find(last_error.value, "upserted").has_value();
  if (!updated || bson::find_integer(last_error.value, "n") != 1) return std::nullopt;
  if ((updated->as_integer() == 1) == inserted) return std::nullopt;
  return Result{1, inserted};
}

/// A findAndModify with an upsert: one statement, whose errors are errors of the whole command.
///
///   reply ::= {lastErrorObject: {n, updatedExisting, upserted?: _id}, value, retriedStmtId?: int,
///              writeConcernError?, ok: 1, …}
class FindAndModifyWrite final : public BatchKind {
 public:
  using BatchKind::BatchKind;

  [[nodiscard]] std::optional<std::size_t> emit(const WritePart& part, Workspace& /*workspace*/,
                                                wire::PatchedMessage& out) const override {
    return emit_part_of_upserts(write(), given(), part, out);
  }
  /// In the result, `upserted` has the statement if it inserted a document, and `n` is there only
  /// if lastErrorObject is as it should be.
  [[nodiscard]] std::optional<WriteReply> read(Bytes body, std::size_t sent) const override;
  [[nodiscard]] bool adds_up(const WriteReply& reply, const WriteOptions& options,
                             std::span<const std::int32_t> sent) const override;
  [[nodiscard]] bool replaces_errors(const WriteReply& /*reply*/,
                                     std::span<const std::int32_t> /*sent*/) const override {
    return false;
  }
  void add(const wire::OpMsgView& message, const WriteReply& reply,
           std::span<const std::int32_t> sent) override;
  [[nodiscard]] const std::map<std::int32_t, Buffer>& errors() const override { return none_; }
  [[nodiscard]] bool inserted(std::int32_t /*statement*/) const override { return inserted_; }
  [[nodiscard]] bool retried(std::int32_t /*number*/) const override { return retried_; }
  [[nodiscard]] bool has_reply() const override { return !reply_.empty(); }
  void append_reply(std::span<const Assigned> assigned, Buffer& out) const override;

 private:
  std::map<std::int32_t, Buffer> none_;
  bool inserted_ = false;
  bool retried_ = false;
  Buffer reply_;
};

std::optional<WriteReply> FindAndModifyWrite::read(Bytes body, std::size_t /*sent*/) const {
  enum : unsigned { kOk, kCode, kLastError, kRetried, kFields };
  std::array<bool, kFields> seen{};
  const auto once = [&](unsigned field) { return !std::exchange(seen[field], true); };
  WriteReply reply;
  bson::Elements fields(body);
  while (const auto field = fields.next()) {
    if (field->key == "ok") {
      const auto ok = field->as_integer();
      if (!once(kOk) || !ok || (*ok != 0 && *ok != 1)) return {};
      reply.ok = *ok == 1;
    } else if (field->key == "code") {
      const auto code = field->as_integer();
      if (!once(kCode) || !code) return {};
      reply.code = *code;
    } else if (field->key == "lastErrorObject") {
      if (!once(kLastError)) return {};
      const auto result = read_result(*field);
      if (!result) continue;
      reply.n = result->n;
      if (result->inserted) reply.upserted.push_back(0);
    } else if (field->key == "retriedStmtId") {
      if (!once(kRetried) || field->type != bson::Type::int32) return {};
      reply.retried = 1;
    }
  }
  if (fields.malformed() || !seen[kOk]) return {};
  return reply;
}

bool FindAndModifyWrite::adds_up(const WriteReply& reply, const WriteOptions& /*options*/,
                                 std::span<const std::int32_t> /*sent*/) const {
  return reply.n == 1;
}

void FindAndModifyWrite::add(const wire::OpMsgView& message, const WriteReply& reply,
                             std::span<const std::int32_t> /*sent*/) {
  inserted_ = !reply.upserted.empty();
  retried_ = reply.retried > 0;
  reply_.clear();
  reply_.append(message.message());
}

void FindAndModifyWrite::append_reply(std::span<const Assigned> assigned, Buffer& out) const {
  const auto last = wire::OpMsgView::parse(reply_.view());
  ReplyFrame frame(out, last->header().request_id, message().header().request_id,
                   last->has(wire::flag::kChecksumPresent));
  bson::Scope document(out);
  bson::Elements fields(last->body());
  while (const auto field = fields.next()) bson::append_copy(out, *field);
  append_report(assigned, out);
  document.close();
  frame.close();
}

}  // namespace

std::unique_ptr<BatchKind> make_command(const WriteRequest& write, const GivenValues& given,
                                        std::vector<RefusedDocument> refused) {
  switch (write.command.kind) {
    case WriteKind::insert:
      return std::make_unique<InsertWrite>(write, given, std::move(refused));
    case WriteKind::update:
      return std::make_unique<UpdateWrite>(write, given, std::move(refused));
    case WriteKind::bulk_write:
      return std::make_unique<BulkWrite>(write, given, std::move(refused));
    case WriteKind::find_and_modify:
      break;
  }
  return std::make_unique<FindAndModifyWrite>(write, given);
}

}  // namespace idproxy::rewrite
