#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/write_reply.hpp"

namespace idproxy::rewrite {

/// An assigned value to report to the client (rule key `report`).
struct Assigned {
  std::int32_t statement;
  std::string_view field;
  bson::Type type;
  Bytes value;
};

/// Merges the replies to several commands that carried one batch into a reply that looks like the
/// only one. Field by field:
///
///   n, nModified                      the sum
///   writeErrors                       the latest error of each statement, at its index in the
///   batch upserted                          those of all replies, at their indexes in the batch
///   retriedStmtIds                    those of all replies
///   writeConcernError                 the last reply's, because writes are replicated in order
///   errorLabels                       those since the last reply without a writeConcernError, to
///                                     which they belong; NoWritesPerformed only if n is 0
///   opTime, operationTime             the greatest
///   $clusterTime                      the one with the greatest time, unchanged: it is signed
///   electionId, other fields          the last reply's
class ReplyMerge {
 public:
  /// Counts statements as stored of which no reply that is added says so.
  void add_stored(std::int64_t count) { n_ = n_.value_or(0) + count; }
  /// Adds `reply`, which is `message` and has ok: 1. `statements`: the indexes in the batch of the
  /// statements that its command carried. Their errors in earlier replies are dropped.
  void add(const wire::OpMsgView& message, const WriteReply& reply,
           std::span<const std::int32_t> statements);

  /// True if no reply has been added.
  [[nodiscard]] bool empty() const { return last_.empty(); }
  /// The statements with an error, ascending, and their entries in writeErrors as mongod wrote
  /// them.
  [[nodiscard]] const std::map<std::int32_t, Buffer>& errors() const { return errors_; }
  /// True if this statement of an update inserted a document.
  [[nodiscard]] bool upserted(std::int32_t statement) const {
    return upserted_.contains(statement);
  }
  /// True if mongod says that an earlier command had already executed this statement.
  [[nodiscard]] bool retried(std::int32_t statement) const { return retried_.contains(statement); }

  /// Appends the merged reply as one OP_MSG. The errors of `refused` documents, which ascend by
  /// index, are replaced by the proxy's own.
  void append(std::int32_t response_to, std::span<const RefusedDocument> refused,
              std::span<const Assigned> assigned, Buffer& out) const;

 private:
  /// The element of the reply with the greatest time; empty if there was none.
  struct Latest {
    std::pair<std::int64_t, std::uint64_t> time;  // term, timestamp
    Buffer element;
    void see(const bson::Element& field, std::pair<std::int64_t, std::uint64_t> its_time);
  };
  class Writer;

  void add_errors(std::span<const WriteError> errors, std::span<const std::int32_t> statements);
  void add_field(const bson::Element& field, std::span<const std::int32_t> statements);

  std::optional<std::int64_t> n_;
  std::int64_t modified_ = 0;
  std::map<std::int32_t, Buffer> errors_;
  std::map<std::int32_t, Buffer> upserted_;  // the whole entries
  std::size_t upserted_bytes_ = 0;
  std::vector<std::int32_t> retried_in_order_;
  std::unordered_set<std::int32_t> retried_;
  std::vector<std::string> labels_;
  Latest op_time_;
  Latest operation_time_;
  Latest cluster_time_;
  Buffer last_;  // the last reply
};

/// Appends `idproxy: {assigned: [{index, field, value}, …]}` to the body of a reply, unless there
/// is nothing to report. Cuts the array short, and adds `truncated: true`, where the reply would
/// become too large.
void append_report(std::span<const Assigned> assigned, Buffer& out);

}  // namespace idproxy::rewrite
