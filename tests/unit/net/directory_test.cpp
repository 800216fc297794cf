#include "net/directory.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace idproxy::net {
namespace directory_test {

using rewrite::ServerDescription;

/// A listener at `host`:`port` for db`id`:27017.
std::shared_ptr<Upstream> upstream(rewrite::ServerId id, const std::string& host,
                                   std::uint16_t port) {
  auto result =
      std::make_shared<Upstream>(Route{{host, port, {}}, {"db" + std::to_string(id), 27017, {}}});
  result->id = id;
  return result;
}

ServerDescription server(rewrite::ServerId id, const std::string& listener) {
  ServerDescription result;
  result.id = id;
  result.name = "db" + std::to_string(id) + ":27017";
  result.listener = listener;
  return result;
}

class DirectoryOf : public ::testing::Test {
 protected:
  bool is_own(const std::string& host, std::uint16_t port) {
    error_code error;
    const bool result = directory.is_own(*address_of({host, port, {}}), error);
    EXPECT_FALSE(error) << error.message();
    return result;
  }

  Directory directory;
};

TEST_F(DirectoryOf, NothingIsEmpty) {
  ASSERT_NE(directory.members(), nullptr);
  EXPECT_TRUE(directory.members()->servers().empty());
  EXPECT_EQ(directory.at_port(27117), nullptr);
  EXPECT_TRUE(directory.listener_statistics(std::chrono::nanoseconds(0)).empty());
}

TEST_F(DirectoryOf, TwoServersHasWhatWasPublishedLast) {
  const auto one = upstream(1, "127.0.0.1", 27117);
  const auto two = upstream(2, "127.0.0.1", 27118);
  one->connections = 3;
  two->down_since = 1;
  directory.publish(std::make_shared<const rewrite::Members>(
                        std::vector{server(1, "127.0.0.1:27117"), server(2, "127.0.0.1:27118")}),
                    {one, two});
  EXPECT_EQ(directory.at_port(27118), two);
  EXPECT_EQ(directory.at_port(27119), nullptr);

  const auto statistics = directory.listener_statistics(std::chrono::nanoseconds(0));
  ASSERT_EQ(statistics.size(), 2U);
  EXPECT_EQ(statistics[0].connections, 3U);
  EXPECT_TRUE(statistics[0].up);
  EXPECT_FALSE(statistics[1].up);

  EXPECT_EQ(statistics[1].told, "127.0.0.1:27118");
  EXPECT_EQ(directory.listener_of(2), "127.0.0.1:27118");

  directory.publish(
      std::make_shared<const rewrite::Members>(std::vector{server(1, "127.0.0.1:27117")}), {one});
  EXPECT_EQ(directory.at_port(27118), nullptr);
  EXPECT_EQ(directory.listener_of(2), "");
  EXPECT_EQ(directory.listener_statistics(std::chrono::nanoseconds(0)).size(), 1U);
}

TEST_F(DirectoryOf, AServerIsAgedByWhatItDoesNotAnswer) {
  using namespace std::chrono_literals;
  using Reply = ServerLoad::Reply;
  const auto of_two_threads =
      std::make_shared<Upstream>(Route{{"127.0.0.1", 27117, {}}, {"db1", 27017, {}}}, 2);
  of_two_threads->id = 1;
  of_two_threads->connections = 1;
  directory.publish(
      std::make_shared<const rewrite::Members>(std::vector{server(1, "127.0.0.1:27117")}),
      {of_two_threads});
  const auto oldest = [&](std::chrono::nanoseconds now) {
    return directory.listener_statistics(now).front().oldest;
  };
  auto& loads = of_two_threads->loads;
  ServerLoad::Connection gives_up;
  ServerLoad::Connection asks;
  EXPECT_EQ(oldest(1s), std::nullopt);
  loads[0].requested(gives_up, Reply::prompt, 1s);
  EXPECT_EQ(oldest(4s), std::chrono::nanoseconds(3s));
  loads[0].ended(gives_up);
  EXPECT_EQ(oldest(9s), std::chrono::nanoseconds(8s)) << "the server has answered nothing since";
  of_two_threads->connections = 0;
  EXPECT_EQ(oldest(9s), std::nullopt) << "nobody asks it";
  of_two_threads->connections = 1;
  loads[1].requested(asks, Reply::prompt, 9s);
  loads[1].answered(asks, 10s);
  EXPECT_EQ(oldest(11s), std::nullopt) << "it answers, in another thread";
}

TEST_F(DirectoryOf, AListenerKnowsItsOwnAddress) {
  directory.publish(std::make_shared<const rewrite::Members>(), {upstream(1, "127.0.0.1", 27117)});
  EXPECT_TRUE(is_own("127.0.0.1", 27117));
  EXPECT_TRUE(is_own("::ffff:127.0.0.1", 27117)) << "IPv4 mapped into IPv6";
  EXPECT_TRUE(is_own("0.0.0.0", 27117)) << "connects to loopback";
  EXPECT_FALSE(is_own("127.0.0.1", 27118));
  EXPECT_FALSE(is_own("127.0.0.2", 27117));
}

TEST_F(DirectoryOf, AListenerAtAnyAddressHasAllOfThisHost) {
  directory.publish(std::make_shared<const rewrite::Members>(), {upstream(1, "0.0.0.0", 27117)});
  EXPECT_TRUE(is_own("127.0.0.2", 27117));
  EXPECT_FALSE(is_own("192.0.2.1", 27117)) << "an address for documentation (RFC 5737)";
}

}  // namespace directory_test
}  // namespace idproxy::net
