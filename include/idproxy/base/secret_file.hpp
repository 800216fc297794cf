#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "idproxy/base/parameters.hpp"

namespace idproxy {

/// Whether the file that a `*_file` key names holds a secret.
enum class Access {
  secret,  ///< refuse a file that every user of the host can read or write
  any,
};

/// A text that stays the same as long as the content of this file does, and whether every user of
/// the host can read or write it; for a file that cannot be read, why. A path that is no regular
/// file has its own, and is not read.
[[nodiscard]] std::string state_of_file(const std::string& path);

/// Why a file cannot be used.
struct FileFault {
  std::string text{};  ///< empty: it can be
  FileFinding::About about = FileFinding::About::text;
};

/// Of a file for TLS. Notes the file.
[[nodiscard]] FileFault fault_of_file(const std::string& path, Access access, Parameters& reader);

/// The path at `key` as messages show it: "'/a/b'", or "'${NAME}/b' (/a/b)" if it contains a
/// variable. The expanded form is shown only if it is an absolute path; anything else may be a
/// secret of a wrong variable.
[[nodiscard]] std::string shown_path(const std::string& path, std::string_view key,
                                     const Parameters& reader);

/// The path at `key`, of a file for TLS, after a check that the file can be used. Nothing if the
/// key is absent or null, or if the file cannot be used, which it reports.
[[nodiscard]] std::optional<std::string> read_path(std::string_view key, Access access,
                                                   Parameters& reader);

/// The content of the file that `key` names, without newlines at its end. Nothing if the key is
/// absent or null, or if the file cannot be used, which it reports.
[[nodiscard]] std::optional<std::string> read_named_file(std::string_view key, Access access,
                                                         Parameters& reader);

}  // namespace idproxy
