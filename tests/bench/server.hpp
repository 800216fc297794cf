#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "process.hpp"

namespace idproxy::bench {

/// A temporary directory that goes with its owner.
class TemporaryDirectory {
 public:
  /// Throws std::system_error.
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// A child process that listens on a port of 127.0.0.1, or on the Unix socket in its place.
struct Server {
  std::uint16_t port;
  Child process;
};

/// Returns when `command` accepts connections on `port`. Throws std::runtime_error with the end of
/// `log` when it does not come up.
Server start_server(std::uint16_t port, std::vector<std::string> command, int core,
                    const std::string& log);

/// The last lines of a file, to be shown with an error.
std::string end_of(const std::string& file);

}  // namespace idproxy::bench
