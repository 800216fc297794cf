#include "net/sockets.hpp"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <vector>

namespace idproxy::net {
namespace sockets_test {

namespace ip = boost::asio::ip;

bool is_own(const ip::address& address) {
  error_code error;
  const bool own = is_of_this_host(address, error);
  EXPECT_FALSE(error) << error.message();
  return own;
}

bool is_own(const char* address) {
  return is_own(ip::make_address(address));
}

std::vector<ip::address> addresses_of_this_host() {
  ifaddrs* list = nullptr;
  EXPECT_EQ(::getifaddrs(&list), 0);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<ip::address> all;
  for (; list != nullptr; list = list->ifa_next) {
    const sockaddr* address = list->ifa_addr;
    if (address == nullptr) continue;
    if (address->sa_family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
      all.emplace_back(ip::address_v4(ntohl(v4->sin_addr.s_addr)));
    } else if (address->sa_family == AF_INET6) {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
      ip::address_v6::bytes_type bytes;
      std::copy_n(std::begin(v6->sin6_addr.s6_addr), bytes.size(), bytes.begin());
      all.emplace_back(ip::address_v6(bytes, v6->sin6_scope_id));
    }
  }
  return all;
}

/// So that there is a way to addresses that nobody has.
void everything_goes_to_the_loopback_interface() {
  char device[] = "lo";
  ifreq up{};
  std::copy_n(device, sizeof device, up.ifr_name);
  up.ifr_flags = IFF_UP;
  rtentry route{};
  route.rt_dst.sa_family = route.rt_genmask.sa_family = route.rt_gateway.sa_family = AF_INET;
  route.rt_flags = RTF_UP;
  route.rt_dev = device;
  const int fd = ::socket(AF_INET, SOCK_DGRAM, 0);
  if (fd < 0) return;
  ::ioctl(fd, SIOCSIFFLAGS, &up);
  ::ioctl(fd, SIOCADDRT, &route);
  ::close(fd);
}

TEST(OwnAddress, AreThoseOfTheInterfaces) {
  const auto all = addresses_of_this_host();
  EXPECT_FALSE(all.empty());
  for (const auto& address : all) EXPECT_TRUE(is_own(address)) << address;
  for (const char* address : {"127.0.0.1", "127.3.2.1", "::1", "0.0.0.0", "::"}) {
    EXPECT_TRUE(is_own(address)) << address;
  }
}

TEST(OwnAddress, AreNotThoseOfOthers) {
  for (const char* address : {"192.0.2.1", "192.0.2.7", "198.51.100.1", "2001:db8::1",
                              "2001:db8::7", "255.255.255.255", "fe80::1"}) {
    EXPECT_FALSE(is_own(address)) << address;
  }
}

/// A server must not be taken for ourselves because nothing can be asked.
TEST(OwnAddress, IsUnknownWithoutDescriptors) {
  error_code error;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool own = is_of_this_host(ip::make_address("192.0.2.7"), error);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(error, boost::system::errc::too_many_files_open);
  EXPECT_FALSE(own);
}

/// A network namespace of this process's own in which every address can be bound to
/// (net.ipv4.ip_nonlocal_bind, as failover of addresses has it) and reached.
void enter_network_where_all_can_be_bound() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return;
  std::FILE* file = std::fopen("/proc/sys/net/ipv4/ip_nonlocal_bind", "w");
  if (file != nullptr) {
    std::fputs("1", file);
    std::fclose(file);
  }
  everything_goes_to_the_loopback_interface();
}

/// Where no such namespace is permitted, what holds in it is asked of this one: the answer is the
/// same, though harder to get wrong.
TEST(OwnAddress, AreNotThoseOfOthersWhereAllCanBeBoundInAChildOfFork) {
  enum { own_is_own = 1, other_is_own = 2 };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    enter_network_where_all_can_be_bound();
    ::_exit((is_own("127.0.0.1") ? own_is_own : 0) | (is_own("192.0.2.7") ? other_is_own : 0));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), own_is_own);
}

}  // namespace sockets_test
}  // namespace idproxy::net
