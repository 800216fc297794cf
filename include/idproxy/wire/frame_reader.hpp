#pragma once

#include <cstddef>
#include <cstdint>

#include "idproxy/wire/msg_header.hpp"

namespace idproxy::wire {

/// Finds the messages in one direction of a connection; owns no bytes. The caller looks at the
/// front of the stream, decides what to do with a message, and removes bytes in pieces of any size:
///
///   Front front = frames.look(bytes);
///   begin:     a message starts. Make it the current one with pass(), or collect it whole and
///              remove it without pass()
///   inside:    the first front.bytes bytes belong to the current message: remove n, call took(n)
///   need_more: fewer bytes than a header
///   malformed: the length is below 16 or above the limit; the stream cannot be read any further
class FrameReader {
 public:
  enum class Kind { need_more, begin, inside, malformed };
  struct Front {
    Kind kind;
    MsgHeader header{};     ///< for `begin` and `malformed`
    std::size_t bytes = 0;  ///< for `inside`; at most as many as look() got
  };

  [[nodiscard]] Front look(Bytes bytes) const;

  /// Makes the message that begins, of `length` bytes, the current one, to be removed in pieces.
  void pass(std::size_t length) { left_ = static_cast<std::int64_t>(length); }
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

}  // namespace idproxy::wire
