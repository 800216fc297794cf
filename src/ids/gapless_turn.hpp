#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "idproxy/ids/gapless_queue.hpp"
#include "idproxy/ids/sequenced.hpp"

namespace idproxy::ids {

/// A Turn of a GaplessQueue.
class GaplessTurn final : public Turn {
 public:
  /// `format`: of its values.
  GaplessTurn(std::shared_ptr<GaplessQueue> queue, NumberFormat format, TurnTaker taker)
      : queue_(std::move(queue)),
        format_(std::move(format)),
        transaction_(std::move(taker.transaction)),
        ticket_(queue_->enter(taker.takes)) {}
  ~GaplessTurn() override;

  Draw next(std::size_t n, Values& out) override;
  Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) override {
    return queue_->ask(ticket_, n, look_, transaction_, std::move(waiter));
  }
  [[nodiscard]] std::string why_waiting() const override;
  void accept(Grant grant, Values& out) override;

  void sent() override { is_open_ = true; }
  void stored(std::size_t n, Durability durability) override;
  void taken() override { give_up(GaplessLook::quick); }
  void lost() override { give_up(GaplessLook::sure); }

 private:
  void use(const Range& numbers, Values& out);
  void give_up(GaplessLook look);
  [[nodiscard]] std::int64_t last() const { return static_cast<std::int64_t>(next_ - 1); }

  const std::shared_ptr<GaplessQueue> queue_;
  const NumberFormat format_;
  const std::string transaction_;  // empty: none
  const std::uint64_t ticket_;
  GaplessLook look_ = GaplessLook::sure;  // how to find other numbers
  Int128 next_ = 0;                       // the lowest of the numbers that is not stored
  bool is_open_ = false;                  // the server has not answered
  bool is_void_ = false;                  // the numbers are taken or lost, and there are no others
  bool has_stored_ = false;
  bool is_durable_ = false;  // what is stored stays stored
};

}  // namespace idproxy::ids
