#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/rewrite/write.hpp"
#include "idproxy/rewrite/write_reply.hpp"
#include "idproxy/wire/op_msg.hpp"

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

}  // namespace idproxy::rewrite
