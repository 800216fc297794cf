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

/// A value that the client is told of (rule key `report`).
struct Assigned {
  std::int32_t document;
  std::string_view field;
  bson::Type type;
  Bytes value;
};

/// Makes one reply of the replies to several commands that carried one batch, so that it looks like
/// the only one. Field by field:
///
///   n                                 the sum
///   writeErrors                       the latest error of each document, at its index in the batch
///   retriedStmtIds                    all of them
///   writeConcernError                 the last reply's: replication is in order
///   errorLabels                       all, if there is a writeConcernError to which they belong
///   opTime, operationTime             the greatest
///   $clusterTime                      that of the greatest time, whole: it is signed
///   electionId and all else           the last reply's
class ReplyMerge {
 public:
  /// Takes over what `reply` (of `message`, ok: 1) says of `documents`, the ones that its command
  /// carried, and drops what earlier ones said of these.
  void add(const wire::OpMsgView& message, const WriteReply& reply,
           std::span<const std::int32_t> documents);

  /// Nothing has been added.
  [[nodiscard]] bool empty() const { return last_.empty(); }
  /// Documents with an error, ascending, and the entry as mongod wrote it.
  [[nodiscard]] const std::map<std::int32_t, Buffer>& errors() const { return errors_; }
  /// True if mongod says that this statement had been executed by an earlier command.
  [[nodiscard]] bool retried(std::int32_t statement) const { return retried_.contains(statement); }

  /// Appends the reply as one OP_MSG. Errors of `refused` documents, which ascend by index, are
  /// replaced by ours.
  void append(std::int32_t response_to, std::span<const RefusedDocument> refused,
              std::span<const Assigned> assigned, Buffer& out) const;

 private:
  /// An element as it stood in the reply with the greatest time; empty if there was none.
  struct Latest {
    std::pair<std::int64_t, std::uint64_t> time;  // term, timestamp
    Buffer element;
    void see(const bson::Element& field, std::pair<std::int64_t, std::uint64_t> its_time);
  };
  class Writer;

  void add_errors(std::span<const WriteError> errors, std::span<const std::int32_t> documents);
  void add_field(const bson::Element& field);

  std::optional<std::int64_t> n_;
  std::map<std::int32_t, Buffer> errors_;
  std::vector<std::int32_t> retried_in_order_;
  std::unordered_set<std::int32_t> retried_;
  std::vector<std::string> labels_;
  Latest op_time_;
  Latest operation_time_;
  Latest cluster_time_;
  Buffer last_;  // the last reply
};

}  // namespace idproxy::rewrite
