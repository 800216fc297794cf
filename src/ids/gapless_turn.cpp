#include "ids/gapless_turn.hpp"

#include "idproxy/ids/number_format.hpp"

namespace idproxy::ids {

/// The numbers of a transaction stay free for others, who learn from the server that they are taken
/// once the transaction is committed.
GaplessTurn::~GaplessTurn() {
  const bool in_doubt = is_open_ || is_void_;
  const bool in_transaction = !transaction_.empty();
  if (in_transaction && in_doubt) queue_->transaction_ended(transaction_);
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

void GaplessTurn::accept(Grant grant, Values& out) {
  use(grant.take().front(), out);
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

std::string GaplessTurn::why_waiting() const {
  if (!queue_->statistics().next) return {};
  return "other writes that get numbers of this sequence are under way, one at a time, and have "
         "not ended in time";
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
  if (!transaction_.empty() && n > 0) queue_->note(transaction_, last());
}

void GaplessTurn::give_up(GaplessLook look) {
  is_open_ = false;
  is_void_ = true;
  look_ = look;
}

}  // namespace idproxy::ids
