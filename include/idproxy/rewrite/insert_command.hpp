#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::rewrite {

inline constexpr std::size_t kMaxBatch = 100'000;  ///< maxWriteBatchSize

/// The parts of an insert command that the proxy needs. Views into its message.
struct InsertCommand {
  std::string_view collection;
  std::string_view db;
  Bytes documents;      ///< value of the array, or the documents of the sequence
  Bytes array_element;  ///< if they are in the body: the element, type byte to end
  /// The section of kind 1 with the documents, if they are not in the body.
  std::optional<wire::DocumentSequence> sequence;
  Bytes stmt_ids;  ///< value of the array; empty if the client sent none

  [[nodiscard]] bool in_body() const { return !sequence; }
  /// True if a number occurs twice, which makes a primary abort (observed, 6.0.5: fassert 40526).
  [[nodiscard]] bool repeats_stmt_id() const;
  /// Returns nothing if mongod will refuse the command because a name is not a string, a field is
  /// repeated, `documents` occurs twice or not at all, or there is a section that insert does not
  /// have.
  [[nodiscard]] static std::optional<InsertCommand> read(const wire::OpMsgView& insert);
};

/// Iterates over the documents of an insert, in either form.
class InsertDocuments {
 public:
  explicit InsertDocuments(const InsertCommand& command);

  /// Returns the next document; nothing at the end or once malformed data is found.
  [[nodiscard]] std::optional<Bytes> next();
  [[nodiscard]] bool malformed() const { return malformed_; }
  /// True if the keys of the array in the body have been "0", "1", … so far, and for a sequence.
  [[nodiscard]] bool plain_keys() const { return plain_keys_; }

 private:
  std::optional<bson::Elements> array_;
  Bytes rest_;
  std::size_t count_ = 0;
  bool malformed_ = false;
  bool plain_keys_ = true;
};

}  // namespace idproxy::rewrite
