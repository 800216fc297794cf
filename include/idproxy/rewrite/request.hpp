#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "idproxy/rewrite/command.hpp"
#include "idproxy/rewrite/field_request.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/rule_outcomes.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/statements.hpp"
#include "idproxy/wire/op_msg.hpp"

/// The messages that an Exchange handles, each with what classify() has found in it, so that the
/// exchange need not parse it again. They borrow the whole message.
namespace idproxy::rewrite {

/// A collection of a bulkWrite.
struct BulkNamespace {
  std::shared_ptr<const Plan> plan;           ///< null: no rule applies
  std::size_t first = 0;                      ///< position of its assignments in WriteRequest::plan
  std::shared_ptr<const Plan> time_series{};  ///< as of Namespaces
  bool names_uuid = false;                    ///< the client has named it by its UUID
};

/// A field of a stored document, and what determines its value: by Sequences::fields().
struct AssignedField {
  std::string field;
  std::vector<ids::FieldValue> values{};
};

/// A write command to which rules apply: an insert, an update or findAndModify with an upsert, or a
/// bulkWrite.
struct WriteRequest {
  wire::OpMsgView message;
  WriteCommand command;
  std::shared_ptr<const Plan> plan;  ///< the plan of its namespace, or of all; not null
  /// When the exchange began, since the Unix epoch; 0 if no Assignment may_depend_on_time().
  std::chrono::seconds now{};
  std::vector<BulkNamespace> namespaces{};  ///< of a bulkWrite, by position in nsInfo
  /// Of a bulkWrite: the server must send results of successes, too, although the client does not
  /// want them (errorsOnly): they tell which upserts have inserted a document, and only then do all
  /// servers say which statements they had executed earlier.
  bool all_results = false;
  Namespaces* known = nullptr;  ///< where an outline gets bound; outlives the exchange
  /// Of a findAndModify that gives a stored document its value ({idproxy: "assign"}): it gets that
  /// of this field's rule alone, into its $set. Outlives the exchange. Null: any other write.
  const AssignedField* assigns = nullptr;

  /// Refers to a copy of its message from now on.
  void refer_to(Bytes copy) {
    command.refer_to(copy);
    message = message.in(copy);
  }
  /// "db.collection"; of a bulkWrite, "admin.".
  [[nodiscard]] std::string ns() const {
    return std::string(command.db()) + "." + std::string(command.collection());
  }
};

/// A hello or isMaster, in an OP_MSG or an OP_QUERY.
struct HelloRequest {
  Command command;
  bool may_wait = false;  ///< the server may hold its reply back until there is news
};

/// saslStart, saslContinue, authenticate or logout, in an OP_MSG or an OP_QUERY.
struct LoginRequest {
  Command command;
};

/// {idproxy: "status"}, well-formed.
struct StatusRequest {
  wire::OpMsgView message;
};

/// commitTransaction or abortTransaction, where a rule has to know when transactions end.
struct EndOfTransaction {
  std::string transaction;  ///< as for ids::TurnTaker
  std::shared_ptr<const RuleSet> rules;
};

/// A command that changes collections or indexes to which a rule may apply, or by which the server
/// itself stores documents in them.
struct CatalogRequest {
  /// Until when nothing may be believed of the collections. A command that can only add something,
  /// or leaves the indexes as they are, may take hours.
  enum class Done { at_once, when_answered };
  Done done = Done::at_once;
  std::vector<ids::CatalogChange> changes;
  /// A collection that it stores documents in, past the rules.
  struct Past {
    ids::CatalogChange collection;
    ForwardReason reason;
    std::shared_ptr<const Plan> plan{};  ///< of that collection
  };
  std::vector<Past> past{};
  std::shared_ptr<const RuleSet> rules{};
  /// A createIndexes that the server may refuse because of an index that the proxy has made.
  bool makes_indexes = false;
};

/// A request that the proxy answers with an error.
struct RefusedRequest {
  CommandError error;
};

using Request = std::variant<WriteRequest, HelloRequest, StatusRequest, RefusedRequest, NextRequest,
                             AssignRequest, EndOfTransaction, CatalogRequest, LoginRequest>;

}  // namespace idproxy::rewrite
