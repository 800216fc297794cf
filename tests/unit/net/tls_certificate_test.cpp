#include "net/tls_certificate.hpp"

#include <gtest/gtest.h>

#include "support/certificates.hpp"

namespace idproxy::net::tls {
namespace tls_certificate_test {

using namespace std::chrono_literals;
using test::Authority;
using test::Certified;

TEST(TlsCertificate, HasASubjectAsItIsWritten) {
  const Authority ca;
  EXPECT_EQ(subject_text(ca.issue({.subject = "CN=a,OU=b,O=c,C=DE"}).x509()), "CN=a,OU=b,O=c,C=DE");
  EXPECT_EQ(subject_text(ca.issue({.subject = "CN=Zürich\n\x01;,O=a+b"}).x509()),
            "CN=Zürich\\0A\\01\\;,O=a\\+b");
  EXPECT_EQ(subject_text(ca.issue({.subject = ""}).x509()), "");
}

TEST(TlsCertificate, HasNoTextThatIsLongerThan200Bytes) {
  std::string subject = "CN=a";
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) {
    subject += ",OU=ä" + std::to_string(i);
    names.push_back("host" + std::to_string(i) + ".example");
  }
  const Certified one = Authority().issue({.subject = subject, .names = names});
  for (const std::string& text : {subject_text(one.x509()), names_text(one.x509())}) {
    EXPECT_LE(text.size(), 200U);
    EXPECT_GE(text.size(), 196U);
    EXPECT_TRUE(text.ends_with("...")) << text;
  }
  EXPECT_TRUE(subject_text(one.x509()).starts_with("CN=a,OU=ä0,"));
}

/// Nothing is cut in the middle of a character.
TEST(TlsCertificate, IsCutBetweenCharacters) {
  for (int i = 0; i < 4; ++i) {
    std::string subject = "CN=x" + std::string(static_cast<std::size_t>(i), 'x');
    for (int j = 0; j < 30; ++j) subject += ",OU=\u20ac\u20ac\u20ac";
    const std::string text = subject_text(Authority().issue({.subject = subject}).x509());
    const std::string kept = text.substr(0, text.size() - 3);
    EXPECT_TRUE(subject.starts_with(kept)) << text;
    const std::size_t end = kept.size();
    EXPECT_NE(static_cast<unsigned char>(subject[end]) & 0xC0, 0x80) << text;
  }
}

TEST(TlsCertificate, ListsItsNames) {
  const Authority ca;
  const auto names = [&ca](const std::vector<std::string>& given) {
    return names_text(ca.issue({.subject = "CN=common", .names = given}).x509());
  };
  EXPECT_EQ(names({"a.example", "*.b.example"}), "a.example, *.b.example");
  EXPECT_EQ(names({"10.0.0.1", "fe80::1", "a.example"}), "10.0.0.1, fe80::1, a.example");
  EXPECT_EQ(names({}), "common");
  EXPECT_EQ(names({"10.0.0.1"}), "10.0.0.1, common") << "OpenSSL looks at it for host names";
}

TEST(TlsCertificate, HasItsTimes) {
  const auto before = std::chrono::system_clock::now();
  const Certified one = Authority().issue({.subject = "CN=a", .from_now = -1h, .until_now = 48h});
  const auto near = [&](std::chrono::sys_seconds time, std::chrono::seconds from_now) {
    return std::chrono::abs(time - before - from_now) < 60s;
  };
  EXPECT_TRUE(near(not_before(one.x509()), -1h));
  EXPECT_TRUE(near(not_after(one.x509()), 48h));
}

TEST(TlsCertificate, ShowsTimes) {
  using std::chrono::sys_seconds;
  EXPECT_EQ(time_text(sys_seconds(0s)), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(time_text(sys_seconds(1'709'251'199s)), "2024-02-29 23:59:59 UTC");
  EXPECT_EQ(time_text(sys_seconds(253'402'300'799s)), "9999-12-31 23:59:59 UTC");
}

TEST(TlsCertificate, SortsWhatMakesAMember) {
  const Certified one =
      Authority().issue({.subject = "CN=a,OU=z,O=org,OU=b,DC=example,DC=com,L=here"});
  EXPECT_EQ(cluster_attributes(one.x509()),
            (std::vector<std::string>{"DC=com", "DC=example", "O=org", "OU=b", "OU=z"}));
}

}  // namespace tls_certificate_test
}  // namespace idproxy::net::tls
