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

/// The index in an entry of writeErrors or upserted; nothing unless it is an int32 after `last` and
/// below `statements`.
std::optional<std::int32_t> index_after(std::int64_t last, const bson::Element& entry,
                                        std::size_t statements) {
  if (entry.type != bson::Type::document) return std::nullopt;
  const auto index = bson::find(entry.value, "index");
  if (!index || index->type != bson::Type::int32) return std::nullopt;
  const std::int32_t at = load_i32(index->value.data());
  if (at <= last || at >= static_cast<std::int64_t>(statements)) return std::nullopt;
  return at;
}

/// The indexes in an `upserted` array; nothing if it is malformed.
std::optional<std::vector<std::int32_t>> read_upserted(Bytes array, std::size_t statements) {
  std::vector<std::int32_t> indexes;
  if (array.empty()) return indexes;
  bson::Elements entries(array);
  while (const auto entry = entries.next()) {
    const auto at = index_after(indexes.empty() ? -1 : indexes.back(), *entry, statements);
    if (!at || !bson::find(entry->value, "_id")) return std::nullopt;
    indexes.push_back(*at);
  }
  if (entries.malformed()) return std::nullopt;
  return indexes;
}

}  // namespace

std::optional<WriteReply> WriteReply::read(Bytes body, std::size_t statements) {
  enum : unsigned {
    kOk,
    kCode,
    kN,
    kModified,
    kWriteErrors,
    kUpserted,
    kRetried,
    kLabels,
    kFields
  };
  std::array<bool, kFields> seen{};
  const auto once = [&](unsigned field) { return !std::exchange(seen[field], true); };
  WriteReply reply;
  Bytes write_errors;
  Bytes upserted;
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
    } else if (field->key == "nModified") {
      if (!once(kModified) || !field->as_integer()) return {};
    } else if (field->key == "upserted") {
      if (!once(kUpserted) || field->type != bson::Type::array) return {};
      upserted = field->value;
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
  auto inserted = read_upserted(upserted, statements);
  if (!errors || !inserted) return {};
  reply.errors = std::move(*errors);
  reply.upserted = std::move(*inserted);
  return reply;
}

std::optional<std::vector<WriteError>> read_write_errors(Bytes array, std::size_t statements) {
  std::vector<WriteError> errors;
  if (array.empty()) return errors;
  std::int64_t last = -1;
  bson::Elements entries(array);
  while (const auto entry = entries.next()) {
    const auto at = index_after(last, *entry, statements);
    const auto code = at ? bson::find(entry->value, "code") : std::nullopt;
    if (!code || !code->as_integer()) return {};
    last = *at;
    errors.push_back({*at, *code->as_integer(), entry->value});
  }
  if (entries.malformed()) return {};
  return errors;
}

}  // namespace idproxy::rewrite
