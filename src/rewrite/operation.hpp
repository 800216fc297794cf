#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/reservations.hpp"
#include "idproxy/rewrite/insert.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/write.hpp"
#include "rewrite/upsert_edit.hpp"

/// What differs between the kinds of write commands.
namespace idproxy::rewrite {

/// Writes the whole message with these values. If they make an array in the body too large, it goes
/// as a sequence. Of an insert, must follow InsertRewriter::scan(). Not for bulkWrite. As::update:
/// without upsert, of a command with one statement.
void emit(const WriteRequest& write, const GivenValues& given, InsertRewriter& documents,
          wire::PatchedMessage& out, UpsertEdit::As as = UpsertEdit::As::upsert);
/// Writes the whole message with these values and its statements in a sequence, naming these
/// collections by their UUIDs; if that is too large for a message, only as much as shows it. False
/// if mongod itself must see the array in the body, because of its keys. Not for findAndModify.
[[nodiscard]] bool emit_as_sequence(const WriteRequest& write, const GivenValues& given,
                                    std::span<const NamedCollection> named,
                                    InsertRewriter& documents, wire::PatchedMessage& out,
                                    UpsertEdit::As as = UpsertEdit::As::upsert);
/// True if the statements may go in several commands: no statement can make mongod refuse the whole
/// command instead of only that statement. Otherwise the first commands might store documents
/// before a later one is refused.
[[nodiscard]] bool separable(const WriteRequest& write);

/// A write that may take several commands: how to send some of its statements, and how to read and
/// merge the replies. Batch has the rest.
class Operation {
 public:
  /// Borrows its arguments. `given`: what scan() has recorded, with the values so far. `refused`:
  /// documents that were replaced by refused_document(); they ascend by index.
  Operation(const WriteRequest& write, const GivenValues& given,
            std::vector<RefusedDocument> refused);
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// The client's.
  [[nodiscard]] const WriteRequest& write() const { return write_; }
  [[nodiscard]] const wire::OpMsgView& message() const { return write_.message; }
  [[nodiscard]] WriteKind kind() const { return write_.command.kind; }
  /// "db.collection".
  [[nodiscard]] std::string_view ns() const { return ns_; }
  /// The documents' `_id`s, those that they are given included; nothing in place of one that is
  /// missing. Empty if the statements are no documents.
  [[nodiscard]] std::vector<ids::TypedValue> ids() const;
  [[nodiscard]] const std::vector<RefusedDocument>& refused() const { return refused_; }

  /// From now on, the server gets refused_document() in place of this one, and the client this
  /// error.
  void refuse(RefusedDocument&& document);
  /// Fills `out` with a command that patches message(). Returns as InsertRewriter::emit_part().
  [[nodiscard]] virtual std::optional<std::size_t> emit(WritePart part, Workspace& workspace,
                                                        wire::PatchedMessage& out) const;

  /// Reads the reply to a command with `sent` statements. Returns nothing if it cannot be
  /// understood.
  [[nodiscard]] virtual std::optional<WriteReply> read(Bytes body, std::size_t sent) const;
  /// True if the reply, which has ok: 1, accounts for each of the `sent` statements.
  [[nodiscard]] virtual bool adds_up(const WriteReply& reply, const WriteOptions& options,
                                     std::span<const std::int32_t> sent) const;
  /// True if the merged reply would have other errors than `reply`, even if that is the only one.
  [[nodiscard]] bool replaces_errors(const WriteReply& reply,
                                     std::span<const std::int32_t> sent) const;
  /// Those that have been merged so far, which adds_up() has accepted.
  [[nodiscard]] ReplyMerge& replies() { return replies_; }
  [[nodiscard]] const ReplyMerge& replies() const { return replies_; }
  /// True if the statement, which has been executed without an error, has stored a document with
  /// the values that it was given: false for an upsert that found a document.
  [[nodiscard]] bool inserted(std::int32_t statement) const {
    return kind_of(statement) == UpsertParts::Kind::insert || replies_.upserted(statement);
  }
  /// Appends the merged reply, as the answer to message().
  void append_reply(std::span<const Assigned> assigned, Buffer& out) const;

 protected:
  [[nodiscard]] const GivenValues& given() const { return given_; }

 private:
  [[nodiscard]] UpsertParts::Kind kind_of(std::int32_t statement) const {
    if (given_.upserts.empty()) return UpsertParts::Kind::insert;
    return given_.upserts[static_cast<std::size_t>(statement)].kind;
  }

  const WriteRequest& write_;
  const GivenValues& given_;
  std::string ns_;
  std::vector<RefusedDocument> refused_;
  ReplyMerge replies_;
};

}  // namespace idproxy::rewrite
