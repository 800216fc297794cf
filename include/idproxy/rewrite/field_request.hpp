#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/op_msg.hpp"

/// Commands by which an application gets values itself, on `admin`:
///
///   {idproxy: "next", ns: "db.collection", field: text, count?: 1 to 100000, $db: "admin"}
///   -> {ids: [value, …], ok: 1}
///
///   {idproxy: "assign", ns: "db.collection", field: text, filter: document, $db: "admin"}
///   -> {value: value, modified: true, ok: 1}, or modified: false and found: true or false
///
/// Both are for those who may insert into the collection. The values of the first belong to the
/// application: the proxy neither takes them back nor hands them out again. The second gives one
/// stored document the value that it lacks.
namespace idproxy::rewrite {

/// The most values of one request: as many as an insert can have documents.
inline constexpr std::size_t kMostNext = 100'000;

/// What both name: a field of a collection.
struct FieldRequest {
  wire::OpMsgView message;
  std::string db;
  std::string collection;
  std::string field;
  Namespaces* known = nullptr;  ///< has the plan; outlives the exchange
  /// Of the namespace: an outline until bind(); null: no rule applies.
  std::shared_ptr<const Plan> plan{};
  const Assignment* assignment = nullptr;  ///< in the plan: fills the field; null: none does

  /// "db.collection".
  [[nodiscard]] std::string ns() const { return db + "." + collection; }
  /// Finds the plan. The client has shown that it may insert there.
  void bind();
  /// Refers to a copy of its message from now on.
  void refer_to(Bytes copy) { message = message.in(copy); }
  /// Why there are no values, if no rule fills the field.
  [[nodiscard]] CommandError no_rule() const;
};

/// {idproxy: "next"}, well-formed.
struct NextRequest : FieldRequest {
  std::size_t count = 1;
};

/// {idproxy: "assign"}, well-formed.
struct AssignRequest : FieldRequest {
  /// Fields and the values that they are to have: one document at most, if an index says so.
  [[nodiscard]] Bytes filter() const { return bson::find(message.body(), "filter")->value; }
};

using OwnRequest = std::variant<NextRequest, AssignRequest, CommandError>;

/// Reads such a command, whose first element is `idproxy`; nothing if it is neither. The errors
/// have the codes that mongod gives for its own commands: 13 not on `admin`, 22 malformed, 40413 to
/// 40415 a field that is repeated, missing or unknown, 14, 9 and 2 a wrong type or value, 73 an
/// invalid namespace, 263 `next` in a transaction. Accepts the fields that every command may have.
[[nodiscard]] std::optional<OwnRequest> read_own_request(const wire::OpMsgView& request,
                                                         Namespaces& namespaces);

}  // namespace idproxy::rewrite
