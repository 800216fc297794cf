#pragma once

#include <cstddef>

#include "idproxy/base/bytes.hpp"
#include "idproxy/wire/compression.hpp"

namespace idproxy::net {

/// How one io thread inflates and deflates messages, one at a time. Not thread-safe.
class Inflation {
 public:
  /// How much of a compressed message is waited for so that its beginning can be inflated: zstd
  /// compresses up to 128 KiB together.
  static constexpr std::size_t kMostOfPrefix = std::size_t{160} * 1024;

  struct Peeked {
    enum class Kind {
      there,  ///< the beginning of the message, or all of it, has been inflated
      need,   ///< peek again once `bytes` have been received
      whole,  ///< the beginning is of no use by itself: inflate all of it
      malformed,
    };
    Kind kind;
    std::size_t bytes = 0;
  };
  /// Inflates the beginning of a message that is larger than wire::Codec::kPrefix. `received` of
  /// the `length` bytes of the OP_COMPRESSED have been received.
  [[nodiscard]] Peeked peek(const wire::CompressedView& view, std::size_t received,
                            std::size_t length, Buffer& out);
  /// `message` as OP_COMPRESSED; itself if that is `none`, or would be too long for a server. Valid
  /// until the next call.
  [[nodiscard]] Bytes deflate(wire::Compressor compressor, Bytes message);
  /// Frees the memory that a large message has left behind.
  void trim();

  wire::Codec codec;
  Buffer request;  ///< what was inflated of the request at hand
  Buffer reply;    ///< of the reply at hand
  Buffer plain;    ///< a message that is about to be deflated

 private:
  Buffer deflated_;
};

}  // namespace idproxy::net
