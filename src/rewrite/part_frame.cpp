#include "rewrite/part_frame.hpp"

#include <string>
#include <string_view>
#include <unordered_map>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/guard_stage.hpp"

namespace idproxy::rewrite {
namespace {

/// The bytes between the length of a document and its final 00.
Bytes elements_of(Bytes document) {
  return document.subspan(4, document.size() - bson::kMinDocument);
}

/// True for the fields that depend on which statements the command carries, or on where they are.
bool depends_on_part(const WriteRequest& write, const WritePart& part, const bson::Element& field) {
  if (field.begin == write.command.array_element().data()) return true;
  if (write.command.kind == WriteKind::bulk_write) {
    if (field.key == "nsInfo" || (write.all_results && field.key == "errorsOnly")) return true;
  }
  if (!part.instead.empty() && bson::find(part.instead, field.key)) return true;
  if (part.options == nullptr) return false;
  const bool is_number = field.key == "stmtId" || field.key == "stmtIds";
  // That has begun.
  const bool begins_transaction = !part.first && part.options->in_transaction &&
                                  (field.key == "startTransaction" || field.key == "readConcern");
  return begins_transaction || field.key == "maxTimeMS" || (is_number && part.numbered);
}

}  // namespace

WholeFrame::WholeFrame(const WriteRequest& write, wire::PatchedMessage& out, std::size_t expected)
    : write_(write), out_(out) {
  out.start(write.message.message(), expected);
  open(write.message.message().data());
  if (write.command.in_array()) {
    open(write.message.body().data());
    open(write.command.statements().data());
  } else if (write.command.places.sequence.size != 0) {
    open(write.command.sequence().data() + 1);
  }
}

void WholeFrame::open(const std::uint8_t* length) {
  const auto place = static_cast<std::size_t>(length - write_.message.message().data());
  out_.keep(at_, place);
  lengths_[count_++] = {out_.add_i32(), load_i32(length)};
  at_ = place + 4;
}

bool WholeFrame::outgrows_body(std::size_t at) const {
  const auto body = static_cast<std::int64_t>(write_.message.body().size());
  return write_.command.in_array() && body <= bson::kMaxInternalDocument &&
         body + growth(at) > bson::kMaxInternalDocument;
}

void WholeFrame::close(std::size_t at) {
  const bool checksum = write_.message.has(wire::flag::kChecksumPresent);
  const std::int64_t grown = growth(at);
  out_.keep(at, write_.message.message().size() - (checksum ? 4 : 0));
  for (std::size_t i = 0; i < count_; ++i) {
    out_.set_i32(lengths_[i].place, lengths_[i].before + grown);
  }
  if (checksum) out_.add_checksum();
}

PartFrame::PartFrame(const WriteRequest& write, const WritePart& part, wire::PatchedMessage& out,
                     const UpsertEdit* edit)
    : write_(write), client_(write.message), part_(part), out_(out), most_(part.statements.size()) {
  out.start(client_.message());
  message_size_ = out.add_i32();
  out.set_i32(out.add_i32(), part.request_id);
  out.keep(8, wire::kSectionsOffset);
  body(edit);
  if (edit != nullptr) {
    fit_ = 1;
    return;
  }
  if (is(WriteKind::bulk_write)) ns_info();
  begin_section(write.command.identifier());
}

/// Writes the section of kind 0: the client's fields that stay, and those in place of the others.
void PartFrame::body(const UpsertEdit* edit) {
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
  for (const bson::Element& field : bson::Elements(body)) {
    const bool is_edited = edit != nullptr && field.value.data() == edit->statement().update.data();
    if (!is_edited && !depends_on_part(write_, part_, field)) continue;
    out_.keep(at, offset(field.begin));
    at = offset(field.end());
    if (is_edited) edit->write(client_.message(), {field.begin, field.end()}, out_);
    if (field.key != "maxTimeMS" || !part_.max_time_ms) continue;
    added.clear();
    bson::append_int64(added, field.key, *part_.max_time_ms);
    out_.add(added.view());
  }
  out_.keep(at, offset(body.data()) + body.size() - 1);
  added.clear();
  if (!part_.instead.empty()) added.append(elements_of(part_.instead));
  if (!is(WriteKind::bulk_write)) {
    for (const NamedCollection& each : part_.named) append_uuid(each.uuid, added);
  }
  if (options != nullptr && part_.numbered && options->may_be_repeated()) {
    numbers(out_.size() - start, added);
  }
  out_.add(added.view());
  *out_.add(1) = 0;
  out_.set_i32(size, static_cast<std::int64_t>(out_.size() - start));
}

/// Appends `stmtIds` to what the body gets, which has `body_size` bytes without it.
void PartFrame::numbers(std::size_t body_size, Buffer& added) {
  constexpr std::size_t kEnds = 2;  // of the array and of the body
  bson::append_head(added, bson::Type::array, "stmtIds");
  bson::Scope array(added);
  for (std::size_t i = 0; i < most_; ++i) {
    bson::append_int32(added, std::to_string(i), part_.options->number_of(part_.statements[i]));
    const auto size = static_cast<std::int64_t>(body_size + added.size() + kEnds);
    if (i > 0 && size > bson::kMaxInternalDocument) most_ = i;
  }
  array.close();
}

/// Writes the collections of a bulkWrite. They are few and short: copied.
void PartFrame::ns_info() {
  begin_section("nsInfo");
  Buffer copy;
  std::unordered_map<std::string_view, const ids::CollectionUuid*> named;
  for (const NamedCollection& each : part_.named) named.emplace(each.ns, &each.uuid);
  Statements entries(write_.command.ns_info(), write_.command.ns_info_in_array);
  while (const auto entry = entries.next()) {
    const auto uuid = named.find(bson::find(*entry, "ns")->text());
    if (uuid == named.end() || bson::find(*entry, "collectionUUID")) {
      out_.add(*entry);
      continue;
    }
    copy.clear();
    bson::Scope document(copy);
    copy.append(elements_of(*entry));
    append_uuid(*uuid->second, copy);
    document.close();
    out_.add(copy.view());
  }
  end_section();
}

void PartFrame::begin_section(std::string_view identifier) {
  *out_.add(1) = 1;
  section_start_ = out_.size();
  section_size_ = out_.add_i32();
  out_.add(as_bytes(identifier));
  *out_.add(1) = 0;
}

void PartFrame::end_section() {
  out_.set_i32(section_size_, static_cast<std::int64_t>(out_.size() - section_start_));
}

bool PartFrame::has_room() {
  const bool fits =
      fit_ < most_ && out_.size() + checksum_size() <= std::size_t{wire::kMaxMessageSize};
  if (fit_ > 0 && !fits) return false;
  ++fit_;
  return true;
}

std::size_t PartFrame::close() {
  if (section_start_ != 0) end_section();
  out_.set_i32(message_size_, static_cast<std::int64_t>(out_.size() + checksum_size()));
  if (checksum_size() > 0) out_.add_checksum();
  return fit_;
}

}  // namespace idproxy::rewrite
