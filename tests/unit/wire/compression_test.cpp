#include "idproxy/wire/compression.hpp"

#include <gtest/gtest.h>

#include <random>

#include "support/hex.hpp"
#include "support/messages.hpp"
#include "wire/snappy_prefix.hpp"

namespace idproxy::wire {
namespace compression_test {

using namespace test;

// {ping: 1, a: "abcabc…", $db: "a"} without its header, as the libraries of PyMongo compress it.
const std::string kMessage =
    op_msg(body(doc(int_field("ping", 1) + string_field("a", "abcabcabcabcabcabcabcabcabc") +
                    string_field("$db", "a"))));
struct Vector {
  const char* name;
  Compressor compressor;
  const char* compressed;
};
const Vector kVectors[] = {
    {"snappy", Compressor::snappy,
     "42000001015c3d0000001070696e6700010000000261001c0000006162635e0300300002246462000200000061000"
     "0"},
    {"zlib", Compressor::zlib,
     "789c636000025b201628c8cc4b676004b29812196480546252322ec4c0a49292c4c00452c4c00000a5fe0e21"},
    {"zstd", Compressor::zstd,
     "28b52ffd20428d0100a40200000000003d0000001070696e6700010000000261001c0000006162630002246462000"
     "20000006100000100093a27"},
};

std::string bytes_of(const char* hex) {
  return text_of(from_hex(hex));
}

/// OP_COMPRESSED by its parts.
std::string wrapped(std::string_view compressed, std::int64_t size, int compressor,
                    std::int32_t op_code = 2013) {
  return message(2012, joined({i32(op_code), i32(size),
                               std::string(1, static_cast<char>(compressor)), compressed}));
}

/// The message inside, or why there is none: "refused" by its first bytes, "malformed".
std::string inflated(std::string_view bytes) {
  const Exact exact(bytes);
  const auto view = CompressedView::read(read_header(exact.view()), exact.view());
  if (!view) return "refused";
  Codec codec;
  Buffer out;
  return codec.inflate(*view, out) ? text_of(out.view()) : "malformed";
}

std::string deflated(Compressor compressor, std::string_view bytes) {
  const Exact exact(bytes);
  Codec codec;
  Buffer out;
  codec.deflate(compressor, exact.view(), out);
  return text_of(out.view());
}

/// Not compressible, but always the same.
std::string noise(std::size_t size) {
  std::mt19937 random(7);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string large_message(std::string_view text) {
  return op_msg(body(doc(string_field("insert", "orders") + string_field("text", text) +
                         string_field("$db", "shop"))));
}

class OfEachCompressor : public ::testing::TestWithParam<Vector> {
 protected:
  [[nodiscard]] int id() const { return static_cast<int>(GetParam().compressor); }
  const std::string compressed = bytes_of(GetParam().compressed);
  [[nodiscard]] static std::int64_t size() {
    return static_cast<std::int64_t>(kMessage.size() - kHeaderSize);
  }
};
INSTANTIATE_TEST_SUITE_P(Compression, OfEachCompressor, ::testing::ValuesIn(kVectors),
                         [](const auto& row) { return row.param.name; });

TEST_P(OfEachCompressor, HasItsName) {
  EXPECT_EQ(name_of(GetParam().compressor), GetParam().name);
  EXPECT_EQ(compressor_named(GetParam().name), GetParam().compressor);
}

TEST_P(OfEachCompressor, SucceedsWithAKnownVector) {
  EXPECT_EQ(inflated(wrapped(compressed, size(), id())), kMessage);
}

TEST_P(OfEachCompressor, FailsUnlessTheSizeIsExact) {
  for (const std::int64_t wrong : {1, 16, 65, 67, 82, 100, 4096, 1 << 20, 48'000'000 - 16}) {
    EXPECT_EQ(inflated(wrapped(compressed, wrong, id())), "malformed") << wrong;
  }
  for (const std::int64_t wrong :
       {std::int64_t{0}, std::int64_t{-1}, -size(), std::int64_t{-2147483648},
        std::int64_t{48'000'000 - 15}, std::int64_t{48'000'000}, std::int64_t{2147483647}}) {
    EXPECT_EQ(inflated(wrapped(compressed, wrong, id())), "refused") << wrong;
  }
}

TEST_P(OfEachCompressor, FailsIfBytesAreLeftOrMissing) {
  for (const std::string& more : {std::string(1, 'x'), std::string(100, '\0'), compressed}) {
    EXPECT_EQ(inflated(wrapped(compressed + more, size(), id())), "malformed");
    EXPECT_EQ(inflated(wrapped(compressed + more, 2 * size(), id())), "malformed");
  }
  for (std::size_t cut = 0; cut < compressed.size(); ++cut) {
    EXPECT_EQ(inflated(wrapped(compressed.substr(0, cut), size(), id())), "malformed") << cut;
  }
}

TEST_P(OfEachCompressor, RefusesAllButOpMsg) {
  for (const std::int32_t op_code : {0, 1, 2001, 2002, 2004, 2010, 2012, 4711, -1}) {
    EXPECT_EQ(inflated(wrapped(compressed, size(), id(), op_code)), "refused") << op_code;
  }
}

TEST_P(OfEachCompressor, DeflatesWhatItInflates) {
  const std::string large = large_message(std::string(1'000'000, 'x'));
  for (const std::string& each :
       {kMessage, large, large_message(noise(300'000)), message(2013, "")}) {
    const std::string bytes = deflated(GetParam().compressor, each);
    const auto header = read_header(as_bytes(bytes));
    EXPECT_EQ(header.message_length, static_cast<std::int32_t>(bytes.size()));
    EXPECT_EQ(header.op_code, OpCode::compressed);
    if (each.size() > kHeaderSize) {
      EXPECT_EQ(inflated(bytes), each);
    }
  }
  EXPECT_LT(deflated(GetParam().compressor, large).size(), large.size() / 10);
}

TEST_P(OfEachCompressor, InflatesTheBeginningOfWhatHasArrived) {
  for (const std::string& text : {std::string(500'000, 'x'), noise(500'000)}) {
    const std::string whole = large_message(text);
    const std::string bytes = deflated(GetParam().compressor, whole);
    Codec codec;
    Buffer out;
    std::size_t step = 1;
    bool there = false;
    for (std::size_t at = kCompressedOffset; at <= bytes.size(); at += step) {
      const Exact front(std::string_view(bytes).substr(0, at));
      const auto view = CompressedView::read(read_header(front.view()), front.view());
      ASSERT_TRUE(view);
      const auto prefix = codec.inflate_prefix(*view, out);
      if (prefix == Codec::Prefix::there) {
        EXPECT_EQ(text_of(out.view()), whole.substr(0, kHeaderSize + Codec::kPrefix));
        there = true;
        EXPECT_LE(at, 160U * 1024);
        break;
      }
      ASSERT_EQ(prefix, Codec::Prefix::need_more) << at;
      if (at > 6000) step = 997;
    }
    EXPECT_TRUE(there);
  }
}

TEST_P(OfEachCompressor, ItsBeginningIsMalformedWhereTheStreamEndsEarly) {
  Codec codec;
  Buffer out;
  const std::string bytes = wrapped(compressed, 1 << 20, id());
  const auto view = CompressedView::read(read_header(as_bytes(bytes)), as_bytes(bytes));
  EXPECT_NE(codec.inflate_prefix(*view, out), Codec::Prefix::there);
}

TEST(Compression, RefusesOtherCompressors) {
  for (const int id : {0, 4, 5, 127, 128, 255}) {
    EXPECT_EQ(inflated(wrapped("anything", 8, id)), "refused") << id;
  }
  EXPECT_EQ(compressor_named("noop"), Compressor::none);
  EXPECT_EQ(compressor_named("none"), Compressor::none);
  EXPECT_EQ(compressor_named(""), Compressor::none);
}

TEST(Compression, TakesOneFrameOfZstdAndNothingElse) {
  const std::string frame = bytes_of(kVectors[2].compressed);
  const auto twice = static_cast<std::int64_t>(2 * (kMessage.size() - kHeaderSize));
  EXPECT_EQ(inflated(wrapped(frame + frame, twice, 3)), "malformed");
  const std::string skippable = bytes_of("502a4d18 04000000 00000000");
  EXPECT_EQ(inflated(wrapped(skippable + frame, twice / 2, 3)), "malformed");
}

TEST(Compression, DoesNotMakeRoomForAWindowThatTheBeginningDoesNotNeed) {
  // No single segment, a window of 128 MiB, and an empty block.
  const std::string bytes = wrapped(bytes_of("28b52ffd 00 88 000000"), 40'000'000, 3);
  const auto view = CompressedView::read(read_header(as_bytes(bytes)), as_bytes(bytes));
  Codec codec;
  Buffer out;
  EXPECT_EQ(codec.inflate_prefix(*view, out), Codec::Prefix::opaque);
}

TEST(Compression, ASetHasWhatWasAdded) {
  Compressors some;
  EXPECT_EQ(some, Compressors());
  some.add(Compressor::none);
  EXPECT_EQ(some, Compressors());
  some.add(Compressor::zlib);
  EXPECT_TRUE(some.has(Compressor::zlib));
  EXPECT_FALSE(some.has(Compressor::snappy));
  EXPECT_FALSE(some.has(Compressor::none));
  for (const Compressor each : kCompressors) EXPECT_TRUE(Compressors::all().has(each));
}

// ---- the beginning of a block of snappy --------------------------------------------------------

struct Snappy {
  const char* name;
  const char* block;
  std::size_t length;  // that is expected of the block
  std::size_t wanted;
  SnappyPrefix::Status status;
  const char* decoded;
};
using Status = SnappyPrefix::Status;
const Snappy kSnappy[] = {
    {"Literal", "03 08 616263", 3, 3, Status::there, "abc"},
    {"PartOfALiteral", "03 08 616263", 3, 2, Status::there, "ab"},
    {"LiteralOfOneLengthByte", "03 f0 02 616263", 3, 3, Status::there, "abc"},
    {"LiteralOfTwoLengthBytes", "03 f4 0200 616263", 3, 3, Status::there, "abc"},
    {"LiteralOfThreeLengthBytes", "03 f8 020000 616263", 3, 3, Status::there, "abc"},
    {"LiteralOfFourLengthBytes", "03 fc 02000000 616263", 3, 3, Status::there, "abc"},
    {"LiteralTooLong", "03 0c 61626364", 3, 3, Status::malformed, ""},
    {"LiteralOfFourBytesTooLong", "03 fc ffffffff 616263", 3, 3, Status::malformed, ""},
    {"LiteralCut", "03 08 61", 3, 3, Status::need_more, "a"},
    {"LengthOfALiteralCut", "03 f4 02", 3, 3, Status::need_more, ""},
    {"CopyOfOneByte", "08 08 616263 05 03", 8, 8, Status::there, "abcabcab"},
    {"CopyOfTwoBytes", "08 08 616263 12 0300", 8, 8, Status::there, "abcabcab"},
    {"CopyOfFourBytes", "08 08 616263 13 03000000", 8, 8, Status::there, "abcabcab"},
    {"PartOfACopy", "08 08 616263 12 0300", 8, 5, Status::there, "abcab"},
    {"CopyOfNothingBefore", "08 12 0100", 8, 8, Status::malformed, ""},
    {"CopyOfBeforeTheBeginning", "08 08 616263 12 0400", 8, 8, Status::malformed, "abc"},
    {"CopyOfOffset0", "08 08 616263 12 0000", 8, 8, Status::malformed, "abc"},
    {"CopyTooLong", "07 08 616263 12 0300", 7, 7, Status::malformed, "abc"},
    {"CopyCut", "08 08 616263 12 03", 8, 8, Status::need_more, "abc"},
    {"OffsetOf11Bits", "08 08 616263 25 00", 8, 8, Status::malformed, "abc"},
    {"OtherLength", "04 08 616263", 3, 3, Status::malformed, ""},
    {"LengthOfTwoBytes", "ac02 08 616263", 300, 3, Status::there, "abc"},
    {"LengthCut", "ac", 300, 3, Status::need_more, ""},
    {"LengthTooLong", "8080808080 01", 300, 3, Status::malformed, ""},
    {"Nothing", "", 3, 3, Status::need_more, ""},
    {"EndsEarly", "08 08 616263", 8, 8, Status::need_more, "abc"},
};

class OfSnappy : public ::testing::TestWithParam<Snappy> {};
INSTANTIATE_TEST_SUITE_P(Compression, OfSnappy, ::testing::ValuesIn(kSnappy),
                         [](const auto& row) { return row.param.name; });

TEST_P(OfSnappy, DecodesTheBeginning) {
  const Snappy& row = GetParam();
  const Exact block(text_of(from_hex(row.block)));
  std::vector<std::uint8_t> out(row.wanted);
  const auto found = decode_snappy_prefix(block.view(), row.length, out);
  EXPECT_EQ(found.status, row.status);
  EXPECT_EQ(text_of({out.data(), found.decoded}), row.decoded);
}

}  // namespace compression_test
}  // namespace idproxy::wire
