#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/reservations.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/write.hpp"

/// What differs between the kinds of write commands.
namespace idproxy::rewrite {

// ---- sending the client's command as one

/// Writes the whole message with these values, naming these collections by their UUIDs; if that is
/// too large for a message, only as much as shows it. Statements of an array in the body move to a
/// sequence. False if mongod itself must see the array, because of its keys. Not for findAndModify.
[[nodiscard]] bool emit_naming(std::span<const NamedCollection> named, const WriteRequest& write,
                               const GivenValues& given, Workspace& workspace,
                               wire::PatchedMessage& out);
/// True if the statements may go in several commands: no statement can make mongod refuse the whole
/// command instead of only that statement. Otherwise the first commands might store documents
/// before a later one is refused.
[[nodiscard]] bool separable(const WriteRequest& write);

// ---- in several commands

/// How to send some of the statements, and how to read and merge replies. Batch has the rest.
class BatchKind {
 public:
  /// Borrows its arguments. `given`: what scan() has recorded, with the values so far.
  BatchKind(const WriteRequest& write, const GivenValues& given)
      : write_(write), given_(given), ns_(write.ns()) {}
  virtual ~BatchKind() = default;
  BatchKind(const BatchKind&) = delete;
  BatchKind& operator=(const BatchKind&) = delete;

  /// The client's.
  [[nodiscard]] const wire::OpMsgView& message() const { return write_.message; }
  /// "db.collection".
  [[nodiscard]] std::string_view ns() const { return ns_; }

  /// The statements' `_id`s, those that they are given included; nothing in place of one that is
  /// missing. Empty if the statements are no documents.
  [[nodiscard]] virtual std::vector<ids::TypedValue> ids() const { return {}; }
  /// From now on, the server gets refused_document() in place of this one, and the client this
  /// error. Only for inserts, and for bulkWrite.
  virtual void refuse(RefusedDocument&& /*document*/) {}
  /// Fills `out` with a command that patches message(). Returns as InsertRewriter::emit_part().
  [[nodiscard]] virtual std::optional<std::size_t> emit(const WritePart& part, Workspace& workspace,
                                                        wire::PatchedMessage& out) const = 0;

  /// Reads the reply to a command with `sent` statements. Returns nothing if it cannot be
  /// understood.
  [[nodiscard]] virtual std::optional<WriteReply> read(Bytes body, std::size_t sent) const = 0;
  /// True if the reply, which has ok: 1, accounts for each of the `sent` statements.
  [[nodiscard]] virtual bool adds_up(const WriteReply& reply, const WriteOptions& options,
                                     std::span<const std::int32_t> sent) const = 0;
  /// True if the merged reply would have other errors than `reply`, even if that is the only one.
  [[nodiscard]] virtual bool replaces_errors(const WriteReply& reply,
                                             std::span<const std::int32_t> sent) const = 0;
  /// Merges `reply`, which is `message`, into the earlier replies. `sent`: the statements that its
  /// command carried.
  virtual void add(const wire::OpMsgView& message, const WriteReply& reply,
                   std::span<const std::int32_t> sent) = 0;
  /// Counts statements as stored of which no reply that is merged says so.
  virtual void add_stored(std::int64_t /*count*/) {}
  /// The statements with an error in the merged replies, ascending, and the entries of writeErrors
  /// as mongod wrote them.
  [[nodiscard]] virtual const std::map<std::int32_t, Buffer>& errors() const = 0;
  /// True if the statement, which has been executed without an error, has stored a document with
  /// the values that it was given: false for an upsert that found a document.
  [[nodiscard]] virtual bool inserted(std::int32_t statement) const = 0;
  /// True if mongod says that an earlier command had already executed the statement with this
  /// number.
  [[nodiscard]] virtual bool retried(std::int32_t number) const = 0;
  [[nodiscard]] virtual bool has_reply() const = 0;
  /// Appends the merged reply, as the answer to message().
  virtual void append_reply(std::span<const Assigned> assigned, Buffer& out) const = 0;

 protected:
  [[nodiscard]] const WriteRequest& write() const { return write_; }
  [[nodiscard]] const GivenValues& given() const { return given_; }

 private:
  const WriteRequest& write_;
  const GivenValues& given_;
  std::string ns_;
};

/// The one for the kind of `write`. `refused` as in ScanResult; of an insert.
[[nodiscard]] std::unique_ptr<BatchKind> make_command(const WriteRequest& write,
                                                      const GivenValues& given,
                                                      std::vector<RefusedDocument> refused);

}  // namespace idproxy::rewrite
