#include "app/systemd.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace idproxy::app {
namespace {

/// An environment variable of this process, until the end of the test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

std::string own_pid() {
  return std::to_string(::getpid());
}

TEST(SystemdTest, IsToldAtAnAbstractSocket) {
  const std::string name = "@idproxy-systemd-test-" + own_pid();
  const Variable socket("NOTIFY_SOCKET", name);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name, address.sun_path);
  address.sun_path[0] = '\0';
  const int receiver = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  ASSERT_EQ(::bind(receiver, reinterpret_cast<const sockaddr*>(&address), size), 0);
  notify("READY=1");
  std::array<char, 64> text{};
  const auto length = ::recv(receiver, text.data(), text.size(), MSG_DONTWAIT);
  ::close(receiver);
  ASSERT_GT(length, 0);
  EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(length)), "READY=1");
}

TEST(SystemdTest, NobodyIsToldWithoutAPathThatCanBe) {
  for (const std::string& path : {std::string(), std::string("relative"), std::string(200, '/')}) {
    const Variable socket("NOTIFY_SOCKET", path);
    notify("READY=1");
  }
}

TEST(SystemdTest, TheWatchdogIsOfTheProcessThatItNames) {
  EXPECT_EQ(watchdog_period(), std::nullopt);
  const Variable period("WATCHDOG_USEC", "900000");
  EXPECT_EQ(watchdog_period(), std::chrono::milliseconds(900));
  const Variable process("WATCHDOG_PID", "1");
  EXPECT_EQ(watchdog_period(), std::nullopt);
  const Variable own("WATCHDOG_PID", own_pid());
  EXPECT_EQ(watchdog_period(), std::chrono::milliseconds(900));
  for (const char* wrong : {"0", "-1", "soon", "99999999999999999999"}) {
    const Variable unusable("WATCHDOG_USEC", wrong);
    EXPECT_EQ(watchdog_period(), std::nullopt) << wrong;
  }
}

TEST(SystemdTest, VariablesThatContradictEachOtherPassNoSockets) {
  const Variable process("LISTEN_PID", own_pid());
  EXPECT_TRUE(passed_sockets()->empty());
  for (const char* count : {"0", "-1", "many", "4294967296"}) {
    const Variable wrong("LISTEN_FDS", count);
    EXPECT_EQ(passed_sockets().error(), "$LISTEN_FDS and $LISTEN_FDNAMES: Invalid argument");
  }
}

}  // namespace
}  // namespace idproxy::app
