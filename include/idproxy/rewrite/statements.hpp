#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::rewrite {

inline constexpr std::size_t kMaxBatch = 100'000;  ///< maxWriteBatchSize

/// The commands in which the proxy assigns values.
enum class WriteKind { insert, update, find_and_modify, bulk_write };

/// The kind of the command with this name; nothing for other commands.
[[nodiscard]] std::optional<WriteKind> write_kind(std::string_view command);

/// The fields of a write command's body that the proxy knows. One for each io thread.
class WriteFields : public KnownFields {
 public:
  enum Name : std::uint8_t {
    insert,
    update,
    find_and_modify,
    find_and_modify_in_lower_case,
    bulk_write,
    database,
    documents,
    updates,
    ops,
    ns_info,
    ordered,
    autocommit,
    write_concern,
    txn_number,
    max_time_ms,
    stmt_id,
    stmt_ids,
    encryption_information,
    api_strict,
    collection_uuid,
  };
  WriteFields();
};

/// The fields of a command's body that determine how its statements may be sent again.
struct WriteOptions {
  bool ordered = true;
  bool in_transaction = false;
  bool has_txn_number = false;
  bool acknowledged = true;  ///< false with writeConcern {w: 0}: replies say {n: 0}
  bool in_turn = false;      ///< each command is sent as an ordered one, whatever `ordered` says
  std::optional<std::int64_t> max_time_ms;  ///< for the whole command; nothing: no limit
  std::int32_t stmt_id = 0;                 ///< number of the first statement
  std::vector<std::int32_t> stmt_ids;       ///< number of each statement, if the client sent them

  /// Reads these fields. False if one occurs twice or has a form that mongod refuses or might read
  /// differently.
  [[nodiscard]] bool read(const WriteFields& fields);
  /// True if the server stops at the first error of a command.
  [[nodiscard]] bool stops() const { return ordered || in_transaction || in_turn; }
  /// True if a driver may have sent the command before.
  [[nodiscard]] bool may_be_repeated() const { return has_txn_number && !in_transaction; }
  /// True if each of the `statements` in the batch has a statement number.
  [[nodiscard]] bool numbers(std::size_t statements) const;
  [[nodiscard]] std::int32_t number_of(std::int32_t statement) const {
    return stmt_ids.empty() ? stmt_id + statement : stmt_ids[static_cast<std::size_t>(statement)];
  }
};

/// The names in which write commands differ: a row for each in statements.cpp.
struct WriteForm {
  /// Of the array, or of the sequence, with the statements; empty: the command is its only one.
  std::string_view identifier;
  WriteFields::Name list;  ///< its place among the body's fields, if it has an identifier
  /// Of a statement that may be an upsert: filter, update, upsert, multi, remove, arrayFilters,
  /// constants; empty: it has no such field.
  std::array<std::string_view, 7> fields;
};
[[nodiscard]] const WriteForm& form_of(WriteKind kind);

/// All that the proxy knows of the body of a write command, which is read once, and where its
/// statements are. What it returns is valid as long as the message that refer_to() was called with
/// last.
struct WriteCommand {
  /// Where its parts are in the message; those that it does not have are empty.
  struct Places {
    wire::Extent collection, db, statements, array_element, sequence, stmt_ids, ns_info;
  };
  Places places{};
  const std::uint8_t* message = nullptr;  ///< its first byte
  WriteKind kind{};
  bool ns_info_in_array = false;
  /// Nothing if WriteOptions::read() refuses a field: the command is sent only once, unchanged.
  std::optional<WriteOptions> options;
  bool is_encrypted = false;  ///< by the driver, in part (encryptionInformation)
  bool takes_uuid = false;    ///< may name its collections by UUID, and does not

