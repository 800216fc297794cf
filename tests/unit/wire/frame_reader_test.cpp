#include "idproxy/wire/messages.hpp"

#include <gtest/gtest.h>

#include "support/messages.hpp"

namespace idproxy::wire {
namespace frame_reader_test {

using namespace test;
using Kind = FrameReader::Kind;

TEST(FrameReader, NeedsAWholeHeader) {
  const std::string bytes = message(2013, "");
  const FrameReader frames;
  for (std::size_t cut = 0; cut < kHeaderSize; ++cut) {
    EXPECT_EQ(frames.front(Exact(bytes.substr(0, cut)).view()).kind, Kind::need_more) << cut;
  }
  const auto front = frames.front(as_bytes(bytes));
  EXPECT_EQ(front.kind, Kind::begin);
  EXPECT_EQ(front.header.message_length, 16);
  EXPECT_EQ(front.header.request_id, 7);
}

TEST(FrameReader, FailsIfTheLengthIsOutsideItsBounds) {
  for (const std::int64_t length : {0, 15, -1, 48'000'001, 0x7fffffff, -0x7fffffff - 1}) {
    const std::string bytes = i32(length) + std::string(12, '\0');
    EXPECT_EQ(FrameReader().front(as_bytes(bytes)).kind, Kind::malformed) << length;
  }
  for (const std::int64_t length : {16, 48'000'000}) {
    const std::string bytes = i32(length) + std::string(12, '\0');
    EXPECT_EQ(FrameReader().front(as_bytes(bytes)).kind, Kind::begin) << length;
  }
}

TEST(FrameReader, CountsTheCurrentMessageDownInPieces) {
  const std::string bytes = message(1, std::string(84, 'x')) + message(1, "");
  FrameReader frames;
  frames.enter(static_cast<std::size_t>(frames.front(as_bytes(bytes)).header.message_length));
  const auto front = frames.front(as_bytes(bytes));
  EXPECT_EQ(front.kind, Kind::inside);
  EXPECT_EQ(front.bytes, 100U);  // not into the next message
  EXPECT_FALSE(frames.took(60));
  EXPECT_EQ(frames.front(as_bytes(bytes).subspan(60, 10)).bytes, 10U);
  EXPECT_EQ(frames.front(as_bytes(bytes).subspan(60)).bytes, 40U);
  EXPECT_TRUE(frames.took(40));
  EXPECT_EQ(frames.front(as_bytes(bytes).subspan(100)).kind, Kind::begin);
}

}  // namespace frame_reader_test
}  // namespace idproxy::wire
