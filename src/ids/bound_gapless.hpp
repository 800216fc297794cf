#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/strategy.hpp"
#include "ids/gapless_turn.hpp"

namespace idproxy::ids {

/// Draws from one sequence without gaps, and writes its numbers in one format. The state is in the
/// queue.
class BoundGapless final : public Strategy, public Sequenced {
 public:
  BoundGapless(std::shared_ptr<GaplessQueue> queue, NumberFormat format)
      : queue_(std::move(queue)), format_(std::move(format)) {}

  Sequenced* sequenced() override { return this; }
  [[nodiscard]] std::size_t most_bytes() const override { return longest(format_); }
  [[nodiscard]] std::unique_ptr<Turn> turn(TurnTaker taker) override {
    return std::make_unique<GaplessTurn>(queue_, format_, std::move(taker));
  }
  [[nodiscard]] std::string name() const override { return queue_->spec().name(); }
  Draw next(std::size_t /*n*/, Values& /*out*/) override {
    return Error{Errc::exhausted, "its numbers are for documents that are being stored"};
  }

 private:
  const std::shared_ptr<GaplessQueue> queue_;
  const NumberFormat format_;
};

}  // namespace idproxy::ids
