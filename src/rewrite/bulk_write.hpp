#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "idproxy/base/bytes.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/patched_message.hpp"

/// bulkWrite (MongoDB 8.0): inserts, updates and deletes in many collections, in one command on
/// `admin`. Source: the driver specification "Bulk Write", and docs/server-behaviour.md#bulkwrite.
///
///   ops    ::= {insert: <i>, document} | {update: <i>, filter, updateMods, upsert?, multi?, …}
///            | {delete: <i>, filter, multi?, …}        <i>: position in nsInfo
///   nsInfo ::= {ns: "db.collection", collectionUUID?, …}
///   reply  ::= {cursor: {id, firstBatch: [result…], ns: "admin.$cmd.bulkWrite"}, nErrors,
///   nInserted,
///               nMatched, nModified, nUpserted, nDeleted, retriedStmtIds?, ok: 1, …}
///   result ::= {ok, idx: <position in ops>, n, nModified?, upserted?: {_id}}
///            | {ok: 0, idx, code, errmsg, keyPattern?, …}
namespace idproxy::rewrite {

/// One of `ops`. Views into its message.
struct BulkOp {
  enum class Kind { insert, update, remove };
  Kind kind{};
  std::size_t ns = 0;       ///< position in nsInfo, which has it
  Bytes document;           ///< of an insert
  bool is_unclear = false;  ///< the proxy cannot tell what mongod takes for `ns`

  /// Returns nothing if mongod will refuse the whole command because of this operation.
  [[nodiscard]] static std::optional<BulkOp> read(Bytes op, std::size_t namespaces);
};

/// Finds the rules of all collections of the command, for write.namespaces and write.plan; null:
/// there are none. Returns false if mongod will refuse the command, or `fault` says why the proxy
/// does.
[[nodiscard]] bool read_namespaces(WriteRequest& write, Namespaces& namespaces,
                                   std::optional<CommandError>& fault);

/// True if the proxy must see the results of successes, too: they tell which upserts have inserted
/// a document.
[[nodiscard]] bool wants_results(const WriteRequest& write, const GivenValues& given);

/// As WriteReply::read(): `n` has nInserted, `errors` the results with an error. Returns nothing
/// for a reply whose results have not all come.
[[nodiscard]] std::optional<WriteReply> read_bulk_reply(Bytes body, std::size_t statements);

/// The results of one command, of which the reply may have only the first. The others follow in
/// replies to getMore, in the same session, on the same connection.
class BulkResults {
 public:
  enum class Next { done, more, malformed };
  /// Event: the reply to the command, or to getMore.
  [[nodiscard]] Next add(const wire::OpMsgView& reply);
  /// Asks for more. `client`: the client's command.
  void ask(const wire::OpMsgView& client, std::int32_t request_id, wire::PatchedMessage& out) const;
  /// After `done`: the reply to the command with all results in it, as one message; nothing if they
  /// were in it anyway. Valid until the next add().
  [[nodiscard]] std::optional<wire::OpMsgView> joined();

 private:
  [[nodiscard]] bool append(Bytes batch);

  std::int64_t cursor_ = 0;  // not 0: its results are incomplete
  std::size_t count_ = 0;    // of results
  std::size_t batches_ = 0;  // that they came in
  Buffer first_;             // the reply to the command; empty: none is incomplete
  Buffer results_;           // elements of an array
  Buffer joined_;
};

}  // namespace idproxy::rewrite
