#include "idproxy/rewrite/reply.hpp"

#include <algorithm>
#include <array>

#include "idproxy/bson/builder.hpp"
#include "idproxy/wire/checksum.hpp"

namespace idproxy::rewrite {
namespace {

constexpr std::int64_t kInvalidIdField = 53;
// Of one reply; further errors go without text, so that the reply stays below 16 MiB.
constexpr std::size_t kErrorTexts = std::size_t{1} * 1024 * 1024;

/// Writes header and flags, and what must be known at the end around the body between them.
class ReplyFrame {
 public:
  ReplyFrame(Buffer& out, std::int32_t request_id, std::int32_t response_to, bool checksum)
      : out_(out), start_(out.size()), checksum_(checksum) {
    std::uint8_t* at = out.extend(wire::kSectionsOffset + 1);
    wire::write_header(at, {0, request_id, response_to, wire::OpCode::msg});
    store_u32(at + wire::kFlagsOffset, checksum ? wire::flag::kChecksumPresent : 0);
    at[wire::kSectionsOffset] = 0;
  }
  void close() {
    const std::size_t size = out_.size() - start_ + (checksum_ ? 4 : 0);
    store_i32(out_.data() + start_, static_cast<std::int32_t>(size));
    if (!checksum_) return;
    wire::Checksum checksum;
    checksum.add(out_.view().subspan(start_));
    store_u32(out_.extend(4), checksum.value());
  }

 private:
  Buffer& out_;
  std::size_t start_;
  bool checksum_;
};

/// The refusal that this entry of writeErrors reports; null if it is about something else.
const RefusedDocument* find_refusal(const bson::Element& entry,
                                    std::span<const RefusedDocument> refused) {
  if (entry.type != bson::Type::document) return nullptr;
  const auto index = bson::find(entry.value, "index");
  const auto code = bson::find(entry.value, "code");
  if (!index || !code || code->as_integer() != kInvalidIdField) return nullptr;
  // They ascend, as the documents do: there may be 100,000 of both.
  const auto found = std::ranges::lower_bound(refused, index->as_integer().value_or(-1), {},
                                              &RefusedDocument::index);
  const bool ours = found != refused.end() && index->as_integer() == found->index;
  return ours ? &*found : nullptr;
}

void append_write_errors(const bson::Element& errors, std::span<const RefusedDocument> refused,
                         Buffer& out) {
  bson::append_head(out, bson::Type::array, errors.key);
  bson::Scope array(out);
  std::size_t texts = 0;
  bson::Elements entries(errors.value);
  while (const auto entry = entries.next()) {
    const RefusedDocument* refusal = find_refusal(*entry, refused);
    if (refusal == nullptr) {
      bson::append_copy(out, *entry);
      continue;
    }
    bson::append_head(out, bson::Type::document, entry->key);
    bson::Scope document(out);
    bson::append_int32(out, "index", refusal->index);
    bson::append_int32(out, "code", static_cast<std::int32_t>(refusal->code));
    texts += refusal->message.size();
    bson::append_string(out, "errmsg", texts > kErrorTexts ? "" : refusal->message);
    document.close();
  }
  array.close();
}

bool holds_refusal(Bytes errors, std::span<const RefusedDocument> refused) {
  bson::Elements entries(errors);
  bool found = false;
  while (const auto entry = entries.next())
    found = found || find_refusal(*entry, refused) != nullptr;
  return found && !entries.malformed();
}

}  // namespace

std::string_view code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_value:
      return "BadValue";
    case ErrorCode::path_not_viable:
      return "PathNotViable";
    case ErrorCode::invalid_options:
      return "InvalidOptions";
    case ErrorCode::operation_failed:
      return "OperationFailed";
    case ErrorCode::bson_object_too_large:
      return "BSONObjectTooLarge";
  }
  return "UnknownError";
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
  bson::append_double(out, "ok", 0);
  bson::append_string(out, "errmsg", error.message);
  bson::append_int32(out, "code", static_cast<std::int32_t>(error.code));
  bson::append_string(out, "codeName", code_name(error.code));
  document.close();
  frame.close();
}

bool append_reply_with_refusals(Bytes reply, std::span<const RefusedDocument> refused,
                                Buffer& out) {
  const auto view = wire::OpMsgView::parse(reply);
  if (!view) return false;
  const auto errors = bson::find(view->body(), "writeErrors");
  if (!errors || errors->type != bson::Type::array) return false;
  if (!holds_refusal(errors->value, refused)) return false;
  const std::size_t start = out.size();
  ReplyFrame frame(out, view->header().request_id, view->header().response_to,
                   view->has(wire::flag::kChecksumPresent));
  bson::Scope document(out);
  bson::Elements fields(view->body());
  while (const auto field = fields.next()) {
    if (field->key == "writeErrors" && field->type == bson::Type::array) {
      append_write_errors(*field, refused, out);
    } else {
      bson::append_copy(out, *field);
    }
  }
  document.close();
  frame.close();
  if (fields.malformed()) out.truncate(start);
  return !fields.malformed();
}

}  // namespace idproxy::rewrite
