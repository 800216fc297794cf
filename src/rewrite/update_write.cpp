#include <vector>

#include "rewrite/batch_write.hpp"
#include "rewrite/upsert.hpp"
#include "rewrite/upserts.hpp"

namespace idproxy::rewrite {
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
