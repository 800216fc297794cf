#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/typed_command.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"

/// The unique index that fits a field: its form, the command that makes it, and its creation. A
/// call with a client waits for the server.
namespace idproxy::id_store {

/// The BSON types of a rule's values, as far as an index's filter tells them apart.
enum class ValueType { number, string, binary, object_id, other };

/// `number` for int32 and int64.
[[nodiscard]] ValueType value_type_of(bson::Type type);
/// The alias in {$type: alias}; empty for `other`.
[[nodiscard]] std::string_view alias_of(ValueType type);

/// An index as listIndexes describes it.
struct Index {
  struct Key {
    std::string field;
    bool is_ordered = true;  ///< ascending or descending; false: hashed, text, 2dsphere …
    bool is_ascending = true;
  };
  /// The documents that the index holds: its partialFilterExpression.
  struct Partial {
    enum class Kind {
      none,    ///< no such expression
      exists,  ///< {field: {$exists: true}}
      types,   ///< {field: {$type: …}}
      other,
    };
    Kind kind = Kind::none;
    std::string field{};
    std::uint32_t types = 0;  ///< types: bit n stands for BSON type n
    std::string condition{};  ///< exists, types: what applies to the field, a BSON document
  };
  std::string name{};
  std::vector<Key> keys{};  ///< in their order
  bool unique = false;
  bool sparse = false;
  bool hidden = false;      ///< queries must not use it; it keeps values unique all the same
  std::string collation{};  ///< a BSON document; empty: strings compare byte by byte
  bool building = false;    ///< it may still fail
  Partial partial{};
};

/// The index on _id that each collection has but a clustered one. It has the collection's default
/// collation.
inline constexpr std::string_view kIndexOfId = "_id_";

/// Reads an element of listIndexes' reply: {v, key: {a: 1, b: -1}, name, unique …}, or
/// {spec: {the same}, buildUUID} while the index is being built. A standalone lists an index that
/// is being built as if it were there (observed, 6.0.5).
[[nodiscard]] Index index_of(Bytes listed);

/// Where values of a field may repeat by design.
struct Repeats {
  /// Documents that differ in one of these fields may have equal values.
  std::vector<std::string> scope{};
  /// So may others, which a further field tells apart: the proxy does not know which.
  bool and_more = false;
  [[nodiscard]] bool any() const { return !scope.empty() || and_more; }
  friend bool operator==(const Repeats&, const Repeats&) = default;
};

/// True if the values of this type in the field can be read through the index in its order: among
/// documents that agree in `scope`, if that is not empty. If the index is partial, a query must
/// have its condition too. If it has a collation, a query for strings must name it, and gets them
/// in that order.
[[nodiscard]] bool can_read(const Index& index, std::string_view field, ValueType type,
                            std::span<const std::string> scope = {});

/// True if the index's key is the field and those that `repeats` names, in any order.
[[nodiscard]] bool has_key(const Index& index, std::string_view field, const Repeats& repeats);

/// A field in which a unique index is to keep values apart.
struct UniqueField {
  std::string name;
  ValueType type = ValueType::other;  ///< of its values
  Repeats repeats{};
  friend bool operator==(const UniqueField&, const UniqueField&) = default;
};

/// True if the index, once it is built, keeps two values of this type in the field from being
/// equal, except as `repeats` says: it is unique, has_key() (with a further field, values may
/// repeat), and it holds every document with such a value.
/// A sparse index will do: a document without the field cannot repeat a value. So will one with a
/// collation: it calls values equal that are equal, and others beside them.
[[nodiscard]] bool guards(const Index& index, const UniqueField& field);
/// The first index that guards the field, once it is built; null: there is none.
[[nodiscard]] const Index* guard_among(std::span<const Index> indexes, const UniqueField& field);

// Server error codes of createIndexes.
inline constexpr std::int32_t kIndexOptionsConflict = 85;
inline constexpr std::int32_t kIndexKeySpecsConflict = 86;

/// Options of a unique index on one field, chosen so that no document is in its way, neither those
/// that are there nor those that upserts will add. To a unique index, a missing field is null.
enum class IndexForm {
  sparse,   ///< {sparse: true}: documents may lack the field
  plain,    ///< all of them have it; queries can sort the whole collection by the index
  partial,  ///< {partialFilterExpression: {field: {$type: …}}}: some have an explicit null
  /// {partialFilterExpression: {field: {$exists: true}}}: the key has further fields, and a sparse
  /// index would hold every document that has one of them.
  existing,
};

/// A unique index that can be made.
struct IndexOffer {
  IndexForm form = IndexForm::sparse;
  std::string name{};  ///< empty: the server's default, "<field>_1"; else that one is in use
  /// The field's key is -1: another index has the ascending key, and the server takes one only.
  bool descending = false;
  /// It names {locale: "simple"}: the collection has a default collation, which the index would
  /// get, so that it forbade more values, and was equivalent to others on the field.
  bool by_bytes = false;
  friend bool operator==(const IndexOffer&, const IndexOffer&) = default;
};

/// A name for a unique index on the field that none of these indexes has; empty: the default.
[[nodiscard]] std::string free_name(std::span<const Index> indexes, const UniqueField& field,
                                    bool descending = false);

/// The command that makes the index, for mongosh; none if a name in it is no is_name(). With
/// Repeats::and_more, a field is left for a person to fill in.
[[nodiscard]] Commands create_index_command(const Namespace& ns, const UniqueField& field,
                                            const IndexOffer& offer);

/// Appends the collection's indexes to `indexes`.
[[nodiscard]] mongo::Reply list_indexes(mongo::Client& client, const Namespace& ns,
                                        std::vector<Index>& indexes);

/// The unique index that fits the collection's documents. If values must not repeat, looks at them
/// for two seconds at most; what it cannot find out in that time makes the index sparse. `indexes`:
/// of the collection.
[[nodiscard]] IndexOffer offer_index(mongo::Client& client, const Namespace& ns,
                                     const UniqueField& field, std::span<const Index> indexes);

/// The command that makes it. Lists the indexes itself.
[[nodiscard]] Commands advise_index(mongo::Client& client, const Namespace& ns,
                                    const UniqueField& field);

/// Makes the index that offer_index() finds, unless there is one that guards the field, perhaps
/// made by another proxy meanwhile: then it is not `is_new`.
[[nodiscard]] mongo::Reply make_index(mongo::Client& client, const Namespace& ns,
                                      const UniqueField& field, bool& is_new);

}  // namespace idproxy::id_store
