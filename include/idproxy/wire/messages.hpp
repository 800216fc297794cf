#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "idproxy/base/bytes.hpp"

/// The MongoDB wire protocol (MongoDB manual, "Wire Protocol"; driver specifications, "OP_MSG").
///
///   message ::= int32 messageLength  int32 requestID  int32 responseTo  int32 opCode  body
///
/// All integers are little-endian; messageLength includes the header.
namespace idproxy::wire {

enum class OpCode : std::int32_t {
  reply = 1,
  update = 2001,
  insert = 2002,
  query = 2004,
  get_more = 2005,
  compressed = 2012,
  msg = 2013,
};

struct MsgHeader {
  std::int32_t message_length;
  std::int32_t request_id;
  std::int32_t response_to;
  OpCode op_code;  ///< may be an unknown value
};

inline constexpr std::size_t kHeaderSize = 16;
/// maxMessageSizeBytes: mongod closes the connection at 48,000,001 (observed, 6.0.5).
inline constexpr std::int64_t kMaxMessageSize = 48'000'000;

/// `bytes` must hold at least kHeaderSize bytes.
inline MsgHeader read_header(Bytes bytes) {
  return {load_i32(bytes.data()), load_i32(bytes.data() + 4), load_i32(bytes.data() + 8),
          static_cast<OpCode>(load_i32(bytes.data() + 12))};
}

inline void write_header(std::uint8_t* at, const MsgHeader& header) {
  store_i32(at, header.message_length);
  store_i32(at + 4, header.request_id);
  store_i32(at + 8, header.response_to);
  store_i32(at + 12, static_cast<std::int32_t>(header.op_code));
}

/// Finds the messages in one direction of a connection; owns no bytes. The caller looks at the
/// front of the stream, decides what to do with a message, and removes bytes in pieces of any size:
///
///   Front front = frames.front(bytes);
///   begin:     a message starts. Make it the current one with enter(), or collect it whole and
///              remove it without enter()
///   inside:    the first front.bytes bytes belong to the current message: remove n, call took(n)
///   need_more: fewer bytes than a header
///   malformed: the length is below 16 or above the limit; the stream cannot be read any further
class FrameReader {
 public:
  enum class Kind { need_more, begin, inside, malformed };
  struct Front {
    Kind kind;
    MsgHeader header{};     ///< for `begin` and `malformed`
    std::size_t bytes = 0;  ///< for `inside`; at most as many as front() got
  };

  [[nodiscard]] Front front(Bytes bytes) const;

  /// Makes the message that begins, of `length` bytes, the current one, to be removed in pieces.
  void enter(std::size_t length) { left_ = static_cast<std::int64_t>(length); }
  /// Notes that `n` bytes of the current message were removed; true if they were its last.
  bool took(std::size_t n) {
    left_ -= static_cast<std::int64_t>(n);
    return left_ == 0;
  }
  /// True while the current message has bytes left.
  [[nodiscard]] bool inside() const { return left_ > 0; }

 private:
  std::int64_t left_ = 0;  // bytes of the current message
};

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
