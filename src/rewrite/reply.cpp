#include "idproxy/rewrite/reply.hpp"

#include <array>

#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/checksum.hpp"
#include "reply_frame.hpp"

namespace idproxy::rewrite {
namespace {

void append_error(const CommandError& error, Buffer& out) {
  bson::append_double(out, "ok", 0);
  bson::append_string(out, "errmsg", error.message);
  bson::append_int32(out, "code", static_cast<std::int32_t>(error.code));
  bson::append_string(out, "codeName", code_name(error.code));
  if (error.label.empty()) return;
  bson::append_head(out, bson::Type::array, "errorLabels");
  bson::Scope labels(out);
  bson::append_string(out, "0", error.label);
  labels.close();
}

}  // namespace

ReplyFrame::ReplyFrame(Buffer& out, std::int32_t request_id, std::int32_t response_to,
                       bool checksum)
    : out_(out), start_(out.size()), checksum_(checksum) {
  std::uint8_t* at = out.extend(wire::kSectionsOffset + 1);
  wire::write_header(at, {0, request_id, response_to, wire::OpCode::msg});
  store_u32(at + wire::kFlagsOffset, checksum ? wire::flag::kChecksumPresent : 0);
  at[wire::kSectionsOffset] = 0;
}

void ReplyFrame::close() {
  const std::size_t size = out_.size() - start_ + (checksum_ ? 4 : 0);
  store_i32(out_.data() + start_, static_cast<std::int32_t>(size));
  if (!checksum_) return;
  wire::Checksum checksum;
  checksum.add(out_.view().subspan(start_));
  store_u32(out_.extend(4), checksum.value());
}

std::string_view code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_value:
      return "BadValue";
    case ErrorCode::host_unreachable:
      return "HostUnreachable";
    case ErrorCode::unauthorized:
      return "Unauthorized";
    case ErrorCode::path_not_viable:
      return "PathNotViable";
    case ErrorCode::max_time_ms_expired:
      return "MaxTimeMSExpired";
    case ErrorCode::invalid_options:
      return "InvalidOptions";
    case ErrorCode::operation_failed:
      return "OperationFailed";
    case ErrorCode::write_conflict:
      return "WriteConflict";
    case ErrorCode::bson_object_too_large:
      return "BSONObjectTooLarge";
  }
  return "UnknownError";
}

ErrorCode code_of(ids::Errc why) {
  return why == ids::Errc::unavailable ? ErrorCode::host_unreachable : ErrorCode::operation_failed;
}

Bytes refused_document() {
  static constexpr std::array<std::uint8_t, 15> kDocument = {15, 0, 0, 0, 4, '_', 'i', 'd',
                                                             0,  5, 0, 0, 0, 0,   0};
  return kDocument;
}

void append_error_reply(const wire::OpMsgView& request, std::int32_t request_id,
                        const CommandError& error, Buffer& out) {
  ReplyFrame frame(out, request_id, request.header().request_id,
                   request.has(wire::flag::kChecksumPresent));
  bson::Scope document(out);
  append_error(error, out);
  document.close();
  frame.close();
}

void append_undone_reply(const wire::OpMsgView& reply, std::int32_t response_to,
                         const CommandError& error, Buffer& out) {
  ReplyFrame frame(out, reply.header().request_id, response_to,
                   reply.has(wire::flag::kChecksumPresent));
  const auto copy = [&](std::initializer_list<std::string_view> keys) {
    bson::Elements fields(reply.body());
    while (const auto field = fields.next()) {
      if (std::ranges::find(keys, field->key) != keys.end()) bson::append_copy(out, *field);
    }
  };
  bson::Scope document(out);
  copy({"electionId", "opTime"});
  append_error(error, out);
  copy({"recoveryToken", "$clusterTime", "operationTime"});
  document.close();
  frame.close();
}

void append_readdressed(const wire::OpMsgView& reply, std::int32_t response_to, Buffer& out) {
  ReplyFrame frame(out, reply.header().request_id, response_to,
                   reply.has(wire::flag::kChecksumPresent));
  out.append(reply.body());
  frame.close();
}

}  // namespace idproxy::rewrite
