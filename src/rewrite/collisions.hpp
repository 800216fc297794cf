#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/rewrite/write_reply.hpp"

namespace idproxy::rewrite {

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
  /// Borrows its arguments. `ns`: "db.collection"; `message`: the client's, null: not at hand.
  TakenValues(const Plan& plan, const GivenValues& given, std::string_view ns,
              const wire::OpMsgView* message = nullptr)
      : plan_(plan), given_(given), ns_(ns), message_(message) {}

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
  const wire::OpMsgView* message_;
  std::unordered_set<std::size_t> taken_;                       // indexes in given_.given
  std::unordered_map<const ids::Source*, std::size_t> counts_;  // in the whole request
};

}  // namespace idproxy::rewrite
