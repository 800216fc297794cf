#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "idproxy/ids/reservations.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// An unordered insert with a txnNumber, which a driver may have sent before, to a server that does
/// not say which statements it had executed then (MongoDB before 6.0). The replies of MongoDB 4.4
/// to the second attempt may be wrong (observed, 4.4.2; docs/server-behaviour.md):
///
/// - If it had executed statements that lie between others, it counts the positions of errors
///   without the others that are still pending, and if the last one had been executed, it leaves
///   out the pending ones.
/// - It gives invalid documents no statement number, so that the documents behind them have the
///   numbers of those in front.
class RepeatedInsert {
 public:
  /// True for a document that the server has refused as such.
  [[nodiscard]] static bool is_invalid(const WriteError& error);
  /// True if the reply has the outcome of each of the `sent` statements.
  [[nodiscard]] static bool accounts_for_all(const WriteReply& reply, std::size_t sent);
  /// The statements' numbers as 4.4 has given them, by the errors of the whole batch.
  [[nodiscard]] static std::vector<std::int32_t> shifted(const WriteReply& reply,
                                                         const WriteOptions& options,
                                                         std::size_t statements);

  /// True for a reply to `sent` statements that may be mixed up. Not if they are known to be
  /// pending, nor of a single one.
  [[nodiscard]] bool may_be_mixed_up(const WriteReply& reply, std::size_t sent,
                                     bool loses_writes) const;
  /// Keeps such a reply. Returns the statements of `out` to ask the server about: which of them it
  /// has executed.
  [[nodiscard]] std::vector<std::int32_t> doubt(const wire::OpMsgView& message,
                                                const WriteReply& reply,
                                                std::span<const std::int32_t> out);
  /// The reply in doubt.
  [[nodiscard]] Bytes reply() const { return reply_.view(); }

  /// The decision about that reply.
  struct Verdict {
    enum class Kind {
      believe,     ///< its errors are those of the statements that are missing
      send_again,  ///< ignore it, and send `statements`
      give_up,     ///< the server has lost documents, and does not say which
    };
    Kind kind;
    std::vector<std::int32_t> statements{};
    std::int64_t stored = 0;  ///< documents that are stored, and not sent again
  };
  /// `executed`: the server's answer, ascending; nothing: it does not tell. Then all statements go
  /// again, one by one: the server skips what it has executed.
  [[nodiscard]] Verdict judge(const std::optional<std::vector<std::int32_t>>& executed,
                              const WriteReply& reply, std::span<const std::int32_t> out);

  /// True if the next command may have only one statement.
  [[nodiscard]] bool is_alone() const { return singly_; }
  [[nodiscard]] bool was_in_doubt() const { return sorted_out_; }
  /// True if the server has left out statements without a word.
  [[nodiscard]] bool has_lost() const { return lost_; }
  void note_lost() { lost_ = true; }
  /// Event: the next command has statements that have never been sent.
  void begin_part() { sorted_out_ = singly_ = false; }

 private:
  bool lost_ = false;
  bool sorted_out_ = false;  // what is sent again has not been executed, or is sent one by one
  bool singly_ = false;      // one by one
  Buffer reply_;
  std::vector<std::int32_t> invalid_;  // the documents that it refuses as such, ascending
};

/// What a question to the server about an insert needs.
struct AboutInsert {
  const wire::OpMsgView* insert;  ///< the client's message
  std::string_view ns;            ///< "db.collection"
  std::int32_t request_id;        ///< of the question
  std::optional<std::int64_t> max_time_ms;
};

/// The statements of an insert with a txnNumber that the server has executed, in any attempt. A
/// server before 6.0 does not name them in its reply to the insert. But if it gets an update with
/// the same txnNumber and stmtIds, it answers with what it did for each of these statements then,
/// no matter what the update contains (observed, 4.4.2, 5.0.4, 6.0.5). This update matches no
/// document, so that it executes nothing itself.
class ExecutedQuestion {
 public:
  /// `statements`: ascending.
  explicit ExecutedQuestion(std::span<const std::int32_t> statements)
      : statements_(statements.begin(), statements.end()) {}

  /// `options`: the insert's own.
  void emit(const AboutInsert& about, const WriteOptions& options, wire::PatchedMessage& out) const;
  /// Event: the reply. Returns the statements that have been executed, ascending; nothing if it
  /// does not tell, as for lack of the right to update.
  [[nodiscard]] std::optional<std::vector<std::int32_t>> read(const wire::OpMsgView& reply) const;

 private:
  std::vector<std::int32_t> statements_;
};

/// The documents of an insert that a server has stored, found by their `_id`s with one query on the
/// client's connection: servers before 6.0 do not say which statements of a repeated insert they
/// had executed before (docs/server-behaviour.md#retryable-writes).
class StoredQuestion {
 public:
  /// Larger inserts are not looked at: the query would become too large.
  static constexpr std::size_t kMost = 10'000;

  /// `ids`: by statement; the type `null` without bytes stands for none.
  explicit StoredQuestion(std::vector<ids::TypedValue> ids) : ids_(std::move(ids)) {}

  /// Fills `out` with the query for the fields of these rules.
  void emit(const AboutInsert& about, const Plan& plan, wire::PatchedMessage& out) const;
  /// Event: the reply to the query. False if it tells nothing.
  bool read(const wire::OpMsgView& reply);

  /// The field's value in the statement's document; nothing if there is no such document or no such
  /// field. Valid as long as this object.
  [[nodiscard]] std::optional<bson::Element> value(std::int32_t statement,
                                                   std::string_view field) const;

 private:
  [[nodiscard]] const Buffer* document(std::int32_t statement) const;

  std::vector<ids::TypedValue> ids_;
  std::unordered_map<std::string, Buffer> documents_;  // by type and bytes of `_id`
};

}  // namespace idproxy::rewrite
