#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "idproxy/rewrite/write.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// The statements of an insert with a txnNumber that the server has executed, in any attempt. A
/// server before 6.0 does not name them in its reply to the insert. But if it gets an update with
/// the same txnNumber and stmtIds, it answers with what it did for each of these statements then,
/// no matter what the update contains (observed, 4.4.2, 5.0.4, 6.0.5). This update matches no
/// document, so that it executes nothing itself.
class ExecutedLook {
 public:
  /// `statements`: ascending.
  explicit ExecutedLook(std::span<const std::int32_t> statements)
      : statements_(statements.begin(), statements.end()) {}

  struct Question {
    const wire::OpMsgView* insert;  ///< the client's message
    const WriteOptions* options;    ///< its own
    std::string_view ns;            ///< "db.collection"
    std::int32_t request_id;
    std::optional<std::int64_t> max_time_ms;
  };
  void emit(const Question& question, wire::PatchedMessage& out) const;
  /// Event: the reply. Returns the statements that have been executed, ascending; nothing if it
  /// does not tell, as for lack of the right to update.
  [[nodiscard]] std::optional<std::vector<std::int32_t>> read(const wire::OpMsgView& reply) const;

 private:
  std::vector<std::int32_t> statements_;
};

}  // namespace idproxy::rewrite
