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

#include "net/file_descriptor.hpp"

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

/// Both ends of a connection to a listener of this host.
struct Connected {
  explicit Connected(const char* host) {
    const tcp::endpoint any(ip::make_address(host), 0);
    const FileDescriptor listener(::socket(any.protocol().family(), SOCK_STREAM, 0));
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (::bind(listener.get(), any.data(), static_cast<socklen_t>(any.size())) != 0 ||
        ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
      return;
    }
    client = FileDescriptor(::socket(any.protocol().family(), SOCK_STREAM, 0));
    if (::connect(client.get(), reinterpret_cast<sockaddr*>(&bound), size) != 0) return;
    server = FileDescriptor(::accept(listener.get(), nullptr, nullptr));
  }
  FileDescriptor client;
  FileDescriptor server;
};

std::string hex_of(std::string_view text) {
  std::string hex;
  for (const char c : text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

std::string hex_of(std::uint16_t port) {
  const char bytes[] = {static_cast<char>(port >> 8), static_cast<char>(port & 255)};
  return hex_of(std::string_view(bytes, 2));
}

constexpr const char* kSignature = "0d0a0d0a000d0a515549540a";

TEST(ProxyHeader, TellsWhoTheClientIs) {
  const struct {
    const char* host;
    std::string begins;
  } kCases[] = {
      {"127.0.0.1",
       "2111000c"
       "7f0000017f000001"},
      {"::1",
       "21210024"
       "00000000000000000000000000000001"
       "00000000000000000000000000000001"},
  };
  for (const auto& c : kCases) {
    const Connected both(c.host);
    if (!both.server.is_open()) continue;  // no IPv6 here
    const auto header = proxy_header(both.server.get());
    ASSERT_TRUE(header);
    EXPECT_EQ(hex_of(*header), kSignature + c.begins + hex_of(own_port(both.client.get())) +
                                   hex_of(own_port(both.server.get())));
  }
}

TEST(ProxyHeader, IsLocalForTheProxyItselfAndUnixSockets) {
  const std::string local = std::string(kSignature) + "20000000";
  EXPECT_EQ(hex_of(*proxy_header(-1)), local);
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const FileDescriptor one(pair[0]);
  const FileDescriptor other(pair[1]);
  EXPECT_EQ(hex_of(*proxy_header(one.get())), local);
}

/// Else its requests would seem to be the proxy's own.
TEST(ProxyHeader, IsNoneForAClientThatIsLost) {
  Connected both("127.0.0.1");
  const linger at_once{1, 0};
  ::setsockopt(both.client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  both.client.close();
  char byte = 0;
  EXPECT_LT(::recv(both.server.get(), &byte, 1, 0), 0);
  EXPECT_FALSE(proxy_header(both.server.get()));
}

}  // namespace sockets_test
}  // namespace idproxy::net
