#include "idproxy/wire/compression.hpp"

#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <span>

#include "idproxy/base/owned.hpp"
#include "wire/snappy_prefix.hpp"

namespace idproxy::wire {
namespace {

constexpr int kZstdLevel = 3;
// A stream decoder needs memory for the window that a message states. Its beginning is only looked
// at with what zstd's own documentation asks of every decoder: 8 MiB.
constexpr int kZstdWindowLog = 23;
constexpr std::uint32_t kZstdMagic = ZSTD_MAGICNUMBER;

using Prefix = Codec::Prefix;

Prefix as_prefix(SnappyPrefix::Status status) {
  if (status == SnappyPrefix::Status::there) return Prefix::there;
  return status == SnappyPrefix::Status::need_more ? Prefix::need_more : Prefix::malformed;
}

/// The library also reads formats from before 0.8, with decoders of their own, and anything that it
/// is to skip. No driver sends those.
bool begins_zstd_frame(Bytes compressed) {
  return compressed.size() >= 4 && load_u32(compressed.data()) == kZstdMagic;
}

const char* as_chars(Bytes bytes) {
  return reinterpret_cast<const char*>(bytes.data());
}

/// As zlib wants to have it, which does not write there.
Bytef* as_zlib(Bytes bytes) {
  return const_cast<Bytef*>(bytes.data());
}

bool inflate_snappy(Bytes compressed, std::span<std::uint8_t> out) {
  std::size_t size = 0;
  const char* const from = as_chars(compressed);
  if (snappy_uncompressed_length(from, compressed.size(), &size) != SNAPPY_OK) return false;
  return size == out.size() &&
         snappy_uncompress(from, compressed.size(), reinterpret_cast<char*>(out.data()), &size) ==
             SNAPPY_OK;
}

std::size_t deflate_snappy(Bytes message, Buffer& out) {
  std::size_t size = snappy_max_compressed_length(message.size());
  snappy_compress(as_chars(message), message.size(), reinterpret_cast<char*>(out.extend(size)),
                  &size);
  return size;
}

std::span<std::uint8_t> begin(const MsgHeader& header, std::size_t size, Buffer& out) {
  out.clear();
  std::uint8_t* const at = out.extend(kHeaderSize + size);
  write_header(at, header);
  return {at + kHeaderSize, size};
}

}  // namespace

/// What the libraries keep from message to message. Each is made when it is first needed.
struct Codec::Contexts {
  struct Inflating : z_stream {
    Inflating() : z_stream() {
      if (inflateInit(this) != Z_OK) throw std::bad_alloc();
    }
    Inflating(const Inflating&) = delete;
    Inflating& operator=(const Inflating&) = delete;
    ~Inflating() { inflateEnd(this); }
  };
  struct Deflating : z_stream {
    Deflating() : z_stream() {
      if (deflateInit(this, Z_DEFAULT_COMPRESSION) != Z_OK) throw std::bad_alloc();
    }
    Deflating(const Deflating&) = delete;
    Deflating& operator=(const Deflating&) = delete;
    ~Deflating() { deflateEnd(this); }
  };
  ZSTD_DCtx* zstd_inflating() {
    if (zstd_in == nullptr) {
      zstd_in.reset(ZSTD_createDCtx());
      if (zstd_in == nullptr) throw std::bad_alloc();
      ZSTD_DCtx_setParameter(zstd_in.get(), ZSTD_d_windowLogMax, kZstdWindowLog);
    }
    return zstd_in.get();
  }
  /// Inflates until `out` is full, the input is used up, or the stream ends. zlib's result.
  int inflate_zlib(Bytes compressed, std::span<std::uint8_t> out) {
    if (!zlib_in) zlib_in.emplace();
    inflateReset(&*zlib_in);
    zlib_in->next_in = as_zlib(compressed);
    zlib_in->avail_in = static_cast<uInt>(compressed.size());
    zlib_in->next_out = out.data();
    zlib_in->avail_out = static_cast<uInt>(out.size());
    return ::inflate(&*zlib_in, Z_SYNC_FLUSH);
  }
  Prefix zlib_prefix(Bytes compressed, std::span<std::uint8_t> out) {
    const int result = inflate_zlib(compressed, out);
    if (zlib_in->avail_out == 0) return Prefix::there;
    const bool goes_on = result == Z_OK || result == Z_BUF_ERROR;
    return goes_on && zlib_in->avail_in == 0 ? Prefix::need_more : Prefix::malformed;
  }
  bool zlib_whole(Bytes compressed, std::span<std::uint8_t> out) {
    return inflate_zlib(compressed, out) == Z_STREAM_END && zlib_in->avail_in == 0 &&
           zlib_in->avail_out == 0;
  }
  std::size_t deflate_zlib(Bytes message, Buffer& out) {
    if (!zlib_out) zlib_out.emplace();
    deflateReset(&*zlib_out);
    const std::size_t most = deflateBound(&*zlib_out, message.size());
    zlib_out->next_in = as_zlib(message);
    zlib_out->avail_in = static_cast<uInt>(message.size());
    zlib_out->next_out = out.extend(most);
    zlib_out->avail_out = static_cast<uInt>(most);
    ::deflate(&*zlib_out, Z_FINISH);
    return most - zlib_out->avail_out;
  }
  Prefix zstd_prefix(Bytes compressed, std::span<std::uint8_t> out) {
    if (compressed.size() < 4) return Prefix::need_more;
    if (!begins_zstd_frame(compressed)) return Prefix::malformed;
    ZSTD_DCtx* const context = zstd_inflating();
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    ZSTD_inBuffer input{compressed.data(), compressed.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos < output.size) {
      const std::size_t before = input.pos + output.pos;
      const std::size_t result = ZSTD_decompressStream(context, &output, &input);
      if (ZSTD_isError(result) != 0U) {
        const bool is_window =
            ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge;
        return is_window ? Prefix::opaque : Prefix::malformed;
      }
      if (output.pos == output.size) break;
      if (result == 0) return Prefix::malformed;  // the end of the frame
      if (input.pos + output.pos == before) return Prefix::need_more;
    }
    return Prefix::there;
  }
  bool zstd_whole(Bytes compressed, std::span<std::uint8_t> out) {
    if (!begins_zstd_frame(compressed)) return false;
    // One frame, and nothing behind it.
    const std::size_t frame = ZSTD_findFrameCompressedSize(compressed.data(), compressed.size());
    return frame == compressed.size() &&
           ZSTD_decompressDCtx(zstd_inflating(), out.data(), out.size(), compressed.data(),
                               compressed.size()) == out.size();
  }
  std::size_t deflate_zstd(Bytes message, Buffer& out) {
    if (zstd_out == nullptr) zstd_out.reset(ZSTD_createCCtx());
    if (zstd_out == nullptr) throw std::bad_alloc();
    const std::size_t most = ZSTD_compressBound(message.size());
    const std::size_t size = ZSTD_compressCCtx(zstd_out.get(), out.extend(most), most,
                                               message.data(), message.size(), kZstdLevel);
    if (ZSTD_isError(size) != 0U) throw std::bad_alloc();  // all else is impossible here
    return size;
  }