  /// Empty for bulkWrite.
  [[nodiscard]] std::string_view collection() const { return as_text(at(places.collection)); }
  [[nodiscard]] std::string_view db() const { return as_text(at(places.db)); }
  /// Value of the array, or the documents of the sequence. The only statement of findAndModify is
  /// its body.
  [[nodiscard]] Bytes statements() const { return at(places.statements); }
  /// If the statements are in an array in the body: the element, from type byte to end.
  [[nodiscard]] Bytes array_element() const { return at(places.array_element); }
  /// If they are in one: the section of kind 1, from its kind byte on.
  [[nodiscard]] Bytes sequence() const { return at(places.sequence); }
  /// Value of the array; empty if the client sent none.
  [[nodiscard]] Bytes stmt_ids() const { return at(places.stmt_ids); }
  /// Of bulkWrite: its collections, as statements().
  [[nodiscard]] Bytes ns_info() const { return at(places.ns_info); }
  [[nodiscard]] Bytes at(wire::Extent place) const { return place.in(message); }
  [[nodiscard]] wire::Extent place_of(Bytes part) const { return wire::Extent::of(part, message); }
  /// True if the statements are elements of an array in the body.
  [[nodiscard]] bool in_array() const { return places.array_element.size != 0; }
  [[nodiscard]] std::string_view identifier() const { return form_of(kind).identifier; }
  /// False for a findAndModify, which is its only statement.
  [[nodiscard]] bool in_batch() const { return !identifier().empty(); }
  /// The options if its `statements` may be sent in several commands; else nothing.
  [[nodiscard]] std::optional<WriteOptions> divisible(std::size_t statements) const;
  /// The indexes of all statements. Nothing if these cannot move from an array in the body to a
  /// sequence: mongod itself must decide whether it accepts keys other than "0", "1" …
  [[nodiscard]] std::optional<std::vector<std::int32_t>> movable() const;
  /// True if a number occurs twice, which makes a primary abort (observed, 6.0.5: fassert 40526).
  [[nodiscard]] bool repeats_stmt_id() const;
  /// Returns nothing if it is another command, or if mongod will refuse it because a name is not a
  /// string, a field is repeated, the statements occur twice or not at all, or there is a section
  /// that the command does not have.
  [[nodiscard]] static std::optional<WriteCommand> read(const wire::OpMsgView& message) {
    WriteFields fields;
    WriteCommand command;
    return read(message, fields, command) ? std::optional(command) : std::nullopt;
  }
  /// The same where the caller needs it, for each message. `out`: as it is made; says
  /// nothing after false.
  [[nodiscard]] static bool read(const wire::OpMsgView& message, WriteFields& fields,
                                 WriteCommand& out);
  /// Refers to a copy of its message from now on: nothing is read again.
  void refer_to(Bytes copy) { message = copy.data(); }
};

/// What the scan has read of a statement of update or bulkWrite, or of a findAndModify, and where
/// its parts are.
/// Offsets in the message, because its bytes move to a buffer of the write's own. Small, because an
/// update may have 100,000 statements.
struct UpsertParts {
  enum class Kind : std::uint8_t {
    plain,   ///< it inserts nothing
    insert,  ///< of bulkWrite: it inserts a document
    upsert,  ///< it may insert a document
    /// mongod alone knows whether it is an upsert: `upsert` is of a type that the proxy cannot
    /// evaluate.
    unknown,
  };
  Kind kind = Kind::plain;
  /// It may have changed documents even if it failed. It is sent again only after an error that
  /// comes from its insert, and its values are never given back.
  bool multi = false;
  bool is_pipeline = false;
  bool is_replacement = false;  ///< its update is a document without operators
  std::uint32_t whole = 0;
  std::uint32_t filter = 0;  ///< 0 if there is none
  std::uint32_t update = 0;  ///< a document or an array; 0 if there is none
};

/// Iterates over the statements of a write command, in each form.
class Statements {
 public:
  explicit Statements(const WriteCommand& command)
      : Statements(command.statements(), command.in_array()) {}
  /// `all`: the value of an array, or the documents of a sequence.
  Statements(Bytes all, bool in_array);

  /// Returns the next statement; nothing at the end or once malformed data is found.
  [[nodiscard]] std::optional<Bytes> next() {
    Bytes statement;
    return next(statement) ? std::optional(statement) : std::nullopt;
  }
  /// The same for loops in which each nanosecond counts: false at the end.
  [[nodiscard]] bool next(Bytes& statement) {
    if (at_ == end_ || malformed_) return false;
    malformed_ = in_array_ && !skip_key();
    if (malformed_) return false;
    const auto document = bson::document_at({at_, end_});
    malformed_ = !document;
    if (malformed_) return false;
    at_ += document->size();
    statement = *document;
    return true;
  }
  [[nodiscard]] bool malformed() const { return malformed_; }
  /// True if the keys of the array in the body have been "0", "1", … so far, and for other forms.
  [[nodiscard]] bool plain_keys() const { return plain_keys_; }

 private:
  [[nodiscard]] bool skip_key();

  const std::uint8_t* at_;   // the next element of the array, or the next document
  const std::uint8_t* end_;  // of all
  std::size_t count_ = 0;    // of elements of the array
  const bool in_array_;
  bool malformed_ = false;
  bool plain_keys_ = true;
};

}  // namespace idproxy::rewrite
