#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backfill_batch.hpp"
#include "backfill_commands.hpp"
#include "id_store/mongo.hpp"
#include "progress.hpp"

namespace idproxy::app {

/// Reads the ids of the documents without a value, in order, and has each batch of them given
/// values. Where the cursor is lost, reads again: documents that have a value are not found again.
/// One thread.
class BackfillRun {
 public:
  struct Options {
    BackfillOrder order;
    std::uint32_t rate = 0;  ///< documents per second; 0: no limit
  };
  /// `pool`: whose commands may take as long as reading all of the collection. Borrows its
  /// arguments, except `options`.
  BackfillRun(const BackfillTarget& target, BackfillBatch& batch, const id_store::mongo::Pool& pool,
              const StopSignals& stop, Patience& patience, ProgressDisplay& display,
              Options options);

  /// Returns when no document is left that could get a value, or when it cannot go on.
  void run();
  /// Why run() ended early; empty: it did not.
  [[nodiscard]] std::string why_ended() const;
  /// How many documents still lack a value and could get one, if run() had reason to count them.
  [[nodiscard]] std::optional<std::uint64_t> left() const { return left_; }

 private:
  [[nodiscard]] bool goes_on() const { return why_ended().empty(); }
  void read_through();
  [[nodiscard]] bool add(Bytes document);
  [[nodiscard]] bool give();
  [[nodiscard]] bool are_more_left();

  const BackfillTarget& target_;
  BackfillBatch& batch_;
  id_store::mongo::Client client_;
  const StopSignals& stop_;
  Patience& patience_;
  ProgressDisplay& display_;
  const BackfillOrder order_;
  const std::size_t batch_size_;
  const id_store::mongo::Document find_;

  Pace pace_;
  std::vector<BackfillDocument> documents_;  // the next batch
  std::size_t bytes_ = 0;                    // of them
  std::string why_ended_;                    // unless batch_ or stop_ says why
  std::optional<std::uint64_t> left_;
};

/// Counts documents. Nothing: no server answers, or it refuses; then `reply` says why.
[[nodiscard]] std::optional<std::uint64_t> count_matching(id_store::mongo::Client& client,
                                                          const BackfillTarget& target,
                                                          const id_store::mongo::Document& filter,
                                                          id_store::mongo::Reply& reply);

}  // namespace idproxy::app
