#pragma once

#include <cstddef>
#include <cstdint>

#include "idproxy/wire/msg_header.hpp"

namespace idproxy::wire {

/// Finds the messages in one direction of a connection without owning a byte. The caller looks at
/// the front of the stream, decides what a message needs, and takes bytes off in pieces of any
/// size:
///
///   Front front = frames.look(bytes);
///   begin:     a message starts; pass(front.header) makes it the current one, or it is collected
///              and handed over whole, and then never passed
///   inside:    the first front.bytes bytes belong to the current message: took(n)
///   need_more: not even a header yet
///   malformed: the length is below 16 or above the limit; the stream has no meaning from here on
class FrameReader {
 public:
  enum class Kind { need_more, begin, inside, malformed };
  struct Front {
    Kind kind;
    MsgHeader header{};     ///< of `begin` and `malformed`
    std::size_t bytes = 0;  ///< of `inside`; never more than was looked at
  };

  [[nodiscard]] Front look(Bytes bytes) const;

  /// The message whose header was seen is taken off the stream in pieces.
  void pass(const MsgHeader& header) { left_ = header.message_length; }
  /// `n` bytes of the current message were taken; true if they were its last.
  bool took(std::size_t n) {
    left_ -= static_cast<std::int64_t>(n);
    return left_ == 0;
  }
  /// The current message is not at its end.
  [[nodiscard]] bool inside() const { return left_ > 0; }

 private:
  std::int64_t left_ = 0;  // of the current message
};

}  // namespace idproxy::wire
