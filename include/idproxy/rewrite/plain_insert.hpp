#pragma once

#include "idproxy/ids/values.hpp"
#include "idproxy/rewrite/insert_command.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// The common insert: one rule, for `_id`, and a sequence of small documents none of which has an
/// `_id`. None of them need be walked: each gets `_id` as its first element.
class PlainInsert {
 public:
  /// Nothing if the insert is another one. `insert` must outlive the result.
  [[nodiscard]] static std::optional<PlainInsert> recognise(const wire::OpMsgView& insert,
                                                            const InsertCommand& command);

  [[nodiscard]] std::size_t documents() const { return documents_; }
  /// `values`: one for each document.
  void patch(const ids::Values& values, wire::PatchedMessage& out) const;
  /// The reverse: the client's message from the one that patch() made, and its values.
  static void restore(Bytes patched, Buffer& original, ids::Values& values);

 private:
  PlainInsert(const wire::OpMsgView& insert, const InsertCommand& command, std::size_t documents)
      : message_(insert.message()), section_(command.sequence->whole), documents_(documents) {
    list_ = command.documents;
  }

  Bytes message_;
  Bytes section_;
  Bytes list_;
  std::size_t documents_;
};

}  // namespace idproxy::rewrite
