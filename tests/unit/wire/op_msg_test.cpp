#include "idproxy/wire/op_msg.hpp"

#include <gtest/gtest.h>

#include "support/hex.hpp"
#include "support/messages.hpp"

namespace idproxy::wire {
namespace op_msg_test {

using namespace test;

const std::string kPing = doc(int_field("ping", 1) + string_field("$db", "a"));

/// 0 for success.
int errc_of(std::string_view bytes) {
  const Exact exact(bytes);
  const auto view = OpMsgView::parse(exact.view());
  return view ? 0 : static_cast<int>(view.error());
}

TEST(OpMsg, SucceedsWithTheExampleOfTheHeader) {
  EXPECT_EQ(to_hex(as_bytes(op_msg(body(kPing)))),
            "2f000000"
            "07000000"
            "00000000"
            "dd070000"
            "00000000"
            "00"
            "1a000000"
            "10"
            "70696e6700"
            "01000000"
            "02"
            "24646200"
            "02000000"
            "6100"
            "00");
}

TEST(OpMsg, SucceedsWithSectionsInAnyOrder) {
  const std::string documents = sequence("documents", {doc(), doc(int_field("a", 1))});
  for (const std::string& sections : {body(kPing) + documents, documents + body(kPing)}) {
    const std::string bytes = op_msg(sections);
    const auto view = OpMsgView::parse(as_bytes(bytes));
    ASSERT_TRUE(view);
    EXPECT_EQ(as_text(view->body()), kPing);
    ASSERT_TRUE(view->sequence("documents"));
    EXPECT_EQ(view->sequence("documents")->documents.size(), 5U + 12U);
    EXPECT_FALSE(view->sequence("other"));
  }
}

TEST(OpMsg, SucceedsWithFlagsThatMayBeIgnored) {
  for (const std::uint32_t flags : {0x0U, 0x2U, 0x10000U, 0x20000U, 0x80000000U}) {
    EXPECT_EQ(errc_of(op_msg(body(kPing), flags)), 0) << flags;
  }
  EXPECT_EQ(errc_of(op_msg(body(kPing), flag::kChecksumPresent)), 0);
}

TEST(OpMsg, FailsIfItCouldBeReadInTwoWays) {
  const std::string documents = sequence("documents", {doc()});
  const std::string many = sequence("a", {}) + sequence("b", {}) + sequence("c", {}) +
                           sequence("d", {}) + sequence("e", {});
  const struct {
    const char* name;
    std::string bytes;
    Errc errc;
  } rows[] = {
      {"two bodies", op_msg(body(kPing) + body(kPing)), Errc::two_bodies},
      {"no body", op_msg(documents), Errc::no_body},
      {"two sequences", op_msg(body(kPing) + documents + documents), Errc::two_sequences},
      {"many sequences", op_msg(body(kPing) + many), Errc::too_many_sequences},
      {"kind 2", op_msg(body(kPing) + "\2" + kPing), Errc::unknown_kind},
      {"flag bit 2", op_msg(body(kPing), 1U << 2), Errc::unknown_flag},
      {"flag bit 15", op_msg(body(kPing), 1U << 15), Errc::unknown_flag},
      {"nothing behind the flags", op_msg(""), Errc::too_short},
      {"sequence longer than the message",
       op_msg(body(kPing) + '\1' + i32(100) + std::string("documents\0", 10)), Errc::bad_size},
      {"sequence of size 4", op_msg(body(kPing) + '\1' + i32(4) + '\0'), Errc::bad_size},
      {"sequence of negative size", op_msg(body(kPing) + '\1' + i32(-1) + '\0'), Errc::bad_size},
      {"identifier without NUL", op_msg(body(kPing) + '\1' + i32(7) + "abc"), Errc::bad_size},
      {"body past the message", op_msg(body(i32(200) + kPing.substr(4))), Errc::bad_size},
      {"body of 4 bytes", op_msg(body(i32(4) + kPing.substr(4))), Errc::bad_size},
      {"a byte behind the body", op_msg(body(kPing) + '\1'), Errc::bad_size},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(errc_of(row.bytes), static_cast<int>(row.errc)) << row.name;
  }
}

TEST(OpMsg, FailsIfTheChecksumDoesNotFit) {
  std::string bytes = op_msg(body(kPing), flag::kChecksumPresent);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_EQ(errc_of(bytes), static_cast<int>(Errc::bad_checksum));
}

TEST(Checksum, IsCrc32c) {
  Checksum checksum;  // the check value of the CRC catalogues
  checksum.add(as_bytes("123456789"));
  EXPECT_EQ(checksum.value(), 0xE3069283U);
}

TEST(OpMsg, FailsIfCutAtAnyByte) {
  const std::string whole = op_msg(body(kPing) + sequence("documents", {doc(int_field("a", 1))}));
  for (std::size_t cut = 16; cut < whole.size(); ++cut) {
    // At the end of the body stands a message that is whole.
    const int errc = errc_of(whole.substr(0, cut));
    EXPECT_EQ(errc == 0, cut == 20 + 1 + kPing.size()) << cut;
  }
}

TEST(ExpectsReply, KnowsWhatMongodAnswers) {
  const auto expects = [](std::string_view bytes) {
    return expects_reply(read_header(as_bytes(bytes)), as_bytes(bytes));
  };
  EXPECT_TRUE(expects(op_msg(body(doc()))));
  EXPECT_FALSE(expects(op_msg(body(doc()), flag::kMoreToCome)));
  EXPECT_TRUE(expects(message(2004, "")));
  EXPECT_TRUE(expects(message(2005, "")));
  EXPECT_FALSE(expects(message(2002, "")));
}

}  // namespace op_msg_test
}  // namespace idproxy::wire
