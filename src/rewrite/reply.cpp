#include "idproxy/rewrite/reply.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/command.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/op_query.hpp"
#include "rewrite/own_message.hpp"

namespace idproxy::rewrite {
namespace {

void append_labels(std::string_view label, bool repeats_write, Buffer& out) {
  if (label.empty() && !repeats_write) return;
  bson::append_inside(out, bson::Type::array, "errorLabels", [&] {
    if (!label.empty()) bson::append_string(out, "0", label);
    if (repeats_write) bson::append_string(out, label.empty() ? "0" : "1", kNoWritesPerformed);
  });
}

void append_error(const CommandError& error, Buffer& out) {
  bson::append_double(out, "ok", 0);
  bson::append_string(out, "errmsg", error.message);
  const auto code = static_cast<std::int32_t>(error.code);
  bson::append_int32(out, "code", code);
  bson::append_string(out, "codeName", server_code(code).name);
  append_labels(error.label, error.repeats_write, out);
  out.append(as_bytes(error.details));
}

/// Sets the flag that servers set in every answer to a command (observed, 6.0.5).
void append_op_reply(std::int32_t response_to, std::int32_t request_id, const CommandError& error,
                     Buffer& out) {
  constexpr std::uint32_t kAwaitCapable = 1U << 3;
  const std::size_t start = out.size();
  std::uint8_t* at = out.extend(wire::kReplyDocuments);
  std::memset(at, 0, wire::kReplyDocuments);  // clears cursorID and startingFrom, too
  store_u32(at + wire::kHeaderSize, kAwaitCapable);
  store_i32(at + wire::kReplyDocuments - 4, 1);  // numberReturned
  bson::Scope document(out);
  append_error(error, out);
  document.close();
  const auto length = static_cast<std::int32_t>(out.size() - start);
  wire::write_header(out.data() + start, {length, request_id, response_to, wire::OpCode::reply});
}

CommandError shutting_down() {
  return {ErrorCode::shutdown_in_progress, "mongo-idproxy is shutting down"};
}

bool in_transaction(const Command& command) {
  return bson::find_integer(command.document(), "autocommit") == 0;
}

/// The label for a command that was not sent to the server: a driver that may try again should.
std::string_view label_of_unsent(const Command& command) {
  if (is_hello(command.name)) return {};
  const bool ends_it = command.name == "commitTransaction" || command.name == "abortTransaction";
  return in_transaction(command) && !ends_it ? kTransientTransactionError : kRetryableWriteError;
}

bool may_repeat_write(const Command& command) {
  return bson::find(command.document(), "txnNumber") && !in_transaction(command);
}

}  // namespace

ErrorCode code_of(ids::Errc why) {
  return why == ids::Errc::unavailable ? ErrorCode::host_unreachable : ErrorCode::operation_failed;
}

Bytes refused_document() {
  static constexpr std::array<std::uint8_t, 15> kDocument = {15, 0, 0, 0, 4, '_', 'i', 'd',
                                                             0,  5, 0, 0, 0, 0,   0};
  return kDocument;
}

void append_error_reply(Bytes request, std::int32_t request_id, const CommandError& error,
                        Buffer& out) {
  const wire::MsgHeader header = wire::read_header(request);
  if (header.op_code == wire::OpCode::query) {
    return append_op_reply(header.request_id, request_id, error, out);
  }
  const std::uint32_t flags =
      request.size() < wire::kSectionsOffset ? 0 : load_u32(request.data() + wire::kFlagsOffset);
  append_op_msg(out, request_id, header.request_id, (flags & wire::flag::kChecksumPresent) != 0,
                [&] { append_error(error, out); });
}

bool may_repeat_write(Bytes request) {
  const auto command = Command::find(request);
  return command && may_repeat_write(*command);
}

bool append_unsent_reply(Bytes request, std::int32_t request_id, CommandError error, Buffer& out) {
  const wire::MsgHeader header = wire::read_header(request);
  if (header.op_code != wire::OpCode::msg && header.op_code != wire::OpCode::query) return false;
  const auto command = Command::find(request);
  if (!command || !wire::expects_reply(header, request)) return false;
  error.label = label_of_unsent(*command);
  error.repeats_write = may_repeat_write(*command);
  append_error_reply(request, request_id, error, out);
  return true;
}

bool append_shutdown_reply(Bytes request, std::int32_t request_id, Buffer& out) {
  return append_unsent_reply(request, request_id, shutting_down(), out);
}

void append_shutdown_reply_to(std::int32_t response_to, std::int32_t request_id, Buffer& out) {
  append_op_msg(out, request_id, response_to, false, [&] { append_error(shutting_down(), out); });
}

void append_undone_reply(const wire::OpMsgView& reply, std::int32_t response_to,
                         const CommandError& error, Buffer& out) {
  const auto copy = [&](std::initializer_list<std::string_view> keys) {
    for (const bson::Element& field : bson::Elements(reply.body())) {
      if (std::ranges::find(keys, field.key) != keys.end()) bson::append_copy(out, field);
    }
  };
  append_op_msg(out, reply.header().request_id, response_to,
                reply.has(wire::flag::kChecksumPresent), [&] {
                  copy({"electionId", "opTime"});
                  append_error(error, out);
                  copy({"recoveryToken", "$clusterTime", "operationTime"});
                });
}

void append_refusal(const wire::OpMsgView& request, const wire::OpMsgView& reply,
                    std::string_view needed, Buffer& out) {
  const std::int64_t code = bson::integer_in(reply.body(), "code");
  const bool lacks_right = code == ErrorCode::unauthorized;
  const auto command = Command::find(request.message());
  const bool is_transient =
      command && bson::find(command->document(), "txnNumber") && is(code, CodeTrait::retryable);
  append_answer(out, reply.header().request_id, request, [&] {
    for (const bson::Element& field : bson::Elements(reply.body())) {
      if (is_transient && field.key == "errorLabels") continue;
      if (lacks_right && field.key == "errmsg" && field.type == bson::Type::string) {
        bson::append_string(out, "errmsg", std::string(needed).append(field.text()));
      } else {
        bson::append_copy(out, field);
      }
    }
    if (is_transient) append_labels(label_of_unsent(*command), may_repeat_write(*command), out);
  });
}

bool rejects(std::string_view field, const wire::OpMsgView& reply, std::int64_t code) {
  if (!is(code, CodeTrait::rejects_field)) return false;
  const auto errmsg = bson::find(reply.body(), "errmsg", bson::Type::string);
  return errmsg && errmsg->text().find(field) != std::string_view::npos;
}

void append_readdressed(const wire::OpMsgView& reply, std::int32_t response_to, Buffer& out) {
  ReplyFrame frame(out, reply.header().request_id, response_to,
                   reply.has(wire::flag::kChecksumPresent));
  out.append(reply.body());
  frame.close();
}

void append_failure_of_later(const wire::OpMsgView& reply, std::int32_t response_to, Buffer& out) {
  const bool checksum = reply.has(wire::flag::kChecksumPresent);
  append_op_msg(out, reply.header().request_id, response_to, checksum, [&] {
    for (const bson::Element& field : bson::Elements(reply.body())) {
      if (field.key != "errorLabels" || field.type != bson::Type::array) {
        bson::append_copy(out, field);
        continue;
      }
      bson::append_inside(out, bson::Type::array, "errorLabels", [&] {
        bson::Elements labels(field.value);
        int place = 0;
        while (const auto label = labels.next()) {
          if (label->type != bson::Type::string || label->text() == kNoWritesPerformed) continue;
          bson::append_string(out, std::to_string(place++), label->text());
        }
      });
    }
  });
}

}  // namespace idproxy::rewrite