  std::optional<Inflating> zlib_in;
  std::optional<Deflating> zlib_out;
  Owned<ZSTD_DCtx, ZSTD_freeDCtx> zstd_in;
  Owned<ZSTD_CCtx, ZSTD_freeCCtx> zstd_out;
};

std::string_view name_of(Compressor compressor) {
  constexpr std::array<std::string_view, 4> kNames{"none", "snappy", "zlib", "zstd"};
  return kNames[static_cast<std::size_t>(compressor)];
}

Compressor compressor_named(std::string_view name) {
  const auto* const found = std::ranges::find(kCompressors, name, name_of);
  return found == kCompressors.end() ? Compressor::none : *found;
}

std::optional<CompressedView> CompressedView::read(const MsgHeader& header, Bytes front) {
  const auto op_code = static_cast<OpCode>(load_i32(front.data() + kHeaderSize));
  const std::int64_t size = load_i32(front.data() + kHeaderSize + 4);
  const auto compressor = static_cast<Compressor>(front[kHeaderSize + 8]);
  const std::int64_t length = static_cast<std::int64_t>(kHeaderSize) + size;
  if (op_code != OpCode::msg || size <= 0 || length > kMaxMessageSize) return std::nullopt;
  if (std::ranges::find(kCompressors, compressor) == kCompressors.end()) return std::nullopt;
  const MsgHeader original{static_cast<std::int32_t>(length), header.request_id, header.response_to,
                           op_code};
  return CompressedView{original, compressor, front.subspan(kCompressedOffset)};
}

Codec::Codec() : contexts_(std::make_unique<Contexts>()) {}

Codec::~Codec() = default;

Codec::Prefix Codec::inflate_prefix(const CompressedView& view, Buffer& out) {
  const auto content = begin(view.original, kPrefix, out);
  switch (view.compressor) {
    case Compressor::none:
      break;
    case Compressor::snappy: {
      const auto length = static_cast<std::size_t>(view.original.message_length) - kHeaderSize;
      return as_prefix(decode_snappy_prefix(view.compressed, length, content).status);
    }
    case Compressor::zlib:
      return contexts_->zlib_prefix(view.compressed, content);
    case Compressor::zstd:
      return contexts_->zstd_prefix(view.compressed, content);
  }
  return Prefix::malformed;
}

bool Codec::inflate(const CompressedView& view, Buffer& out) {
  const auto size = static_cast<std::size_t>(view.original.message_length) - kHeaderSize;
  const auto content = begin(view.original, size, out);
  switch (view.compressor) {
    case Compressor::none:
      break;
    case Compressor::snappy:
      return inflate_snappy(view.compressed, content);
    case Compressor::zlib:
      return contexts_->zlib_whole(view.compressed, content);
    case Compressor::zstd:
      return contexts_->zstd_whole(view.compressed, content);
  }
  return false;
}

void Codec::deflate(Compressor compressor, Bytes message, Buffer& out) {
  const MsgHeader header = read_header(message);
  const Bytes content = message.subspan(kHeaderSize);
  out.clear();
  out.extend(kCompressedOffset);
  std::size_t size = 0;
  if (compressor == Compressor::snappy) size = deflate_snappy(content, out);
  if (compressor == Compressor::zlib) size = contexts_->deflate_zlib(content, out);
  if (compressor == Compressor::zstd) size = contexts_->deflate_zstd(content, out);
  out.truncate(kCompressedOffset + size);
  write_header(out.data(), {static_cast<std::int32_t>(out.size()), header.request_id,
                            header.response_to, OpCode::compressed});
  store_i32(out.data() + kHeaderSize, static_cast<std::int32_t>(header.op_code));
  store_i32(out.data() + kHeaderSize + 4, static_cast<std::int32_t>(content.size()));
  out.data()[kHeaderSize + 8] = static_cast<std::uint8_t>(compressor);
}

}  // namespace idproxy::wire
