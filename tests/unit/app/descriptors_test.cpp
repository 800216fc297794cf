#include "app/descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace idproxy::app {
namespace descriptors_test {

net::Options options(std::uint32_t max_connections) {
  net::Options options;
  options.routes.resize(3);
  options.threads = 2;
  options.max_connections = max_connections;
  return options;
}

TEST(Descriptors, HasTwoForEachClient) {
  EXPECT_EQ(needed_descriptors(options(10'000)), 20'000U + 100 + 2 * (3 + 50) + 3 * 2);
}

TEST(Descriptors, HasNoneForMembersWhereNoneCanJoin) {
  net::Options direct = options(10'000);
  direct.map_members = false;
  EXPECT_EQ(needed_descriptors(direct), 20'000U + 100 + 2 * 3 + 3 * 2);
}

TEST(Descriptors, PermitsAsManyClientsAsThereIsRoomFor) {
  const auto needed = needed_descriptors(options(1000));
  EXPECT_EQ(connections_within(needed, options(1000)), 1000U);
  EXPECT_EQ(connections_within(needed + 1000, options(1000)), 1000U);
  EXPECT_EQ(connections_within(needed - 1, options(1000)), 999U);
  EXPECT_EQ(connections_within(needed - 200, options(1000)), 900U);
}

TEST(Descriptors, PermitsSomeClientsWhereThereAreFew) {
  EXPECT_EQ(connections_within(256, options(1000)), (256U - 128) / 2);
  EXPECT_EQ(connections_within(64, options(1000)), 16U);
  for (const std::uint64_t limit : {0U, 1U, 2U, 3U}) {
    EXPECT_EQ(connections_within(limit, options(1000)), 1U);
  }
}

TEST(Descriptors, RaisesTheLimitAsFarAsItNeeds) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 128;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(permitted_connections(options(50)), 50U);
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, std::min<rlim_t>(before.rlim_max, needed_descriptors(options(50))));
  EXPECT_EQ(now.rlim_max, before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Descriptors, FillsTheStandardOnes) {
  const int kept = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  reserve_standard_descriptors();
  char byte = 0;
  EXPECT_EQ(::read(STDIN_FILENO, &byte, 1), 0) << "/dev/null";
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
}

}  // namespace descriptors_test
}  // namespace idproxy::app
