#pragma once

#include <string>
#include <string_view>

/// Which program this is: what a report of a fault has to say.
namespace idproxy::app {

[[nodiscard]] std::string_view version();  ///< "0.1.0"

/// The first 12 hex digits of the commit that was built; "unknown" outside git.
[[nodiscard]] std::string_view commit();

/// Where the build installs the configuration: the file's whole name.
[[nodiscard]] std::string_view installed_config();

/// What --version prints: the lines "mongo-idproxy 0.1.0 (commit 0123456789ab)", the compiler, and
/// the libraries that this process uses. Without a newline at the end.
[[nodiscard]] std::string version_text();

}  // namespace idproxy::app
