#include "rewrite/command_in_turn.hpp"

#include <array>
#include <string_view>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/guards.hpp"

namespace idproxy::rewrite {
namespace {

constexpr std::array<std::uint8_t, bson::kMinDocument> kNoFields{bson::kMinDocument};  // {}

/// True if a majority is at least what the client asks for.
bool is_up_to_majority(const std::optional<bson::Element>& w) {
  if (!w) return true;
  if (w->type == bson::Type::string) return w->text() == "majority";
  const auto members = w->as_integer();
  return members && *members <= 1;
}

/// Asks for the journal, too, which a standalone server does not wait for otherwise.
ids::Durability append_write_concern(Bytes body, Buffer& out) {
  const auto sent = bson::find(body, "writeConcern");
  const bool has_concern = sent && sent->type == bson::Type::document;
  const Bytes concern = has_concern ? sent->value : Bytes(kNoFields);
  const bool raises = is_up_to_majority(bson::find(concern, "w"));
  bool has_j = false;
  bson::append_inside(out, bson::Type::document, "writeConcern", [&] {
    if (raises) bson::append_string(out, "w", "majority");
    bson::Elements fields(concern);
    while (const auto field = fields.next()) {
      has_j = has_j || field->key == "j";
      if (!raises || field->key != "w") bson::append_copy(out, *field);
    }
    if (raises && !has_j) bson::append_bool(out, "j", true);
  });
  return raises ? ids::Durability::by_majority : ids::Durability::not_yet;
}

void append_w_1(Buffer& out) {
  bson::append_inside(out, bson::Type::document, "writeConcern",
                      [&] { bson::append_int32(out, "w", 1); });
}

}  // namespace

void append_fields_of_question(RandomSource& random, Buffer& out) {
  ids::CollectionUuid none{};
  random.fill(none);
  bson::Scope fields(out);
  bson::append_bool(out, "ordered", true);
  append_w_1(out);
  append_uuid(none, out);
  fields.close();
}

ids::Durability append_fields_in_turn(Bytes body, WriteKind kind, AnswersAfter after, Buffer& out) {
  auto durability = ids::Durability::not_yet;
  if (kind != WriteKind::find_and_modify) bson::append_bool(out, "ordered", true);
  if (after == AnswersAfter::majority) {
    durability = append_write_concern(body, out);
  } else {
    append_w_1(out);
  }
  return durability;
}

std::optional<std::string> transaction_of(Bytes body) {
  const auto lsid = bson::find(body, "lsid");
  const auto number = bson::find(body, "txnNumber");
  if (!lsid || lsid->type != bson::Type::document) return std::nullopt;
  if (!number || number->type != bson::Type::int64) return std::nullopt;
  return std::string(as_text(lsid->value)).append(as_text(number->value));
}

}  // namespace idproxy::rewrite
