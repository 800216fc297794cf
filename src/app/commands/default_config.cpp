#include <sys/stat.h>

#include <cerrno>
#include <iostream>
#include <string>
#include <string_view>

#include "idproxy/app/commands/run.hpp"

namespace idproxy::app::commands {
namespace {

constexpr const char* kUsualFile = "/etc/mongo-idproxy/mongo-idproxy.yaml";
constexpr const char* kInstalledFile = IDPROXY_SYSCONFDIR "/mongo-idproxy/mongo-idproxy.yaml";

/// Also one that must not be read.
bool is_there(const char* name) {
  struct stat status{};
  return ::stat(name, &status) == 0 || errno != ENOENT;
}

}  // namespace

boost::system::result<std::string, ExitCode> default_config_file() {
  for (const char* name : {kUsualFile, kInstalledFile}) {
    if (is_there(name)) return std::string(name);
  }
  const bool are_two = std::string_view(kUsualFile) != kInstalledFile;
  std::cerr << "mongo-idproxy: no configuration: give --config FILE, or write " << kUsualFile
            << (are_two ? std::string(" or ") + kInstalledFile : "") << '\n';
  return ExitCode::no_permission;
}

}  // namespace idproxy::app::commands
