#include <array>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "rewrite/reply_frame.hpp"
#include "rewrite/upserts.hpp"
#include "rewrite/write_command.hpp"

namespace idproxy::rewrite {
namespace {

/// The content of lastErrorObject.
struct Result {
  std::int64_t n = 0;
  bool inserted = false;
};

/// Returns nothing unless lastErrorObject says either that a document was found or that one was
/// inserted.
std::optional<Result> read_result(const bson::Element& last_error) {
  if (last_error.type != bson::Type::document) return std::nullopt;
  const auto n = bson::find(last_error.value, "n");
  const auto updated = bson::find(last_error.value, "updatedExisting");
  const bool inserted = bson::find(last_error.value, "upserted").has_value();
  if (!n || !updated || updated->type != bson::Type::boolean) return std::nullopt;
  if (n->as_integer() != 1 || (updated->as_integer() == 1) == inserted) return std::nullopt;
  return Result{1, inserted};
}

/// A findAndModify with an upsert: one statement, whose errors are errors of the whole command.
///
///   reply ::= {lastErrorObject: {n, updatedExisting, upserted?: _id}, value, retriedStmtId?: int,
///              writeConcernError?, ok: 1, …}
class FindAndModifyWrite final : public WriteCommand {
 public:
  using WriteCommand::WriteCommand;

  [[nodiscard]] std::size_t fitting(const GivenValues& /*given*/,
                                    std::span<const std::int32_t> /*statements*/) const override {
    return 1;
  }
  [[nodiscard]] bool emit(const GivenValues& given, const WritePart& part, Workspace& /*workspace*/,
                          wire::PatchedMessage& out) const override {
    return emit_part_of_upserts(write(), given, part, out);
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

std::unique_ptr<WriteCommand> find_and_modify_command(const WriteRequest& write) {
  return std::make_unique<FindAndModifyWrite>(write);
}

}  // namespace idproxy::rewrite
