#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/wire/messages.hpp"

namespace idproxy::wire {

/// The compressors of the specification that carry something, by their ids on the wire.
enum class Compressor : std::uint8_t { none = 0, snappy = 1, zlib = 2, zstd = 3 };
inline constexpr std::array kCompressors{Compressor::snappy, Compressor::zlib, Compressor::zstd};

/// "snappy", as hello and the logs name it.
[[nodiscard]] std::string_view name_of(Compressor compressor);
/// The compressor of that name; `none` if the proxy has none.
[[nodiscard]] Compressor compressor_named(std::string_view name);

/// A set of compressors.
class Compressors {
 public:
  [[nodiscard]] static Compressors all() {
    Compressors every;
    for (const Compressor each : kCompressors) every.add(each);
    return every;
  }
  void add(Compressor compressor) { bits_ |= bit(compressor); }
  [[nodiscard]] bool has(Compressor compressor) const { return (bits_ & bit(compressor)) != 0; }
  bool operator==(const Compressors&) const = default;

 private:
  static unsigned bit(Compressor compressor) {
    return compressor == Compressor::none ? 0U : 1U << static_cast<unsigned>(compressor);
  }
  unsigned bits_ = 0;
};

/// OP_COMPRESSED (driver specifications, "Wire Compression in Drivers"):
///
///   header  int32 originalOpcode  int32 uncompressedSize  uint8 compressorId  compressed
///
/// uncompressedSize is that of the original message without its header, which has the requestID and
/// the responseTo of the outer one.
inline constexpr std::size_t kCompressedOffset = kHeaderSize + 9;

struct CompressedView {
  MsgHeader original;  ///< the header of the message inside
  Compressor compressor;
  Bytes compressed;  ///< as much of it as has been received

  /// Reads the first bytes of a message, at least kCompressedOffset; `header` is its own, with the
  /// length checked. Nothing if the compressor is none of kCompressors, if it holds anything but an
  /// OP_MSG, or if that is empty or longer than kMaxMessageSize.
  [[nodiscard]] static std::optional<CompressedView> read(const MsgHeader& header, Bytes front);
};

/// Inflates and deflates messages, one after the other, in memory that it keeps. Not thread-safe.
class Codec {
 public:
  /// How much of a message is inflated to look at it. Enough for the body of all commands whose
  /// documents come in a sequence of their own.
  static constexpr std::size_t kPrefix = 4096;

  enum class Prefix {
    there,      ///< `out` has the header and the first kPrefix bytes after it
    need_more,  ///< more of `compressed` has to be received
    opaque,     ///< the beginning alone cannot be inflated within reasonable memory
    malformed,
  };

  Codec();
  ~Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  /// Inflates the beginning of a message that has more than kPrefix bytes after its header.
  [[nodiscard]] Prefix inflate_prefix(const CompressedView& view, Buffer& out);
  /// Inflates a whole message into `out`, header included. False if it is malformed: `compressed`
  /// must give exactly the size that it states, and must be used up. Allocates as much as it
  /// states, so the caller has found room for that.
  [[nodiscard]] bool inflate(const CompressedView& view, Buffer& out);
  /// Replaces `out` by the OP_COMPRESSED of `message`, which is a whole message. Levels are those
  /// that drivers use unless they are told otherwise: zlib's own default, and 3 for zstd.
  void deflate(Compressor compressor, Bytes message, Buffer& out);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

}  // namespace idproxy::wire
