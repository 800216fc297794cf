#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "idproxy/rewrite/given_values.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/write.hpp"
#include "rewrite/operation.hpp"

namespace idproxy::rewrite {

/// What is known of each statement of a write with its present values: unsent; sent, so that it is
/// stored, or nobody knows; or undone: it has certainly stored nothing.
class Fates {
 public:
  /// Borrows `given`. All are sent, or none.
  Fates(const GivenValues& given, std::size_t statements, bool are_sent)
      : given_(given), all_(statements, are_sent ? Fate::sent : Fate::unsent) {}

  [[nodiscard]] bool is_unsent(std::int32_t statement) const {
    return of(statement) == Fate::unsent;
  }
  [[nodiscard]] bool is_stored_nowhere(std::int32_t statement) const {
    return of(statement) != Fate::sent;
  }

  /// Event: these are on their way, so that their values may be stored.
  void sent(std::span<const std::int32_t> statements) { set(statements, Fate::sent); }
  /// Event: the server has refused a command with these before it executed any.
  void refused(std::span<const std::int32_t> statements) { set(statements, Fate::undone); }
  /// Event: the statement has failed.
  void failed(std::int32_t statement);
  /// Event: the reply to the command with these, which accounts for each, and has been added to
  /// `command`. A statement has stored nothing if its error says so, or if it found a document that
  /// did not take its value.
  void answered(const WriteReply& reply, std::span<const std::int32_t> statements,
                const WriteOptions& options, const Operation& command);
  /// True if the statement, which has inserted nothing, may have given its value to a document that
  /// it found.
  [[nodiscard]] bool may_be_held(std::int32_t statement, const WriteReply& reply) const {
    return given_.may_be_used_by_found(statement) && reply.modified.value_or(1) != 0;
  }

 private:
  enum class Fate : std::uint8_t { unsent, sent, undone };

  [[nodiscard]] Fate of(std::int32_t statement) const {
    return all_[static_cast<std::size_t>(statement)];
  }
  void set(std::span<const std::int32_t> statements, Fate fate) {
    for (const std::int32_t each : statements) all_[static_cast<std::size_t>(each)] = fate;
  }

  const GivenValues& given_;
  std::vector<Fate> all_;
};

}  // namespace idproxy::rewrite
