#include "idproxy/rewrite/field_request.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <optional>
#include <string_view>
#include <utility>

#include "idproxy/base/words.hpp"
#include "idproxy/bson/elements.hpp"
#include "rewrite/status.hpp"

namespace idproxy::rewrite {
namespace {

// mongod's limits for the names of databases and namespaces.
constexpr std::size_t kLongestDb = 63;
constexpr std::size_t kLongestNs = 255;

/// The fields of the command: its own, then those that every command may have.
constexpr auto kNextFields = std::to_array<std::string_view>({
    "idproxy",
    "$db",
    "ns",
    "field",
    "count",
    "filter",
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "stmtId",
    "readConcern",
    "writeConcern",
    "maxTimeMS",
    "comment",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
    "clientOperationKey",
    "help",
    "$readPreference",
    "$clusterTime",
    "$audit",
    "$client",
    "$configServerState",
    "$configTime",
    "$topologyTime",
    "$queryOptions",
    "$replData",
});

CommandError next_fault(ErrorCode code, std::string_view field, std::string_view what) {
  constexpr std::size_t kShown = 100;  // a client may send a name of any length
  std::string text = "BSON field 'idproxy.";
  text.append(field.size() <= kShown ? field : "(a long name)").append("' ").append(what);
  return {code, std::move(text)};
}

/// True for a value that a condition {field: value} compares with, of which a unique index has one
/// document: many documents may lack a field, and an array may stand for each of its elements.
bool is_distinct(const bson::Element& value) {
  using bson::Type;
  static constexpr std::array kNoEqualities{Type::array, Type::regex, Type::null, Type::undefined};
  if (std::ranges::find(kNoEqualities, value.type) != kNoEqualities.end()) return false;
  if (value.type != Type::document) return true;
  const auto first = bson::Elements(value.value).next();
  return first && !first->key.starts_with('$');
}

std::optional<CommandError> fault_of_equalities(Bytes filter) {
  bson::Elements conditions(filter);
  std::size_t count = 0;
  for (; const auto each = conditions.next(); ++count) {
    if (!each->key.starts_with('$') && is_distinct(*each)) continue;
    return next_fault(ErrorCode::bad_value, "filter",
                      "must name one document by the values of its fields, {_id: 7} or those of a "
                      "unique index: no operators, null, arrays or regular expressions");
  }
  if (conditions.malformed()) {
    return CommandError{ErrorCode::invalid_bson, "mongo-idproxy: the message cannot be read"};
  }
  if (count > 0) return std::nullopt;
  return next_fault(ErrorCode::bad_value, "filter", "must name one document, and is empty");
}

/// The values of the fields that matter. Views into the message.
class NextFields {
 public:
  explicit NextFields(bool assigns) : assigns_(assigns) {}

  std::optional<CommandError> read(Bytes body) {
    std::bitset<kNextFields.size()> seen;
    bson::Elements elements(body);
    while (const auto element = elements.next()) {
      const auto place = static_cast<std::size_t>(std::ranges::find(kNextFields, element->key) -
                                                  kNextFields.begin());
      if (place == kNextFields.size() || element->key == (assigns_ ? "count" : "filter")) {
        return next_fault(ErrorCode::idl_unknown_field, element->key, "is an unknown field.");
      }
      if (seen[place]) {
        return next_fault(ErrorCode::idl_duplicate_field, element->key, "is a duplicate field");
      }
      seen.set(place);
      if (auto fault = take(*element)) return fault;
    }
    if (elements.malformed()) {
      return CommandError{ErrorCode::invalid_bson, "mongo-idproxy: the message cannot be read"};
    }
    return missing();
  }

  // Without data: missing.
  std::string_view ns;
  std::string_view field;
  std::size_t count = 1;
  bool has_filter = false;
  bool in_transaction = false;

 private:
  std::optional<CommandError> take(const bson::Element& element) {
    if (element.key == "ns") return take_text(element, ns);
    if (element.key == "field") return take_text(element, field);
    if (element.key == "count") return take_count(element);
    if (element.key == "filter") return take_filter(element);
    if (element.key == "autocommit") in_transaction = element.as_integer() == 0;
    return std::nullopt;
  }

  static std::optional<CommandError> take_text(const bson::Element& element,
                                               std::string_view& out) {
    if (element.type != bson::Type::string) {
      return next_fault(ErrorCode::type_mismatch, element.key,
                        "is the wrong type, expected type 'string'");
    }
    out = element.text();
    return std::nullopt;
  }

