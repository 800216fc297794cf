#include "idproxy/rewrite/next_request.hpp"

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

/// The values of the fields that matter. Views into the message.
class NextFields {
 public:
  std::optional<CommandError> read(Bytes body) {
    std::bitset<kNextFields.size()> seen;
    bson::Elements elements(body);
    while (const auto element = elements.next()) {
      const auto place = static_cast<std::size_t>(std::ranges::find(kNextFields, element->key) -
                                                  kNextFields.begin());
      if (place == kNextFields.size()) {
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

  std::optional<std::string_view> ns;
  std::optional<std::string_view> field;
  std::size_t count = 1;
  bool in_transaction = false;

 private:
  std::optional<CommandError> take(const bson::Element& element) {
    if (element.key == "ns") return take_text(element, ns);
    if (element.key == "field") return take_text(element, field);
    if (element.key == "count") return take_count(element);
    if (element.key == "autocommit") in_transaction = element.as_integer() == 0;
    return std::nullopt;
  }

  static std::optional<CommandError> take_text(const bson::Element& element,
                                               std::optional<std::string_view>& out) {
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

  [[nodiscard]] std::optional<CommandError> missing() const {
    if (!ns) return lacks("ns");
    if (!field) return lacks("field");
    return std::nullopt;
  }
  static CommandError lacks(std::string_view name) {
    return next_fault(ErrorCode::idl_missing_field, name, "is missing but a required field");
  }
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

void NextRequest::bind() {
  known->admit(db, collection);
  plan = known->plan(db, collection);
  assignment = plan == nullptr ? nullptr : filling(*plan, field);
}

NextRequest NextRequest::in(Bytes copy) const {
  NextRequest same = *this;
  same.message = *wire::OpMsgView::parse(copy);
  return same;
}

bool asks_for_next(const wire::OpMsgView& request) {
  const auto what = bson::Elements(request.body()).next();
  return what && what->type == bson::Type::string && what->text() == "next";
}

std::variant<NextRequest, CommandError> read_next(const wire::OpMsgView& request,
                                                  Namespaces& namespaces) {
  if (auto fault = fault_of_database(request)) return *std::move(fault);
  NextFields fields;
  if (auto fault = fields.read(request.body())) return *std::move(fault);
  const auto [db, collection] = split_ns(*fields.ns);
  if (!are_valid(db, collection)) {
    return CommandError{ErrorCode::invalid_namespace,
                        "mongo-idproxy: 'ns' must be the full name of a collection, such as "
                        "\"shop.orders\""};
  }
  if (fields.in_transaction) {
    return CommandError{ErrorCode::operation_not_supported_in_transaction,
                        "mongo-idproxy: {idproxy: \"next\"} is not possible in a transaction: "
                        "send it without the session, which is possible at any time"};
  }
  NextRequest next;
  next.message = request;
  next.db = db;
  next.collection = collection;
  next.field = *fields.field;
  next.count = fields.count;
  next.known = &namespaces;
  next.plan = namespaces.plan(db, collection);
  return next;
}

}  // namespace idproxy::rewrite
