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

/// The BSON types of a rule's values, as far as an index's filter tells them apart. `number`: of
/// several types.
enum class ValueType { number, int32, int64, string, binary, object_id, other };

[[nodiscard]] ValueType value_type_of(bson::Type type);
/// The alias in {$type: alias}, of all numbers for any of them; empty for `other`.
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
  bool has_more = false;    ///< options that are not listed here
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
struct Repetition {
  /// Documents that differ in one of these fields may have equal values.
  std::vector<std::string> scope{};
  /// So may others, which a further field tells apart: the proxy does not know which.
  bool and_more = false;
  [[nodiscard]] bool any() const { return !scope.empty() || and_more; }
  friend bool operator==(const Repetition&, const Repetition&) = default;
};

/// True if the values of this type in the field can be read through the index in its order: among
/// documents that agree in `scope`, if that is not empty. If the index is partial, a query must
/// have its condition too. If it has a collation, a query for strings must name it, and gets them
/// in that order.
[[nodiscard]] bool can_read(const Index& index, std::string_view field, ValueType type,
                            std::span<const std::string> scope = {});

/// True if the index's key is the field and those that `repeats` names, in any order.
[[nodiscard]] bool has_key(const Index& index, std::string_view field, const Repetition& repeats);

/// A field in which a unique index is to keep values apart.
struct UniqueField {
  std::string name;
  ValueType type = ValueType::other;  ///< of its values
  Repetition repeats{};
  friend bool operator==(const UniqueField&, const UniqueField&) = default;
};

/// True if the index, once it is built, keeps two values of this type in the field from being
/// equal, except as `repeats` says: it is unique, has_key() (with a further field, values may
/// repeat), and it holds every document with such a value.
/// A sparse index will do: a document without the field cannot repeat a value. So will one with a
/// collation: it calls values equal that are equal, and others beside them.
[[nodiscard]] bool guards(const Index& index, const UniqueField& field);
/// The first index that guards the field, or else will once it is built; null: there is none.
[[nodiscard]] const Index* guard_among(std::span<const Index> indexes, const UniqueField& field);
/// The same of those through which all values of the field can be read, too: what the proxy makes
/// with unique_index: create. A guard that holds one type of numbers only is none of them.
[[nodiscard]] const Index* readable_guard_among(std::span<const Index> indexes,
                                                const UniqueField& field);

/// The options of the proxy's own unique index, chosen so that no document without a value is in
/// its way: to a unique index, a missing field is null.
enum class IndexForm {
  existing,  ///< {partialFilterExpression: {field: {$exists: true}}}
  partial,   ///< {partialFilterExpression: {field: {$type: …}}}: some documents have a null
};

/// A unique index that can be made.
struct IndexOffer {
  IndexForm form = IndexForm::existing;
  std::string name{};  ///< empty: own_name()
  /// The field's key is -1. Applications want the ascending one: by that key they hint, drop and
  /// change theirs, of which the server finds none if two indexes have it (observed, 5.0.4, 6.0.5),
  /// and servers before 5.0 take no second one (4.4.2).
  bool descending = true;
  /// It names {locale: "simple"}: the collection has a default collation, which the index would
  /// get, so that it forbade more values, and was equivalent to others on the field.
  bool by_bytes = false;
  friend bool operator==(const IndexOffer&, const IndexOffer&) = default;
};

/// The name of the proxy's own index: the fields of its key and "idproxy", joined by "_".
[[nodiscard]] std::string own_name(const UniqueField& field);
/// The same, or with a number behind it, so that none of these indexes has the name.
[[nodiscard]] std::string free_name(std::span<const Index> indexes, const UniqueField& field);
/// True if the proxy has made it: it has such a name, and exactly the options of an IndexOffer.
[[nodiscard]] bool is_own(const Index& index, const UniqueField& field);
/// The application's index to which the proxy's own ones should yield, because it guards the field
/// and can be read as well; null: there is none, or none of the proxy's own.
[[nodiscard]] const Index* yields_to(std::span<const Index> indexes, const UniqueField& field);

/// The command that makes the index, for mongosh; none if a name in it is no is_name(). With
/// Repetition::and_more, a field is left for a person to fill in.
[[nodiscard]] Commands create_index_command(const Namespace& ns, const UniqueField& field,
                                            const IndexOffer& offer);

/// Appends the collection's indexes to `indexes`.
[[nodiscard]] mongo::Reply list_indexes(mongo::Client& client, const Namespace& ns,
                                        std::vector<Index>& indexes);

/// The unique index that fits the collection's documents. Looks at them for a second at most.
/// `indexes`: of the collection.
[[nodiscard]] IndexOffer offer_index(mongo::Client& client, const Namespace& ns,
                                     const UniqueField& field, std::span<const Index> indexes);

/// The command that makes it. Lists the indexes itself.
[[nodiscard]] Commands advise_index(mongo::Client& client, const Namespace& ns,
                                    const UniqueField& field);

/// Makes the index that offer_index() finds, unless there is a readable_guard_among() them, perhaps
/// made by another proxy meanwhile: then it is not `is_new`.
[[nodiscard]] mongo::Reply make_index(mongo::Client& client, const Namespace& ns,
                                      const UniqueField& field, bool& is_new);

/// Drops the proxy's own indexes on the field, if yields_to() names another one and that is not
/// being built. `to`: its name; empty: nothing was dropped. The caller sees to it that nobody takes
/// the field for guarded meanwhile: both may go at the same time.
[[nodiscard]] mongo::Reply yield_index(mongo::Client& client, const Namespace& ns,
                                       const UniqueField& field, std::string& to);

/// Replaces the proxy's own index on the field by one with the other direction, if it is in the way
/// of one of `wanted`, the indexes in a createIndexes that the server has refused. There is a guard
/// at any time. `replaced`: the name of the one that has gone; unchanged: none has. Clears
/// `is_free` if one is still in the way: if none was, another client's command has made the room.
/// If `wanted` is empty, the server has refused a command while an index is being built: waits for
/// the proxy's own.
[[nodiscard]] mongo::Reply make_room(mongo::Client& client, const Namespace& ns,
                                     const UniqueField& field, Bytes wanted, std::string& replaced,
                                     bool& is_free);

}  // namespace idproxy::id_store
