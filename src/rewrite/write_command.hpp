#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "idproxy/base/buffer.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/workspace.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/rewrite/write_reply.hpp"

namespace idproxy::rewrite {

/// What is particular to one kind of write command: how some of its statements are sent, and what
/// its replies say. WriteBatch has the rest.
class WriteCommand {
 public:
  /// `original`: the client's message; `message` is a view of it.
  WriteCommand(Buffer original, const wire::OpMsgView& message)
      : original_(std::move(original)), message_(message) {}
  virtual ~WriteCommand() = default;
  WriteCommand(const WriteCommand&) = delete;  // message_ points into original_
  WriteCommand& operator=(const WriteCommand&) = delete;

  [[nodiscard]] const wire::OpMsgView& message() const { return message_; }
  /// The original, at the end: nothing may be called afterwards.
  [[nodiscard]] Buffer release() { return std::move(original_); }
  /// "db.collection".
  [[nodiscard]] virtual std::string_view ns() const = 0;

  /// How many of the statements fit into one message; one at least.
  [[nodiscard]] virtual std::size_t fitting(const GivenValues& given,
                                            std::span<const std::int32_t> statements) const = 0;
  /// Fills `out` with a command that patches message(). False if a statement is malformed.
  [[nodiscard]] virtual bool emit(const GivenValues& given, const WritePart& part,
                                  Workspace& workspace, wire::PatchedMessage& out) const = 0;

  /// Nothing if the reply, of `sent` statements, cannot be understood.
  [[nodiscard]] virtual std::optional<WriteReply> read(Bytes body, std::size_t sent) const = 0;
  /// True if the reply, which is ok, accounts for each of the `sent` statements.
  [[nodiscard]] virtual bool adds_up(const WriteReply& reply, const WriteOptions& options,
                                     std::size_t sent) const = 0;
  /// True if add() would make another reply of it, though it is the only one.
  [[nodiscard]] virtual bool replaces_errors(const WriteReply& reply,
                                             std::span<const std::int32_t> sent) const = 0;
  /// Merges what `reply`, of `message`, says of these statements with what earlier ones said.
  virtual void add(const wire::OpMsgView& message, const WriteReply& reply,
                   std::span<const std::int32_t> sent) = 0;
  /// Of the replies that were added: statements with an error, ascending, and the entry as mongod
  /// wrote it.
  [[nodiscard]] virtual const std::map<std::int32_t, Buffer>& errors() const = 0;
  /// True if mongod says that the statement of this number had been executed by an earlier command.
  [[nodiscard]] virtual bool retried(std::int32_t number) const = 0;
  [[nodiscard]] virtual bool has_reply() const = 0;
  /// Appends the merged reply, in answer to message().
  virtual void append_reply(std::span<const Assigned> assigned, Buffer& out) const = 0;

 private:
  Buffer original_;
  wire::OpMsgView message_;
};

}  // namespace idproxy::rewrite
