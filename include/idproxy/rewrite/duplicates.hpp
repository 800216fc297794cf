#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {

/// True if the statement with the error may have brought a value of its own for `_id`, or got one.
using MayHaveId = std::function<bool()>;

/// The assignments, as positions in `plan`, for which a fresh value may cure a duplicate key error:
/// those whose field is a key of the violated index or lies below one. `error` is an entry of
/// writeErrors or the body of a reply:
///
///   {…, code: 11000, errmsg: "E11000 duplicate key error collection: DB.COLL index: NAME dup key:
///    …", keyPattern: {KEY: 1, …}, keyValue: {…}}
///
/// An index on a path below an assigned field does not count: the value has no such subfield, so
/// the index sees null whatever value is assigned. keyValue is not read, because it may be absent,
/// contain an ICU sort key in hex, or be invalid UTF-8 (observed, 6.0.5).
///
/// Some servers send no keyPattern: MongoDB before 4.2, and others that speak its protocol. Their
/// errmsg is all there is, in one of these forms:
///
///   … collection: DB.COLL index: NAME dup key: …
///   … collection: DB.COLL index: NAME
///   Duplicate key violation on the requested collection: Index 'NAME'
///   … collection: DB.COLL                                     (FerretDB 1)
///
/// An index with a name counts only if that says which field it is on: `_id_` or FIELD_…. Without a
/// name, the only unique index of the collection is meant. That on `_id` is another one, unless
/// `may_have_id` says that it cannot be. `ns`: "db.collection".
[[nodiscard]] std::vector<std::uint16_t> curable(
    Bytes error, std::string_view ns, const Plan& plan,
    const MayHaveId& may_have_id = [] { return true; });

/// True if the error's keyPattern has no other key than this field, not even one around it.
[[nodiscard]] bool is_on_field_alone(Bytes error, std::string_view field);

/// A statement with values that are taken.
struct Collision {
  std::int32_t statement;
  std::vector<std::size_t> given;  ///< values to replace: indexes in GivenValues::given
  bool again = false;              ///< it is repeated with fresh values
  RetryBound ended_by{};           ///< else: why not
  /// The violated index has one key: the field of such a value.
  bool on_field_alone = false;
};

/// Tells duplicates of generated values from other duplicates, and remembers which values are
/// taken.
class TakenValues {
 public:
  /// Borrows its arguments. `ns`: "db.collection"; `write`: the client's, null: not at hand.
  TakenValues(const Plan& plan, const GivenValues& given, std::string_view ns,
              const WriteRequest* write = nullptr)
      : plan_(plan), given_(given), ns_(ns), write_(write) {}

  /// `error`: a duplicate key error (code 11000) as for curable(). The result's `given` is empty if
  /// the duplicate is not of a generated value.
  [[nodiscard]] Collision collision_of(std::int32_t statement, Bytes error) const;
  /// The collisions of generated values among the errors in a reply to a command with these
  /// statements.
  [[nodiscard]] std::vector<Collision> collisions_in(
      std::span<const WriteError> errors, std::span<const std::int32_t> statements) const;

  /// Marks the values of these collisions as taken, and tells the strategies that generated them.
  void add(std::span<const Collision> collisions, ids::Taken where);
  /// Event: the value at this index of GivenValues::given has been replaced by a fresh one.
  void renewed(std::size_t given) { taken_.erase(given); }
  [[nodiscard]] bool contains(std::size_t given) const { return taken_.contains(given); }

 private:
  [[nodiscard]] bool may_have_id(std::int32_t statement) const;

  const Plan& plan_;
  const GivenValues& given_;
  std::string_view ns_;
  const WriteRequest* write_;
  std::unordered_set<std::size_t> taken_;                       // indexes in given_.given
  std::unordered_map<const ids::Source*, std::size_t> counts_;  // in the whole request
};

}  // namespace idproxy::rewrite
