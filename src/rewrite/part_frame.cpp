#include "rewrite/part_frame.hpp"

#include <string>

#include "idproxy/bson/builder.hpp"

namespace idproxy::rewrite {
namespace {

bool begins_transaction(std::string_view field) {
  return field == "startTransaction" || field == "readConcern";
}

/// The bytes between the length of a document and its final 00.
Bytes elements_of(Bytes document) {
  return document.subspan(4, document.size() - bson::kMinDocument);
}

}  // namespace

PartFrame::PartFrame(const wire::OpMsgView& client, const WriteCommand& command,
                     const WritePart& part, wire::PatchedMessage& out)
    : client_(client), command_(command), part_(part), out_(out) {
  out.start(client.message());
  message_size_ = out.add_i32();
  out.set_i32(out.add_i32(), part.request_id);
  out.keep(8, wire::kSectionsOffset);
  body();
  *out.add(1) = 1;
  section_start_ = out.size();
  section_size_ = out.add_i32();
  out.add(as_bytes(command.identifier()));
  *out.add(1) = 0;
}

/// Writes the section of kind 0: the client's fields, except those that depend on which statements
/// the command carries.
void PartFrame::body() {
  const Bytes body = client_.body();
  const auto offset = [&](const std::uint8_t* at) {
    return static_cast<std::size_t>(at - client_.message().data());
  };
  *out_.add(1) = 0;
  const std::size_t start = out_.size();
  const std::size_t size = out_.add_i32();
  std::size_t at = offset(body.data()) + 4;
  const WriteOptions* options = part_.options;
  Buffer added;
  bson::Elements fields(body);
  while (const auto field = fields.next()) {
    const bool time = options != nullptr && field->key == "maxTimeMS";
    const bool numbers = options != nullptr && (field->key == "stmtId" || field->key == "stmtIds");
    const bool begins = !part_.first && options->in_transaction && begins_transaction(field->key);
    const bool replaced = !part_.instead.empty() && bson::find(part_.instead, field->key);
    if (field->key != command_.identifier() && !time && !numbers && !begins && !replaced) continue;
    out_.keep(at, offset(field->begin));
    at = offset(field->end());
    if (!time || !part_.max_time_ms) continue;
    added.clear();
    bson::append_int64(added, field->key, *part_.max_time_ms);
    out_.add(added.view());
  }
  out_.keep(at, offset(body.data()) + body.size() - 1);
  if (!part_.instead.empty()) out_.add(elements_of(part_.instead));
  if (options != nullptr && options->has_txn_number && !options->in_transaction) {
    added.clear();
    bson::append_head(added, bson::Type::array, "stmtIds");
    bson::Scope array(added);
    for (std::size_t i = 0; i < part_.statements.size(); ++i) {
      bson::append_int32(added, std::to_string(i), options->number_of(part_.statements[i]));
    }
    array.close();
    out_.add(added.view());
  }
  *out_.add(1) = 0;
  out_.set_i32(size, static_cast<std::int64_t>(out_.size() - start));
}

void PartFrame::close() {
  out_.set_i32(section_size_, static_cast<std::int64_t>(out_.size() - section_start_));
  const bool checksum = client_.has(wire::flag::kChecksumPresent);
  out_.set_i32(message_size_, static_cast<std::int64_t>(out_.size() + (checksum ? 4 : 0)));
  if (checksum) out_.add_checksum();
}

}  // namespace idproxy::rewrite
