#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/rewrite/reply.hpp"

namespace idproxy::rewrite {

/// True if a server refuses an `_id` that is an array with this code: MongoDB 4.4 with BadValue,
/// later ones with InvalidIdField (observed, 4.4.2, 5.0.4, 6.0.5).
[[nodiscard]] constexpr bool refuses_id(std::int64_t code) {
  return code == ErrorCode::invalid_id_field || code == ErrorCode::bad_value;
}

/// An entry of writeErrors, or a result of a bulkWrite with an error.
struct WriteError {
  std::int32_t index;  ///< index of the statement in the command that was sent
  std::int64_t code;
  Bytes document;  ///< the whole entry
};

/// mongod's reply to a batch of writes: {n, electionId, opTime, writeErrors, upserted, nModified,
/// retriedStmtIds, writeConcernError, ok, errorLabels, $clusterTime, operationTime}, or an error of
/// the whole command. An insert's reply has neither `upserted` nor `nModified`. Views into its
/// message.
struct WriteReply {
  bool ok = false;
  std::int64_t code = 0;           ///< the code of an error of the whole command
  std::optional<std::int64_t> n;   ///< statements executed now or, by this session, earlier
  std::vector<WriteError> errors;  ///< with ok: 1; their indexes ascend
  /// Statements of an update that inserted a document, with ok: 1; ascending.
  std::vector<std::int32_t> upserted;
  std::optional<std::int64_t> modified;  ///< nModified: documents that were found and changed
  std::size_t retried = 0;  ///< how many statements had been executed earlier (retriedStmtIds)
  // Of a bulkWrite (rewrite/bulk_write.hpp), whose `n` is nInserted:
  std::int64_t n_upserted = 0;
  std::size_t results = 0;

  /// Reads `body`, the kind-0 document of the reply to a command with this number of statements.
  /// Returns nothing if one of these fields occurs twice or has another type, `ok` is missing or
  /// neither 0 nor 1, there are more errorLabels than exist, or with ok: 1 read_write_errors()
  /// returns nothing or the entries of `upserted` are not {index, _id} with ascending indexes.
  [[nodiscard]] static std::optional<WriteReply> read(Bytes body, std::size_t statements);
  /// Reads `ok` or `code`. False if it occurs twice or is malformed.
  [[nodiscard]] bool take(const bson::Element& field, FieldsOnce& once);
};

/// The number of elements of the array; nothing unless all are of this type.
[[nodiscard]] std::optional<std::size_t> count_of(const bson::Element& array, bson::Type type);

/// Reads the entries of a `writeErrors` array. Returns nothing unless each is a document with an
/// int32 index below `statements` and an integer code, and the indexes ascend.
[[nodiscard]] std::optional<std::vector<WriteError>> read_write_errors(Bytes array,
                                                                       std::size_t statements);

/// An assigned value to report to the client (rule key `report`).
struct Assigned {
  std::int32_t statement;
  std::string_view field;
  bson::Type type;
  Bytes value;
};

/// To what kind of command replies belong.
enum class ReplyForm : std::uint8_t {
  of_statements,  ///< an insert or update
  all_results,    ///< a bulkWrite
  errors_only,    ///< a bulkWrite whose client wants no other results
  only,           ///< a findAndModify: the last one is the answer
};

/// Merges the replies to several commands that carried one batch into a reply that looks like the
/// only one. Field by field:
///
///   n, nModified                      the sum
///   nInserted, … of a bulkWrite       the sum
///   nErrors of a bulkWrite            the number of statements with an error
///   cursor of a bulkWrite             the latest result of each statement
///   writeErrors                       the latest error of each statement, at its index in the
///   batch
///   upserted                          those of all replies, at their indexes in the batch
///   retriedStmtIds                    those of all replies
///   writeConcernError                 the last reply's, because writes are replicated in order
///   errorLabels                       those since the last reply without a writeConcernError, to
///                                     which they belong; NoWritesPerformed only if n is 0
///   opTime, operationTime             the greatest
///   $clusterTime                      the one with the greatest time, unchanged: it is signed
///   electionId, other fields          the last reply's
class ReplyMerge {
 public:
  explicit ReplyMerge(ReplyForm form = ReplyForm::of_statements) : form_(form) {}

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
  /// True if this statement of an update or bulkWrite was an upsert that inserted a document.
  [[nodiscard]] bool upserted(std::int32_t statement) const {
    return inserted_.contains(statement);
  }
  /// True if mongod says that an earlier command had already executed this statement.
  [[nodiscard]] bool retried(std::int32_t statement) const {
    return is_retried_ || retried_.contains(statement);
  }

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
  void add_results(const bson::Element& cursor, std::span<const std::int32_t> statements);
  [[nodiscard]] bool has_written() const;

  ReplyForm form_;
  std::optional<std::int64_t> n_;
  std::map<std::string, std::int64_t, std::less<>> sums_;  // of the other numbers
  std::map<std::int32_t, Buffer> errors_;
  std::map<std::int32_t, Buffer> upserted_;  // the whole entries
  std::size_t upserted_bytes_ = 0;
  std::map<std::int32_t, Buffer> successes_;   // results of a bulkWrite
  std::unordered_set<std::int32_t> inserted_;  // upserts that inserted a document
  std::vector<std::int32_t> retried_in_order_;
  std::unordered_set<std::int32_t> retried_;
  bool is_retried_ = false;  // a findAndModify
  std::vector<std::string> labels_;
  Latest op_time_;
  Latest operation_time_;
  Latest cluster_time_;
  Buffer last_;  // the last reply
};

/// True if a write's reply says that its user may not do this.
[[nodiscard]] bool says_not_permitted(const WriteReply& reply);

/// True if this error of a whole command means that the server has found the fault before it stored
/// anything.
[[nodiscard]] bool stores_nothing(std::int64_t code);

/// True if an entry of writeErrors proves that its statement has stored nothing. Other errors do
/// not: a mongos also reports writeErrors if it has lost a shard that may have stored everything. A
/// duplicate that does not name its keys may be a duplicate of the value itself, which would then
/// fail the next write, too.
[[nodiscard]] bool denies(Bytes error);

}  // namespace idproxy::rewrite
