#include "ids/gapless_source.hpp"

#include <utility>

#include "idproxy/base/printable.hpp"
#include "idproxy/ids/number_format.hpp"

namespace idproxy::ids {
namespace {

/// A Turn of a GaplessQueue.
class GaplessTurn final : public Turn {
 public:
  /// `format`: of its values.
  GaplessTurn(std::shared_ptr<GaplessQueue> queue, NumberFormat format, TurnTaker taker)
      : queue_(std::move(queue)),
        format_(std::move(format)),
        taker_(std::move(taker)),
        ticket_(queue_->enter(taker_.takes)) {}
  ~GaplessTurn() override;

  Draw next(std::size_t n, Values& out) override;
  Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) override {
    return queue_->ask(ticket_, n, how_, transaction_, std::move(waiter));
  }
  [[nodiscard]] std::string why_waiting() const override;
  [[nodiscard]] std::shared_ptr<const NumberHolder> held_by() const override {
    return queue_->held_by(transaction_);
  }
  [[nodiscard]] bool is_held() const override { return queue_->is_held(transaction_); }
  void accept(Grant grant, Values& out) override { use(grant.take().front(), out); }

  void sent() override { is_open_ = true; }
  void stored(std::size_t n, Durability durability) override;
  void taken() override { give_up(GaplessRead::quick); }
  void lost() override { give_up(GaplessRead::sure); }

 private:
  void use(const Range& numbers, Values& out);
  void give_up(GaplessRead how) {
    is_open_ = false;
    is_void_ = true;
    how_ = how;
  }
  [[nodiscard]] std::int64_t last() const { return static_cast<std::int64_t>(next_ - 1); }

  const std::shared_ptr<GaplessQueue> queue_;
  const NumberFormat format_;
  const TurnTaker taker_;
  const std::string& transaction_ = taker_.transaction;  // empty: none
  const std::uint64_t ticket_;
  GaplessRead how_ = GaplessRead::sure;  // how to find other numbers
  Int128 next_ = 0;                      // the lowest of the numbers that is not stored
  bool is_open_ = false;                 // the server has not answered
  bool is_void_ = false;                 // the numbers are taken or lost, and there are no others
  bool has_stored_ = false;
  bool is_durable_ = false;  // what is stored stays stored
};

/// The numbers of a transaction stay free for others, who learn from the server that they are taken
/// once the transaction is committed.
GaplessTurn::~GaplessTurn() {
  const bool in_doubt = is_open_ || is_void_;
  const bool in_transaction = !transaction_.empty();
  if (in_transaction && in_doubt) queue_->transaction_ended(transaction_, false);
  if (in_doubt || (has_stored_ && !is_durable_ && !in_transaction)) {
    queue_->unknown(ticket_);
  } else if (has_stored_ && !in_transaction) {
    queue_->stored(ticket_, last());
  } else {
    queue_->leave(ticket_);
  }
}

Draw GaplessTurn::next(std::size_t n, Values& out) {
  if (!transaction_.empty()) {
    const auto own = queue_->last_of(transaction_);
    const auto room = own ? Int128{queue_->spec().max} - *own : 0;
    if (own && room >= static_cast<Int128>(n)) {
      use({*own + 1, n}, out);
      return {};
    }
  }
  if (is_void_) return Draw::need();
  const auto numbers = queue_->take(ticket_, n, transaction_);
  if (!numbers) return Draw::need();
  if (!*numbers) return numbers->error();
  use(**numbers, out);
  return {};
}

void GaplessTurn::use(const Range& numbers, Values& out) {
  is_void_ = false;
  has_stored_ = false;  // of these numbers
  is_durable_ = false;
  next_ = numbers.first;
  for (std::uint64_t i = 0; i < numbers.count; ++i) {
    append_number(numbers.first + static_cast<std::int64_t>(i), format_, out);
  }
}

/// Clients see this too, so it names no connection.
std::string GaplessTurn::why_waiting() const {
  if (const auto holder = held_by()) {
    return "the next number is held by an open transaction of " +
           (holder->application.empty() ? "another client"
                                        : "the application " + named(holder->application)) +
           ", which has not ended in time";
  }
  if (!queue_->statistics().next) return {};
  return "writes that get numbers of this sequence go one at a time, and those before this one "
         "have not ended in time: the server is slow, or an open transaction, through another "
         "proxy or past them all, holds the number";
}

void GaplessTurn::stored(std::size_t n, Durability durability) {
  is_open_ = false;
  next_ += static_cast<Int128>(n);
  has_stored_ = has_stored_ || n > 0;
  if (durability == Durability::by_majority) {
    is_durable_ = true;
  } else if (n > 0) {
    is_durable_ = false;
  }
  if (!transaction_.empty() && n > 0) queue_->note(taker_, last());
}

class GaplessSource final : public Source {
 public:
  GaplessSource(std::shared_ptr<GaplessQueue> queue, NumberFormat format)
      : queue_(std::move(queue)), format_(std::move(format)) {}

  [[nodiscard]] std::size_t most_bytes() const override { return longest(format_); }
  Draw next(std::size_t /*n*/, Values& /*out*/) override {
    return Error{Errc::exhausted, "its numbers are for documents that are being stored"};
  }
  [[nodiscard]] std::unique_ptr<Turn> turn(TurnTaker taker) override {
    return std::make_unique<GaplessTurn>(queue_, format_, std::move(taker));
  }
  [[nodiscard]] std::string name() const override { return queue_->spec().name(); }

 private:
  const std::shared_ptr<GaplessQueue> queue_;
  const NumberFormat format_;
};

}  // namespace

std::shared_ptr<Source> gapless_source(std::shared_ptr<GaplessQueue> queue,
                                       const NumberFormat& format) {
  return std::make_shared<GaplessSource>(std::move(queue), format);
}

}  // namespace idproxy::ids
