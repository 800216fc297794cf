#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

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
  const wire::DocumentSequence* sequence = nullptr;  ///< with documents in a section of kind 1
  Bytes stmt_ids;  ///< the array's value; empty if the client sent none

  [[nodiscard]] bool in_body() const { return sequence == nullptr; }
  /// Two equal numbers make a primary abort (observed, 6.0.5: fassert 40526).
  [[nodiscard]] bool repeats_stmt_id() const;
  /// `insert` must outlive the result. Nothing if mongod will refuse the command: a name that is no
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

/// The fields of an insert's body that decide how its documents may be sent again.
struct InsertOptions {
  bool ordered = true;
  bool in_transaction = false;
  bool has_txn_number = false;
  bool acknowledged = true;                 ///< not writeConcern {w: 0}: its reply says {n: 0}
  std::optional<std::int64_t> max_time_ms;  ///< of the command in all; nothing: no limit
  std::int32_t stmt_id = 0;                 ///< of the first document
  std::vector<std::int32_t> stmt_ids;       ///< of each document, if the client sent them

  /// Nothing if one of them stands twice or has a form that mongod refuses, or could read in
  /// another way: such a command is sent once, as it is.
  [[nodiscard]] static std::optional<InsertOptions> read(Bytes body);
  /// Of a batch of `documents`: each has a statement number, and that of `document` is …
  [[nodiscard]] bool numbers(std::size_t documents) const;
  [[nodiscard]] std::int32_t number_of(std::int32_t document) const {
    return stmt_ids.empty() ? stmt_id + document : stmt_ids[static_cast<std::size_t>(document)];
  }
};

}  // namespace idproxy::rewrite
