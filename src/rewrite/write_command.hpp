#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/base/buffer.hpp"
#include "idproxy/ids/reservations.hpp"
#include "idproxy/rewrite/workspace.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/rewrite/write_reply.hpp"
#include "rewrite/reply_merge.hpp"

namespace idproxy::rewrite {

/// The parts that differ between kinds of write commands: how to send some of the statements, and
/// how to read and merge replies. WriteBatch has the rest.
class WriteCommand {
 public:
  /// `original`: the client's message; `message` is a view of it.
  WriteCommand(Buffer original, const wire::OpMsgView& message)
      : original_(std::move(original)), message_(message) {}
  virtual ~WriteCommand() = default;
  WriteCommand(const WriteCommand&) = delete;  // message_ points into original_
  WriteCommand& operator=(const WriteCommand&) = delete;

  [[nodiscard]] const wire::OpMsgView& message() const { return message_; }
  /// Returns the buffer of the client's message. Must be the last call.
  [[nodiscard]] Buffer release() { return std::move(original_); }
  /// "db.collection".
  [[nodiscard]] virtual std::string_view ns() const = 0;

  /// How many of the statements, from the first on, fit into one message; at least one.
  [[nodiscard]] virtual std::size_t fitting(const GivenValues& given,
                                            std::span<const std::int32_t> statements) const = 0;
  /// The statements' `_id`s, those that they are given included; nothing in place of one that is
  /// missing. Empty if the statements are no documents.
  [[nodiscard]] virtual std::vector<ids::TypedValue> ids(const Plan& /*plan*/,
                                                         const GivenValues& /*given*/) const {
    return {};
  }
  /// From now on, the server gets refused_document() in place of this one, and the client this
  /// error. Only for inserts.
  virtual void refuse(RefusedDocument&& /*document*/) {}
  /// Fills `out` with a command that patches message(). Returns false if a statement is malformed.
  [[nodiscard]] virtual bool emit(const GivenValues& given, const WritePart& part,
                                  Workspace& workspace, wire::PatchedMessage& out) const = 0;

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

 private:
  Buffer original_;
  wire::OpMsgView message_;
};

}  // namespace idproxy::rewrite
