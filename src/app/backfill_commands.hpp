#pragma once

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

/// The commands of a backfill on the collection, and the filters in them.
namespace idproxy::app {

/// The documents that a backfill is about.
struct BackfillTarget {
  enum class Lacks {
    field,
    field_or_value,  ///< null is no value either
    value_or_zero,   ///< neither is what rewrite::is_zero() says of
  };
  id_store::Namespace ns;
  std::string field;  ///< dotted path
  Lacks lacks = Lacks::field;
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

/// True if a value in the field is none to this target.
[[nodiscard]] bool is_none(const BackfillTarget& target, const bson::Element& value);
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
[[nodiscard]] std::string show_without_value(const BackfillTarget& target);

}  // namespace idproxy::app
