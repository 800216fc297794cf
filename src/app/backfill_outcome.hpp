#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app {

/// What the server's answer says about an update of documents in order, one value for each.
struct UpdateOutcome {
  enum class Kind {
    answered,  ///< the command is over, and a majority has what it changed
    unknown,   ///< perhaps it was carried out, in part, or a failover may undo it
    refused,   ///< the whole command was refused, with `code`
  };
  enum class Failure {
    none,
    duplicate,       ///< the value is taken: another one may do
    denied,          ///< the document is unchanged
    perhaps_stored,  ///< an error that does not prove that
  };
  Kind kind = Kind::answered;
  std::size_t tried = 0;            ///< answered: the documents before the failed one, or all
  std::size_t changed = 0;          ///< answered: how many of them got their value by this command
  Failure failure = Failure::none;  ///< answered: of the document behind those; none: all tried
  std::int32_t code = 0;            ///< of the failure, or of the refusal
};

/// `reply`: to an ordered update of `sent` documents, sent with Client::write(). `plan`: the one
/// assignment whose values are sent. `ns`: "db.collection".
[[nodiscard]] UpdateOutcome outcome_of(const id_store::mongo::Reply& reply, std::size_t sent,
                                       std::string_view ns, const rewrite::Plan& plan);

/// Why a document is left after this error, for people: "its collection's validator refuses it
/// (error 121)".
[[nodiscard]] std::string reason_of_failure(std::int32_t code);

/// True if a find or a count that failed in this way may work a moment later, such as after a
/// failover, or if only its cursor was lost.
[[nodiscard]] bool is_worth_repeating(const id_store::mongo::Reply& reply);

}  // namespace idproxy::app
