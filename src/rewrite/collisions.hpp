#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"
#include "idproxy/rewrite/write_reply.hpp"

namespace idproxy::rewrite {

/// A statement whose value is taken.
struct Collision {
  std::int32_t statement;
  std::vector<std::size_t> given;  ///< its values that a fresh one may help, in GivenValues::given
  bool again = false;              ///< it is repeated, with fresh ones
};

/// Tells duplicates of our values from others, and remembers which values are taken.
class TakenValues {
 public:
  /// Borrows all of them. `ns`: "db.collection".
  TakenValues(const Plan& plan, const GivenValues& given, std::string_view ns)
      : plan_(plan), given_(given), ns_(ns) {}

  /// `error`: an 11000, as curable() takes it. The result's `given` is empty if the duplicate is
  /// none of ours.
  [[nodiscard]] Collision collision_of(std::int32_t statement, Bytes error) const;
  /// Those of ours among the errors of a reply to a command with these statements.
  [[nodiscard]] std::vector<Collision> collisions_in(
      std::span<const WriteError> errors, std::span<const std::int32_t> statements) const;

  /// The values of these are taken: their strategies are told.
  void add(std::span<const Collision> collisions, ids::Taken where);
  /// A fresh value stands at this place of GivenValues::given.
  void renewed(std::size_t given) { taken_.erase(given); }
  [[nodiscard]] bool contains(std::size_t given) const { return taken_.contains(given); }

 private:
  const Plan& plan_;
  const GivenValues& given_;
  std::string_view ns_;
  std::unordered_set<std::size_t> taken_;  // of given_.given
  std::vector<std::size_t> counts_;        // in the whole request, by assignment
};

}  // namespace idproxy::rewrite