  std::optional<CommandError> take_count(const bson::Element& element) {
    using bson::Type;
    if (element.type == Type::null) return std::nullopt;  // like an absent field
    if (element.type != Type::int32 && element.type != Type::int64 &&
        element.type != Type::number_double) {
      return next_fault(ErrorCode::type_mismatch, "count",
                        "is the wrong type, expected a whole number");
    }
    const auto number = element.as_integer();
    if (!number) return next_fault(ErrorCode::failed_to_parse, "count", "is not a whole number");
    if (*number < 1 || *number > static_cast<std::int64_t>(kMostNext)) {
      return next_fault(ErrorCode::bad_value, "count",
                        "must be 1 to " + std::to_string(kMostNext) + ", actual value '" +
                            std::to_string(*number) + "'");
    }
    count = static_cast<std::size_t>(*number);
    return std::nullopt;
  }

  std::optional<CommandError> take_filter(const bson::Element& element) {
    if (element.type != bson::Type::document) {
      return next_fault(ErrorCode::type_mismatch, element.key,
                        "is the wrong type, expected type 'object'");
    }
    has_filter = true;
    return fault_of_equalities(element.value);
  }

  [[nodiscard]] std::optional<CommandError> missing() const {
    if (ns.data() == nullptr) return lacks("ns");
    if (field.data() == nullptr) return lacks("field");
    if (assigns_ && !has_filter) return lacks("filter");
    return std::nullopt;
  }
  static CommandError lacks(std::string_view name) {
    return next_fault(ErrorCode::idl_missing_field, name, "is missing but a required field");
  }

  const bool assigns_;
};

/// As mongod judges the names of databases and collections.
bool are_valid(std::string_view db, std::string_view collection) {
  constexpr std::string_view kNotInDb("/\\. \"$\0", 7);
  if (db.empty() || db.size() > kLongestDb || collection.empty()) return false;
  if (db.find_first_of(kNotInDb) != std::string_view::npos) return false;
  if (db.size() + 1 + collection.size() > kLongestNs || collection.front() == '.') return false;
  return collection.find('\0') == std::string_view::npos;
}

const Assignment* filling(const Plan& plan, std::string_view field) {
  const auto found = std::ranges::find_if(
      plan, [&](const Assignment& each) { return !each.implied && each.rule->field == field; });
  return found == plan.end() ? nullptr : &*found;
}

}  // namespace

void FieldRequest::bind() {
  known->admit(db, collection);
  plan = known->plan(db, collection);
  assignment = plan == nullptr ? nullptr : filling(*plan, field);
}

CommandError FieldRequest::no_rule() const {
  std::string text = "mongo-idproxy: no rule ";
  if (plan == nullptr) {
    text += "applies to " + ns() +
            ": none has a matching 'ns', or it is a view or a time-series collection";
  } else {
    text += "fills this field in " + ns() + "; fields that rules fill there: ";
    for (const Assignment& each : *plan) {
      if (each.implied) continue;
      text.append(&each == &plan->front() ? "" : ", ").append(each.rule->field);
    }
  }
  return {ErrorCode::bad_value, std::move(text)};
}

std::optional<OwnRequest> read_own_request(const wire::OpMsgView& request, Namespaces& namespaces) {
  const auto what = bson::Elements(request.body()).next();
  if (!what || what->type != bson::Type::string) return std::nullopt;
  const bool assigns = what->text() == "assign";
  if (!assigns && what->text() != "next") return std::nullopt;
  if (auto fault = fault_of_database(request)) return *std::move(fault);
  NextFields fields(assigns);
  if (auto fault = fields.read(request.body())) return *std::move(fault);
  const auto [db, collection] = split_ns(fields.ns);
  if (!are_valid(db, collection)) {
    return CommandError{ErrorCode::invalid_namespace,
                        "mongo-idproxy: 'ns' must be the full name of a collection, such as "
                        "\"shop.orders\""};
  }
  FieldRequest its{request,
                   std::string(db),
                   std::string(collection),
                   std::string(fields.field),
                   &namespaces,
                   namespaces.plan(db, collection)};
  if (assigns) return AssignRequest{std::move(its)};
  if (fields.in_transaction) {
    return CommandError{ErrorCode::operation_not_supported_in_transaction,
                        "mongo-idproxy: {idproxy: \"next\"} is not possible in a transaction: "
                        "send it without the session, which is possible at any time"};
  }
  return NextRequest{std::move(its), fields.count};
}

}  // namespace idproxy::rewrite
