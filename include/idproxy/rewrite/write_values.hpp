#pragma once

#include <cstddef>
#include <vector>

#include "idproxy/ids/draw.hpp"
#include "idproxy/rewrite/request.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {

/// The result of scanning one write command.
struct ScanResult {
  enum class Kind {
    unchanged,  ///< forward it unchanged: no values to assign, or mongod will refuse it
    assigned,   ///< draw the values, then write the command with them
    failed,     ///< send nothing; answer with `error`
  };
  Kind kind = Kind::unchanged;
  CommandError error;
  std::size_t statements = 0;
  std::size_t size = 0;                     ///< bytes of the message without the new values
  std::vector<RefusedDocument> refused;     ///< documents to replace by refused_document()
  const Assignment* driver_made = nullptr;  ///< an `_id` rule that found only driver-made ObjectIds
  /// A rule whose field has a zero that the rule leaves, as `assign: missing-or-zero` would not.
  const Assignment* leaves_zero = nullptr;
  std::vector<Forwarded> forwarded;  ///< if it is not `failed`
};

/// Appends `count` new values for an assignment to `out`.
[[nodiscard]] ids::Draw draw(const Assignment& assignment, std::size_t count, ids::Values& out);
/// The error with which a whole command fails if it cannot get its values.
/// `ns`: "db.collection".
[[nodiscard]] CommandError no_values(const wire::OpMsgView& write, std::string_view ns,
                                     const Assignment& assignment, const ids::Error& error);
/// The text of that error. `ns`: "db.collection".
[[nodiscard]] std::string no_value_text(std::string_view ns, const Assignment& assignment,
                                        const ids::Error& error);

/// Limits for one command: the number of its values, and the bytes of its message together with the
/// values. A command beyond them fails with too_large().
inline constexpr std::size_t kMostValues = 2'000'000;  // 20 for each of 100,000 documents
inline constexpr std::size_t kMostWithIds = 2 * static_cast<std::size_t>(wire::kMaxMessageSize);

/// The error with which a write fails if its values make it too large for a message.
[[nodiscard]] CommandError too_large();
/// Gives each place in `given` the next value of its rule, in the order of the statements, and sets
/// given.wanted.
void number_values(const Plan& plan, GivenValues& given);

}  // namespace idproxy::rewrite
