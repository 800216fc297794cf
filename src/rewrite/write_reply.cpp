#include "idproxy/rewrite/write_reply.hpp"

#include <array>
#include <utility>

namespace idproxy::rewrite {
namespace {

constexpr std::size_t kMostLabels = 16;  // servers have about ten

/// The number of elements of the array; nothing unless all are of this type.
std::optional<std::size_t> count_of(const bson::Element& array, bson::Type type) {
  if (array.type != bson::Type::array) return std::nullopt;
  std::size_t count = 0;
  bson::Elements elements(array.value);
  while (const auto element = elements.next()) {
    if (element->type != type) return std::nullopt;
    ++count;
  }
  if (elements.malformed()) return std::nullopt;
  return count;
}

}  // namespace

std::optional<WriteReply> WriteReply::read(Bytes body, std::size_t statements) {
  enum : unsigned { kOk, kCode, kN, kWriteErrors, kRetried, kLabels, kFields };
  std::array<bool, kFields> seen{};
  const auto once = [&](unsigned field) { return !std::exchange(seen[field], true); };
  WriteReply reply;
  Bytes write_errors;
  bson::Elements fields(body);
  while (const auto field = fields.next()) {
    if (field->key == "n") {
      reply.n = field->as_integer();
      if (!once(kN) || !reply.n) return {};
    } else if (field->key == "ok") {
      const auto ok = field->as_integer();
      if (!once(kOk) || !ok || (*ok != 0 && *ok != 1)) return {};
      reply.ok = *ok == 1;
    } else if (field->key == "writeErrors") {
      if (!once(kWriteErrors) || field->type != bson::Type::array) return {};
      write_errors = field->value;
    } else if (field->key == "retriedStmtIds") {
      const auto count = count_of(*field, bson::Type::int32);
      if (!once(kRetried) || !count) return {};
      reply.retried = *count;
    } else if (field->key == "errorLabels") {
      const auto count = count_of(*field, bson::Type::string);
      if (!once(kLabels) || !count || *count > kMostLabels) return {};
    } else if (field->key == "code") {
      const auto code = field->as_integer();
      if (!once(kCode) || !code) return {};
      reply.code = *code;
    }
  }
  if (fields.malformed() || !seen[kOk]) return {};
  if (!reply.ok) return reply;
  auto errors = read_write_errors(write_errors, statements);
  if (!errors) return {};
  reply.errors = std::move(*errors);
  return reply;
}

std::optional<std::vector<WriteError>> read_write_errors(Bytes array, std::size_t statements) {
  std::vector<WriteError> errors;
  if (array.empty()) return errors;
  std::int64_t last = -1;
  bson::Elements entries(array);
  while (const auto entry = entries.next()) {
    if (entry->type != bson::Type::document) return {};
    const auto index = bson::find(entry->value, "index");
    const auto code = bson::find(entry->value, "code");
    if (!index || index->type != bson::Type::int32 || !code || !code->as_integer()) return {};
    const std::int32_t at = load_i32(index->value.data());
    if (at <= last || at >= static_cast<std::int64_t>(statements)) return {};
    last = at;
    errors.push_back({at, *code->as_integer(), entry->value});
  }
  if (entries.malformed()) return {};
  return errors;
}

}  // namespace idproxy::rewrite
