#pragma once

#include <string>

#include "idproxy/app/command_line.hpp"

namespace idproxy::app::commands {

/// A check of a configuration.
struct CheckRequest {
  std::string file{};
  enum class With {
    file,     ///< nothing but the file and the files that it names
    servers,  ///< also the servers: whether they answer, and whether each rule is ready
  } with = With::file;
  bool as_json = false;
};

/// Prints every error and warning about the file, and what the servers say, to standard output.
/// Opens no listener and writes nothing.
[[nodiscard]] ExitCode check_config(const CheckRequest& request);

}  // namespace idproxy::app::commands
