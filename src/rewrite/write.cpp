#include "idproxy/rewrite/write.hpp"

#include <initializer_list>
#include <limits>
#include <string>

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "rewrite/upsert_statement.hpp"

namespace idproxy::rewrite {

namespace {

/// The error label that makes the driver try again, in the way that suits the command.
std::string_view retry_label(const std::optional<WriteOptions>& options) {
  if (!options) return {};
  if (options->in_transaction) return kTransientTransactionError;
  return options->has_txn_number ? kRetryableWriteError : std::string_view{};
}

}  // namespace

namespace {

/// Goes into a document or an array, from one to the next; nothing if one is missing.
std::optional<Bytes> inside(Bytes document, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const auto found = bson::find(document, key);
    const bool is_there =
        found && (found->type == bson::Type::document || found->type == bson::Type::array);
    if (!is_there) return std::nullopt;
    document = found->value;
  }
  return document;
}

/// True if a field of this array of a schema, [{path: "a.b"}, …], is `field`, or is around it or
/// below it.
bool has_field(Bytes fields, std::string_view field) {
  for (const bson::Element& each : bson::Elements(fields)) {
    if (each.type != bson::Type::document) continue;
    const auto path = bson::find(each.value, "path", bson::Type::string);
    if (path && overlap(path->text(), field)) return true;
  }
  return false;
}

/// As fault_of_encryption(), for the plan of one collection, whose assignments are at `first` among
/// all. `described`: the document that may have its encryptionInformation.
std::optional<CommandError> fault_of_encryption(Bytes described, const Plan& plan,
                                                std::size_t first, const GivenValues& given) {
  const auto schema = inside(described, {"encryptionInformation", "schema"});
  if (!schema) return std::nullopt;
  const auto fields = inside(*schema, {plan.front().ns, "fields"});
  if (!fields) return std::nullopt;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const std::string& field = plan[i].rule->field;
    if (given.wanted[first + i] == 0 || !has_field(*fields, field)) continue;
    return CommandError{
        ErrorCode::operation_failed,
        "mongo-idproxy: no value for field '" + field + "' of " + plan[i].ns +
            ": the driver encrypts this field, or one around it or below it (Queryable "
            "Encryption), which the proxy cannot; the rule must name a field that is not "
            "encrypted"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<CommandError> fault_of_encryption(const WriteRequest& write,
                                                const GivenValues& given) {
  if (write.command.kind != WriteKind::bulk_write) {
    return fault_of_encryption(write.message.body(), *write.plan, 0, given);
  }
  Statements collections(write.command.ns_info(), write.command.ns_info_in_array);
  for (const BulkNamespace& its : write.namespaces) {
    const auto described = collections.next();
    if (!described || !its.plan) continue;
    if (auto fault = fault_of_encryption(*described, *its.plan, its.first, given)) return fault;
  }
  return std::nullopt;
}

CommandError no_values(const WriteCommand& write, const Assignment& assignment,
                       const ids::Error& error) {
  const bool is_transient = error.code == ids::Errc::unavailable;
  assignment.outcomes->refuse(assignment.ns, error.reason, error.holder);
  return {code_of(error.code), no_value_text(assignment, error),
          is_transient ? retry_label(write.options) : std::string_view{}};
}

std::string no_value_text(const Assignment& assignment, const ids::Error& error) {
  return std::string("mongo-idproxy: no value for field '")
      .append(assignment.rule->field)
      .append("' of ")
      .append(assignment.ns)
      .append(" (strategy ")
      .append(assignment.rule->strategy_name)
      .append("): ")
      .append(error.reason);
}

CommandError too_large() {
  return {ErrorCode::bson_object_too_large,
          "mongo-idproxy: with its ids the message would have more than " +
              std::to_string(wire::kMaxMessageSize) + " bytes; send fewer documents at once"};
}

}  // namespace idproxy::rewrite
