#pragma once

#include <algorithm>
#include <string>
#include <string_view>

/// Splits a connection string as libmongoc does: scheme://user_info@hosts/path?options.
namespace idproxy::config {

inline constexpr std::string_view kScheme = "mongodb://";
inline constexpr std::string_view kSrvScheme = "mongodb+srv://";

/// Views into the string.
struct UriParts {
  std::string_view user_info;  ///< "user:password", without '@'
  std::string_view hosts;
  std::string_view path;  ///< with its '/'
  std::string_view options;
};

/// `uri` must begin with one of the schemes.
[[nodiscard]] UriParts split_uri(std::string_view uri);

/// Calls `use(name, value)` for each option.
template <class Use>
void for_each_option(std::string_view options, Use use) {
  while (!options.empty()) {
    const std::size_t end = std::min(options.find_first_of("&;"), options.size());
    const std::string_view option = options.substr(0, end);
    const std::size_t equals = std::min(option.find('='), option.size());
    use(option.substr(0, equals), option.substr(std::min(equals + 1, option.size())));
    options.remove_prefix(std::min(end + 1, options.size()));
  }
}

}  // namespace idproxy::config
