#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace idproxy::rewrite {

/// Larger unordered batches go in several commands, so that a storm of collisions never makes a
/// reply that mongod cannot send (it closes the connection then; observed at 100,000).
inline constexpr std::size_t kPartStatements = 20'000;

/// Where the server stops in a batch when a statement fails.
enum class Stops {
  never,           ///< unordered
  at_errors,       ///< ordered
  in_transaction,  ///< at the first error, and nothing is sent again
};

/// Which statements of a batch are in the command that is out, which are still to be sent, and how
/// many of them the next command takes. Statements are their indexes in the client's batch.
class BatchProgress {
 public:
  /// Nothing has been sent.
  BatchProgress(std::size_t statements, Stops stops);

  /// All statements are in the client's own command, which is out.
  void sent_whole();
  /// What is still to be sent goes into the next command, `fitting` statements at most.
  void send(std::size_t fitting);
  /// All that is still to be sent joins the command that is out, which goes again in its stead.
  void join();
  /// The command that is out has been answered; `failed`: the position in it of the first statement
  /// with an error.
  void answered(std::optional<std::size_t> failed);
  /// These go first. Of an ordered batch: tail().
  void repeat(std::span<const std::int32_t> statements);

  /// In the command that is out; ascending.
  [[nodiscard]] std::span<const std::int32_t> out() const { return out_; }
  /// Those of them that the server tried, unless one of them failed.
  [[nodiscard]] std::span<const std::int32_t> tried() const;
  /// Of an ordered batch: the statement that failed, and those behind it. Empty if none did.
  [[nodiscard]] std::span<const std::int32_t> tail() const;
  /// To be sent after it.
  [[nodiscard]] std::span<const std::int32_t> todo() const { return todo_; }
  /// Commands sent so far.
  [[nodiscard]] std::size_t commands() const { return commands_; }
  /// The command that is out is all there is.
  [[nodiscard]] bool is_only_command() const { return commands_ == 1 && todo_.empty(); }
  /// The next command takes statements that have never been sent.
  [[nodiscard]] bool begins_part() const { return stops_ == Stops::never && again_ == 0; }
  /// Nothing is to be sent but what is repeated; of an ordered batch, what stands behind that does
  /// not count.
  [[nodiscard]] bool only_repeats() const {
    return stops_ == Stops::at_errors || again_ == todo_.size();
  }

 private:
  void limit_tail(std::optional<std::size_t> failed);

  Stops stops_;
  std::vector<std::int32_t> out_;
  std::vector<std::int32_t> todo_;
  std::size_t again_ = 0;            // unordered: that many of todo_ are repeated, and go first
  std::optional<std::size_t> tail_;  // ordered, after a collision: the next command's size
  std::optional<std::size_t> failed_;
  std::size_t commands_ = 0;
};

}  // namespace idproxy::rewrite
