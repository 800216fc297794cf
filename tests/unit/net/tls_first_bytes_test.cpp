#include "net/tls_reason.hpp"

#include <gtest/gtest.h>

#include "idproxy/net/tls.hpp"
#include "support/hex.hpp"
#include "support/tls_peers.hpp"

namespace idproxy::net::tls {
namespace tls_first_bytes_test {

using test::from_hex;

struct Row {
  const char* name;
  const char* bytes;
  bool tls;
};

class TlsFirstBytes : public ::testing::TestWithParam<Row> {};

TEST_P(TlsFirstBytes, TellTlsFromMessages) {
  EXPECT_EQ(begins_tls(from_hex(GetParam().bytes)), GetParam().tls);
}

INSTANTIATE_TEST_SUITE_P(
    Bytes, TlsFirstBytes,
    ::testing::Values(Row{"Tls10Record", "16030102 00010001 fc0303a1 b2c3d4e5", true},
                      Row{"Tls12Record", "16030300 c6010000 c20303a1 b2c3d4e5", true},
                      Row{"Ssl30Record", "16030000 2f010000 2b0300a1 b2c3d4e5", true},
                      Row{"NoClientHello", "16030300 c6020000 c20303a1 b2c3d4e5", false},
                      Row{"AnAlert", "15030300 02020000 c20303a1 b2c3d4e5", false},
                      Row{"OtherMajorVersion", "16020300 c6010000 c20303a1 b2c3d4e5", false},
                      Row{"ShortMessage", "16000000 01000000 00000000 dd070000", false},
                      Row{"MessageOf0x010316", "16030100 00010000 00000000 dd070000", false},
                      Row{"MessageOf0x030316WithThatRequestId",
                          "16030300 c6010000 c2030300 dd070000", false},
                      Row{"LegacyQuery", "16030100 00010000 00000000 d4070000", false},
                      Row{"Compressed", "16030100 00010000 00000000 dc070000", false},
                      Row{"Reply", "16030100 00010000 00000000 01000000", false},
                      Row{"Insert", "16030100 00010000 00000000 d2070000", false},
                      Row{"TooFewBytes", "16030102 00010001 fc0303a1 b2c3d4", false},
                      Row{"Nothing", "", false}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(TlsFirstBytesOfPeers, BeginTls) {
  test::TlsSides sides;
  const auto engine = sides.connect();
  Buffer out;
  Bytes nothing;
  static_cast<void>(engine->handshake(nothing, out));
  EXPECT_TRUE(begins_tls(out.view()));
  EXPECT_EQ(what_instead(out.view().first(16)), "");
}

TEST(TlsFirstBytesOfPeers, NameTheVersionOfAHello) {
  EXPECT_EQ(hello_version(from_hex("160301002f 01 00002b 0302")), "TLS 1.1");
  EXPECT_EQ(hello_version(from_hex("160301002f 02 00002b 0301")), "TLS 1.0");
  EXPECT_EQ(hello_version(from_hex("160300002f 01 00002b 0300")), "SSL 3.0");
  EXPECT_EQ(hello_version(from_hex("160301002f 01 00002b 03")), "");
  EXPECT_EQ(hello_version(from_hex("160301002f 01 00002b 7f12")), "");
}

TEST(TlsFirstBytesOfPeers, AreNothingElseWhileTheyMayBeTls) {
  for (const char* bytes : {"", "16", "1603", "160301", "15 0303 0002 0228"}) {
    EXPECT_EQ(what_instead(from_hex(bytes)), "") << bytes;
  }
}

}  // namespace tls_first_bytes_test
}  // namespace idproxy::net::tls
