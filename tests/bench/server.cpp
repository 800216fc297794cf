#include "server.hpp"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "sockets.hpp"

namespace idproxy::bench {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr std::size_t kBytesShown = 2000;
constexpr auto kTimeToStart = 30s;

bool accepts_connections(std::uint16_t port) {
  const bool is_unix = std::filesystem::is_socket(unix_socket_of(port));
  try {
    is_unix ? connect_to_unix_socket(port) : connect_to_loopback(port);
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string path = std::filesystem::temp_directory_path() / "idproxy-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) throw_errno("mkdtemp");
  path_ = path;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;  // a temporary file left behind is no failure of a measurement
  std::filesystem::remove_all(path_, ignored);
}

Server start_server(std::uint16_t port, std::vector<std::string> command, int core,
                    const std::string& log) {
  const std::string program = command.front();
  Server server{port, Child::run(std::move(command), core, log)};
  const auto end = std::chrono::steady_clock::now() + kTimeToStart;
  while (server.process.alive() && std::chrono::steady_clock::now() < end) {
    if (accepts_connections(port)) return server;
    std::this_thread::sleep_for(10ms);
  }
  throw std::runtime_error(program + " does not start\n" + end_of(log));
}

std::string end_of(const std::string& file) {
  std::ostringstream content;
  content << std::ifstream(file).rdbuf();
  const std::string text = content.str();
  return text.size() <= kBytesShown ? text : text.substr(text.size() - kBytesShown);
}

}  // namespace idproxy::bench
