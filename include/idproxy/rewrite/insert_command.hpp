#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::rewrite {

inline constexpr std::size_t kMaxBatch = 100'000;  ///< maxWriteBatchSize

/// What matters of an insert command. Views into its message.
struct InsertCommand {
  std::string_view collection;
  std::string_view db;
  Bytes documents;      ///< the array's value, or the documents of the sequence
  Bytes array_element;  ///< with documents in the body: their element, type byte to end
  std::optional<wire::DocumentSequence> sequence;  ///< with documents in a section of kind 1
  Bytes stmt_ids;  ///< the array's value; empty if the client sent none

  [[nodiscard]] bool in_body() const { return !sequence; }
  /// Two equal numbers make a primary abort (observed, 6.0.5: fassert 40526).
  [[nodiscard]] bool repeats_stmt_id() const;
  /// Nothing if mongod will refuse the command: a name that is no
  /// text, repeated fields, documents twice or nowhere, a section that insert does not have.
  [[nodiscard]] static std::optional<InsertCommand> read(const wire::OpMsgView& insert);
};

/// Walks the documents of an insert, in either form.
class InsertDocuments {
 public:
  explicit InsertDocuments(const InsertCommand& command);

  /// The next document; nothing at the end, or as soon as something is malformed.
  [[nodiscard]] std::optional<Bytes> next();
  [[nodiscard]] bool malformed() const { return malformed_; }
  /// So far, the keys of the array in the body were "0", "1", …; true for a sequence.
  [[nodiscard]] bool plain_keys() const { return plain_keys_; }

 private:
  std::optional<bson::Elements> array_;
  Bytes rest_;
  std::size_t count_ = 0;
  bool malformed_ = false;
  bool plain_keys_ = true;
};

}  // namespace idproxy::rewrite
