#include "admin/admitted_hosts.hpp"

#include <gtest/gtest.h>

namespace idproxy::admin {
namespace admitted_hosts_test {

AdmittedHosts bound_to(const char* address, const std::vector<std::string>& names = {}) {
  return {boost::asio::ip::make_address(address), names};
}

TEST(AdmittedHosts, AdmitsTheAddressThatTheServerListensAt) {
  const AdmittedHosts hosts = bound_to("10.0.0.5");
  for (const char* host : {"10.0.0.5", "10.0.0.5:27216", "10.0.0.5:", "localhost", "LocalHost:1"}) {
    EXPECT_TRUE(hosts.admit(host)) << host;
  }
  for (const char* host : {"127.0.0.1", "10.0.0.50", "10.0.0.5.evil.example", "evil.example",
                           "localhost.evil.example", "[::1]", "", ":27216", "0.0.0.0"}) {
    EXPECT_FALSE(hosts.admit(host)) << host;
  }
}

TEST(AdmittedHosts, AdmitsAllSpellingsOfAnAddressInBrackets) {
  const AdmittedHosts hosts = bound_to("fd00::5");
  for (const char* host : {"[fd00::5]", "[fd00::5]:27216", "[FD00:0:0::0005]"}) {
    EXPECT_TRUE(hosts.admit(host)) << host;
  }
  for (const char* host : {"fd00::5", "[fd00::5", "[fd00::6]", "[]", "[::]", "["}) {
    EXPECT_FALSE(hosts.admit(host)) << host;
  }
}

TEST(AdmittedHosts, AdmitsAnyAddressIfTheServerListensAtAll) {
  for (const char* any : {"0.0.0.0", "::"}) {
    const AdmittedHosts hosts = bound_to(any);
    for (const char* host : {"10.0.0.5", "10.0.0.5:27216", "[fd00::5]:1", "localhost"}) {
      EXPECT_TRUE(hosts.admit(host)) << any << ": " << host;
    }
    // Only browsers read the last two as addresses, and they send them in their usual form.
    for (const char* host : {"evil.example", "10.0.0.5.evil.example", "10.1", "0x7f000001"}) {
      EXPECT_FALSE(hosts.admit(host)) << any << ": " << host;
    }
  }
}

TEST(AdmittedHosts, AdmitsNamesAndAddressesThatAreConfigured) {
  const AdmittedHosts hosts = bound_to("127.0.0.1", {"App1.example.org", "10.0.0.5", "FD00::5"});
  for (const char* host :
       {"app1.example.org", "APP1.example.org:80", "10.0.0.5:80", "[fd00::5]", "localhost"}) {
    EXPECT_TRUE(hosts.admit(host)) << host;
  }
  for (const char* host : {"app1", "xapp1.example.org", "app1.example.org.evil.example"}) {
    EXPECT_FALSE(hosts.admit(host)) << host;
  }
}

TEST(AdmittedHosts, AdmitsNothingThatIsNoHostWithAPort) {
  const AdmittedHosts hosts = bound_to("127.0.0.1");
  for (const char* host : {"localhost:80@evil.example", "localhost@evil.example", "localhost:8a",
                           "localhost:80:80", "[127.0.0.1]x", "localhost ", "localhost,evil"}) {
    EXPECT_FALSE(hosts.admit(host)) << host;
  }
}

}  // namespace admitted_hosts_test
}  // namespace idproxy::admin
