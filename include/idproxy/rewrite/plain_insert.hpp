#pragma once

#include "idproxy/ids/values.hpp"
#include "idproxy/rewrite/batch_command.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// The common kind of insert: a single rule, for `_id`, and a document sequence of small documents,
/// none of which has an `_id`. Each document gets `_id` as its first element, so nothing inside the
/// documents has to be parsed.
class PlainInsert {
 public:
  /// Returns nothing if the insert is of another kind. The plan must have a single rule, for `_id`;
  /// the caller checks that. `insert` must outlive the result.
  [[nodiscard]] static std::optional<PlainInsert> recognise(const wire::OpMsgView& insert,
                                                            const BatchCommand& command);

  [[nodiscard]] std::size_t documents() const { return documents_; }
  /// Writes the patched message to `out`. `values`: one for each document.
  void patch(const ids::Values& values, wire::PatchedMessage& out) const;
  /// Undoes patch(): appends the client's message to `original`, and the values to `values`.
  static void restore(Bytes patched, Buffer& original, ids::Values& values);

 private:
  PlainInsert(const wire::OpMsgView& insert, const BatchCommand& command, std::size_t documents)
      : message_(insert.message()), section_(command.sequence->whole), documents_(documents) {
    list_ = command.statements;
  }

  Bytes message_;
  Bytes section_;
  Bytes list_;
  std::size_t documents_;
};

}  // namespace idproxy::rewrite
