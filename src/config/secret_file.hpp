#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/reader.hpp"

namespace idproxy::config {

/// Who may read the file that a `*_file` key names.
enum class Access {
  secret,  ///< a file that every user of the host can read or write is refused
  any,
};

/// Why this file cannot be used, or "".
[[nodiscard]] std::string fault_of_file(const std::string& path, Access access);

/// A path that `key` names, as messages have it: "'/a/b'", with a variable in it
/// "'${NAME}/b' (/a/b)". What is no absolute path, and may be another variable's secret, is not
/// shown.
[[nodiscard]] std::string shown_path(const std::string& path, std::string_view key,
                                     const Reader& reader);

/// The path that `key` names, for somebody else to read. Nothing if the key is absent or null, or
/// if the file cannot be used, which is then reported.
[[nodiscard]] std::optional<std::string> read_path(std::string_view key, Access access,
                                                   Reader& reader);

/// The content of the file that `key` names, without one newline at its end. Nothing if the key is
/// absent or null, or if something is wrong, which is then reported.
[[nodiscard]] std::optional<std::string> read_named_file(std::string_view key, Access access,
                                                         Reader& reader);

}  // namespace idproxy::config
