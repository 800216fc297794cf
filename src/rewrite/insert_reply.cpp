#include "idproxy/rewrite/insert_reply.hpp"

#include <array>
#include <utility>

namespace idproxy::rewrite {

std::optional<InsertReply> InsertReply::read(Bytes body) {
  enum : unsigned { kOk, kCode, kN, kWriteErrors, kRetried, kFields };
  std::array<bool, kFields> seen{};
  const auto once = [&](unsigned field) { return !std::exchange(seen[field], true); };
  InsertReply reply;
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
      reply.write_errors = field->value;
    } else if (field->key == "retriedStmtIds") {
      if (!once(kRetried) || field->type != bson::Type::array) return {};
      reply.retried_stmt_ids = field->value;
    } else if (field->key == "code") {
      const auto code = field->as_integer();
      if (!once(kCode) || !code) return {};
      reply.code = *code;
    }
  }
  if (fields.malformed() || !seen[kOk]) return {};
  return reply;
}

std::optional<std::vector<WriteError>> read_write_errors(Bytes array, std::size_t documents) {
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
    if (at <= last || at >= static_cast<std::int64_t>(documents)) return {};
    last = at;
    errors.push_back({at, *code->as_integer(), entry->value});
  }
  if (entries.malformed()) return {};
  return errors;
}

}  // namespace idproxy::rewrite
