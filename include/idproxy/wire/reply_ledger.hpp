#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "idproxy/wire/msg_header.hpp"

namespace idproxy::wire {

/// The replies that a server owes to one connection. A server answers requests in order, each with
/// one reply or, if the reply has moreToCome, with several, each of which names the one before it
/// (OP_MSG specification, "exhaustAllowed"). Not thread-safe.
class ReplyLedger {
 public:
  /// The request that a message answers, by its response_to.
  enum class Owed {
    to_next_request,  ///< the oldest unanswered request
    to_nobody,        ///< no request is outstanding
    to_other,         ///< the message names another one
  };

  /// Event: a request that the server answers was forwarded.
  void forwarded(std::int32_t request_id) {
    if (outstanding_++ > 0) earlier_.push_back(newest_);
    newest_ = request_id;
  }
  /// Event: an OP_QUERY with the flag Exhaust was forwarded: replies that no request asks for may
  /// come from now on.
  void permit_unrequested() { unrequested_permitted_ = true; }

  /// Forwarded requests whose last reply has not ended.
  [[nodiscard]] std::uint64_t outstanding() const { return outstanding_; }
  [[nodiscard]] bool unrequested_permitted() const { return unrequested_permitted_; }
  [[nodiscard]] Owed owed(const MsgHeader& reply) const {
    if (outstanding_ == 0) return Owed::to_nobody;
    return reply.response_to == next() ? Owed::to_next_request : Owed::to_other;
  }

  /// Event: the reply to the next request begins; another one follows it.
  void begin_with_more(const MsgHeader& reply) {
    last_ = false;
    if (outstanding_ > 0) next() = reply.request_id;
  }
  /// Event: the next request's last reply begins.
  void begin_last() { last_ = true; }
  /// True if the reply that began is its request's last.
  [[nodiscard]] bool is_last() const { return last_; }
  /// Event: the last reply to the next request has ended.
  void answered() {
    if (outstanding_ == 0) return;
    --outstanding_;
    if (at_ < earlier_.size()) ++at_;
    if (at_ * 2 > earlier_.size()) {
      earlier_.erase(earlier_.begin(), earlier_.begin() + static_cast<std::ptrdiff_t>(at_));
      at_ = 0;
    }
  }

 private:
  [[nodiscard]] std::int32_t next() const {
    return at_ < earlier_.size() ? earlier_[at_] : newest_;
  }
  [[nodiscard]] std::int32_t& next() { return at_ < earlier_.size() ? earlier_[at_] : newest_; }

  std::uint64_t outstanding_ = 0;
  // The ids that the next replies must name: newest_ is that of the newest request, often the only
  // one; earlier_ has those before it, from at_ on.
  std::int32_t newest_ = 0;
  bool last_ = false;
  bool unrequested_permitted_ = false;
  std::vector<std::int32_t> earlier_;
  std::size_t at_ = 0;
};

}  // namespace idproxy::wire
