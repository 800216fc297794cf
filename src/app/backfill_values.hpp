#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backfill_commands.hpp"
#include "idproxy/ids/sequenced.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::app {

/// The values of one update, one for each of its documents, in their order; and where they came
/// from: the rule's strategy, the sequences that the documents belong to, or the turn of a sequence
/// without gaps. A turn whose number was taken goes on with the next draw from the same sequence.
/// One thread.
class BackfillValues {
 public:
  using Sequences = std::span<const std::shared_ptr<ids::Strategy>>;

  /// `plan`: the one assignment that gives the values. Borrows it.
  explicit BackfillValues(const rewrite::Plan& plan) : plan_(plan) {}

  /// The most values that one update may have.
  [[nodiscard]] std::size_t most() const;
  /// Draws `count` values in place of those that it has. `sequences`: of the documents; empty if
  /// the rule has none. Waits for the id store, at most as long as an insert does. After an error
  /// it has no values; with Errc::unavailable another attempt may succeed.
  [[nodiscard]] ids::Result<void> draw(std::size_t count, Sequences sequences);
  /// True if the id store was preparing the values that were not there in time.
  [[nodiscard]] bool are_prepared() const { return is_prepared_; }
  [[nodiscard]] const ids::Values& all() const { return given_.values.front(); }

  /// Event: the values are sent.
  void sent();
  /// Event: the server has answered.
  void answered(const UpdateOutcome& outcome);
  /// Event: the value at this position is taken. `in_a_row`: so many of one document.
  void collided(std::size_t at, std::size_t in_a_row);
  /// Event: the first `count` were stored.
  void went_well(std::size_t count);

  /// True if the id store counts values as used that no document has.
  [[nodiscard]] bool leave_gaps() const { return lends_; }
  /// Returns these values, which are stored nowhere.
  void take_back(std::size_t from, std::size_t to);

 private:
  [[nodiscard]] ids::Result<void> draw_in_turn(std::size_t count, ids::Sequenced& sequence);
  [[nodiscard]] ids::Result<ids::Grant> ask(ids::StoreSource& source, std::size_t count);
  void choose(Sequences sequences);
  using Use = std::function<void(ids::Strategy&, std::span<const std::uint32_t> which)>;
  void each_source(std::size_t from, std::size_t to, const Use& use) const;

  const rewrite::Plan& plan_;
  rewrite::GivenValues given_;
  std::unique_ptr<ids::Turn> turn_;           // of a sequence without gaps
  const ids::Sequenced* sequence_ = nullptr;  // of the turn
  bool goes_on_ = false;                      // the turn, although a number was taken
  bool lends_ = false;
  bool is_prepared_ = false;
};

}  // namespace idproxy::app
