#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/patched_message.hpp"

/// The messages that the proxy writes itself.
namespace idproxy::rewrite {

/// Appends an OP_MSG with one body. The constructor appends the header, the flags and the section's
/// kind; the caller then appends the document; close() sets the length and adds the checksum.
class ReplyFrame {
 public:
  ReplyFrame(Buffer& out, std::int32_t request_id, std::int32_t response_to, bool checksum);
  void close();

 private:
  Buffer& out_;
  std::size_t start_;
  bool checksum_;
};

/// Appends a whole OP_MSG, of whose body `append` appends the elements.
template <class Append>
void append_op_msg(Buffer& out, std::int32_t request_id, std::int32_t response_to, bool checksum,
                   const Append& append) {
  ReplyFrame frame(out, request_id, response_to, checksum);
  bson::Scope body(out);
  append();
  body.close();
  frame.close();
}

/// The same as the answer to `request`: with a checksum if that has one.
template <class Append>
void append_answer(Buffer& out, std::int32_t request_id, const wire::OpMsgView& request,
                   const Append& append) {
  append_op_msg(out, request_id, request.header().request_id,
                request.has(wire::flag::kChecksumPresent), append);
}

/// Appends the fields of these names that the document has.
void append_fields(Bytes from, std::initializer_list<std::string_view> names, Buffer& out);

/// A command of the proxy's own on a client's connection, beside the client's message: with a
/// checksum if that has one, and with some of its fields.
///
///   OwnCommand command(client, request_id);
///   bson::append_string(command.body(), "find", "orders");
///   command.send(kept, "shop", out);
class OwnCommand {
 public:
  OwnCommand(const wire::OpMsgView& client, std::int32_t request_id)
      : client_(client),
        frame_(out_, request_id, 0, client.has(wire::flag::kChecksumPresent)),
        document_(out_) {}
  OwnCommand(const OwnCommand&) = delete;
  OwnCommand& operator=(const OwnCommand&) = delete;

  [[nodiscard]] Buffer& body() { return out_; }
  /// Appends the client's fields of these names, and `db`; then the command is whole, and `out` has
  /// it.
  void send(std::span<const std::string_view> kept, std::string_view db, wire::PatchedMessage& out);

 private:
  const wire::OpMsgView& client_;
  Buffer out_;
  ReplyFrame frame_;
  bson::Scope document_;
};

}  // namespace idproxy::rewrite
