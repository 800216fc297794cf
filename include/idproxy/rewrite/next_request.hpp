#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>

#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/op_msg.hpp"

/// The command by which an application gets values before it inserts documents with them:
///
///   {idproxy: "next", ns: "db.collection", field: text, count?: 1 to 100000, $db: "admin"}
///   -> {ids: [value, …], ok: 1}
///
/// It is for those who may insert into the collection. The values belong to the application: the
/// proxy neither takes them back nor hands them out again.
namespace idproxy::rewrite {

/// The most values of one request: as many as an insert can have documents.
inline constexpr std::size_t kMostNext = 100'000;

/// {idproxy: "next"}, well-formed.
struct NextRequest {
  wire::OpMsgView message;
  std::string db;
  std::string collection;
  std::string field;
  std::size_t count = 1;
  Namespaces* known = nullptr;  ///< has the plan; outlives the exchange
  /// Of the namespace: an outline until bind(); null: no rule applies.
  std::shared_ptr<const Plan> plan{};
  const Assignment* assignment = nullptr;  ///< in the plan: fills the field; null: none does

  /// "db.collection".
  [[nodiscard]] std::string ns() const { return db + "." + collection; }
  /// Finds the plan. The client has shown that it may insert there.
  void bind();
  /// The same request, referring to a copy of its message.
  [[nodiscard]] NextRequest in(Bytes copy) const;
};

/// True if the command, whose first element is `idproxy`, asks for values.
[[nodiscard]] bool asks_for_next(const wire::OpMsgView& request);

/// Reads a request for which asks_for_next() is true. The errors have the codes that mongod gives
/// for its own commands: 13 not on `admin`, 22 malformed, 40413 to 40415 a field that is repeated,
/// missing or unknown, 14, 9 and 2 a wrong type or value, 73 an invalid namespace, 263 in a
/// transaction. Accepts the fields that every command may have.
[[nodiscard]] std::variant<NextRequest, CommandError> read_next(const wire::OpMsgView& request,
                                                                Namespaces& namespaces);

}  // namespace idproxy::rewrite
