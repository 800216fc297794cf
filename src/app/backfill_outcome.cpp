#include "app/backfill_outcome.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/duplicate_key.hpp"
#include "idproxy/rewrite/unused_values.hpp"
#include "idproxy/rewrite/write_reply.hpp"

namespace idproxy::app {
namespace {

using id_store::mongo::Reply;
using Failure = UpdateOutcome::Failure;

// Server error codes.
constexpr std::int32_t kPathNotViable = 28;
constexpr std::int32_t kDocumentValidationFailure = 121;
constexpr std::int32_t kBsonObjectTooLarge = 10334;
constexpr auto kTooLargeAfterUpdate = std::to_array<std::int32_t>({17419, 17420});
// CursorNotFound, QueryPlanKilled, CursorKilled, InterruptedDueToReplStateChange, Interrupted
constexpr auto kCursorLost = std::to_array<std::int32_t>({43, 175, 237, 11602, 11601});

bool is_too_large(std::int32_t code) {
  return code == kBsonObjectTooLarge || std::ranges::count(kTooLargeAfterUpdate, code) > 0;
}

std::int64_t number_at(Bytes document, std::string_view key) {
  const auto element = bson::find(document, key);
  return element ? element->as_integer().value_or(0) : 0;
}

/// The first of writeErrors: the only one, since the update is ordered.
std::optional<Bytes> write_error(Bytes reply) {
  const auto errors = bson::find(reply, "writeErrors");
  if (!errors || errors->type != bson::Type::array) return std::nullopt;
  const auto first = bson::find(errors->value, "0");
  if (!first || first->type != bson::Type::document) return std::nullopt;
  return first->value;
}

Failure failure_of(Bytes error, std::int32_t code, std::string_view ns, const rewrite::Plan& plan) {
  if (code == id_store::mongo::kDuplicateKey &&
      !rewrite::curable(error, ns, plan, [] { return false; }).empty()) {
    return Failure::duplicate;
  }
  return rewrite::denies(error) || is_too_large(code) ? Failure::denied : Failure::perhaps_stored;
}

}  // namespace

UpdateOutcome outcome_of(const Reply& reply, std::size_t sent, std::string_view ns,
                         const rewrite::Plan& plan) {
  using Kind = UpdateOutcome::Kind;
  const bool is_durable = !bson::find(reply.document.bytes(), "writeConcernError");
  if (reply.kind == Reply::Kind::unreachable || reply.kind == Reply::Kind::not_majority ||
      !is_durable) {
    return {.kind = Kind::unknown};
  }
  const auto error = write_error(reply.document.bytes());
  if (!error && !reply.ok()) return {.kind = Kind::refused, .code = reply.code};
  UpdateOutcome outcome{.tried = sent};
  if (error) {
    const std::int64_t index = number_at(*error, "index");
    if (index < 0 || static_cast<std::size_t>(index) >= sent) {
      return {.kind = Kind::refused, .code = reply.code};
    }
    outcome.tried = static_cast<std::size_t>(index);
    outcome.code = static_cast<std::int32_t>(number_at(*error, "code"));
    if (outcome.code == rewrite::kCollectionUuidMismatch) {
      return {.kind = Kind::refused, .code = outcome.code};
    }
    outcome.failure = failure_of(*error, outcome.code, ns, plan);
  }
  const std::int64_t changed = number_at(reply.document.bytes(), "n");
  outcome.changed = static_cast<std::size_t>(std::max<std::int64_t>(changed, 0));
  return outcome;
}

std::string reason_of_failure(std::int32_t code) {
  const std::string error = " (error " + std::to_string(code) + ")";
  if (code == kDocumentValidationFailure) return "the collection's validator refuses it" + error;
  if (code == kPathNotViable) return "the path to the field is blocked" + error;
  if (code == id_store::mongo::kDuplicateKey) {
    return "another document has the same value in a unique index on other fields" + error;
  }
  if (is_too_large(code)) return "it would be too large" + error;
  return "the server refuses the update" + error;
}

bool is_worth_repeating(const Reply& reply) {
  if (reply.kind == Reply::Kind::unreachable) return true;
  return reply.kind == Reply::Kind::refused && std::ranges::count(kCursorLost, reply.code) > 0;
}

}  // namespace idproxy::app
