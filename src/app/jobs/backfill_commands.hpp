#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/ids/guard.hpp"
#include "idproxy/ids/values.hpp"
#include "idproxy/rewrite/rules.hpp"

/// The commands of a backfill on the collection, their filters, and the meaning of the answers.
namespace idproxy::app::jobs {

/// The documents that a backfill is about.
struct BackfillTarget {
  id_store::Namespace ns;
  std::string field;  ///< dotted path
  /// Which fields count as having no value (rewrite::replaces()). Never `always`: documents keep
  /// their values.
  rewrite::Assign assign = rewrite::Assign::missing;
  id_store::mongo::Document when{};  ///< only these documents are to have one; empty: all
  /// Dotted paths to read beside the _id: they say which sequence a document belongs to.
  std::vector<std::string> beside{};
};

/// The order in which documents get their values.
struct BackfillOrder {
  std::string field = "_id";
  std::int32_t direction = 1;  ///< -1: descending
};

/// A document of the collection as {_id: …}; its bytes.
using BackfillId = std::string;
[[nodiscard]] BackfillId id_of(Bytes document);

/// The _id and these fields: a server refuses a path and one within it.
[[nodiscard]] id_store::mongo::Document projection_of(const std::vector<std::string>& paths);

/// The filter of a rule's `when`; empty: it has none.
[[nodiscard]] id_store::mongo::Document filter_of(std::span<const rewrite::Condition> when);
/// {$and: [when]}, since a filter may name each field for itself, too; nothing of an empty one.
[[nodiscard]] id_store::mongo::Document only_those(const id_store::mongo::Document& when);
/// Matches documents without a value.
[[nodiscard]] id_store::mongo::Document without_value(const BackfillTarget& target);
/// Those of them that can get one: each part of a dotted path is absent or an object.
[[nodiscard]] id_store::mongo::Document without_value_and_open(const BackfillTarget& target);
/// Those of them that cannot. Nothing if the path has one part, which nothing can block.
[[nodiscard]] std::optional<id_store::mongo::Document> without_value_and_blocked(
    const BackfillTarget& target);

[[nodiscard]] id_store::mongo::Document count_documents(const BackfillTarget& target,
                                                        const id_store::mongo::Document& filter);
/// Finds the ids of matching documents in this order, `batch` at a time, with target.beside. The
/// server sorts on its disk if it has no index for the order.
[[nodiscard]] id_store::mongo::Document find_ids(const BackfillTarget& target,
                                                 const id_store::mongo::Document& filter,
                                                 const BackfillOrder& order, std::int32_t batch);

/// Gives the document `ids[i]` the value `values[i]`, unless it has one, in this order and up to
/// the first error. `values` may have more.
[[nodiscard]] id_store::mongo::Document update_of(const BackfillTarget& target,
                                                  std::span<const BackfillId> ids,
                                                  const ids::Values& values);
/// Has an update apply only to the collection with this UUID; the server answers with error 361 if
/// it has another one.
void add_uuid(const ids::CollectionUuid& uuid, id_store::mongo::Document& update);
/// Changes nothing, but needs the same privilege.
[[nodiscard]] id_store::mongo::Document update_of_nothing(const BackfillTarget& target);
/// Finds what these documents have in the field.
[[nodiscard]] id_store::mongo::Document find_values(const BackfillTarget& target,
                                                    std::span<const BackfillId> ids);

/// The mongosh command that shows the documents without a value.
[[nodiscard]] Commands show_without_value(const BackfillTarget& target);

/// The server's answer to an ordered update with one statement, and one value, for each document.
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

/// Why a command on the collection failed, for people. `needs`: "a backfill needs find and update";
/// `advice`: for a user who lacks that; `cannot`: "cannot be changed".
[[nodiscard]] std::string refusal_of(const id_store::mongo::Reply& reply, const std::string& ns,
                                     std::string_view needs, const ids::Error& advice,
                                     std::string_view cannot);

/// True if a find or a count that failed in this way may work a moment later, such as after a
/// failover, or if only its cursor was lost.
[[nodiscard]] bool is_worth_repeating(const id_store::mongo::Reply& reply);

}  // namespace idproxy::app::jobs
