#include "net/member_ports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idproxy::net {
namespace member_ports_test {

using ::testing::ElementsAre;

/// The first `count` of the ports to try.
std::vector<std::uint16_t> first(const std::vector<std::uint16_t>& ports, std::size_t count) {
  return {ports.begin(), ports.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(MemberPorts, ReadsMembers) {
  EXPECT_EQ(endpoint_of("db1:27017").host, "db1");
  EXPECT_EQ(endpoint_of("db1:27017").port, 27017);
  EXPECT_EQ(endpoint_of("[fe80::1]:27018").host, "fe80::1");
  EXPECT_EQ(port_of("[fe80::1]:27018"), 27018U);
  EXPECT_EQ(port_of("/tmp/mongodb.sock"), 0U);
}

TEST(MemberPorts, TriesTheNextPortsThatNobodyHas) {
  const MemberPorts ports({{"db9:27017", 27120}}, 27119);
  const auto candidates = ports.candidates("db4:27017", {27121});
  EXPECT_EQ(candidates.size(), 100U);
  EXPECT_THAT(first(candidates, 3), ElementsAre(27119, 27122, 27123));
}

TEST(MemberPorts, TriesOnlyThePinOfAPinnedMember) {
  const MemberPorts ports({{"db4:27017", 27200}}, 27119);
  EXPECT_THAT(ports.candidates("DB4:27017", {}), ElementsAre(27200));
}

TEST(MemberPorts, GivesEachMemberAPortOfItsOwn) {
  MemberPorts ports({{"db9:27017", 30000}}, 27119);
  ports.took("db4:27017", 27119);
  EXPECT_EQ(ports.candidates("db5:27017", {}).front(), 27120);
  ports.took("db9:27017", 30000);
  EXPECT_EQ(ports.candidates("db5:27017", {}).front(), 27120) << "a pin takes no turn";
}

TEST(MemberPorts, TriesThePortThatAMemberHadBefore) {
  MemberPorts ports({}, 27119);
  ports.took("db4:27017", 27119);
  ports.took("db5:27017", 27120);
  EXPECT_THAT(first(ports.candidates("db4:27017", {}), 2), ElementsAre(27119, 27121));
}

TEST(MemberPorts, EndsWithTheLastPort) {
  const MemberPorts ports({}, 65534);
  EXPECT_THAT(ports.candidates("db4:27017", {}), ElementsAre(65534, 65535));
}

TEST(MemberPorts, TakesAnyPortIfNoneIsConfigured) {
  MemberPorts ports({}, 0);
  EXPECT_THAT(ports.candidates("db4:27017", {}), ElementsAre(0));
  ports.took("db4:27017", 0);
  EXPECT_THAT(ports.candidates("db4:27017", {}), ElementsAre(0));
}

}  // namespace member_ports_test
}  // namespace idproxy::net
