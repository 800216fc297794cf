#pragma once

#include <string>
#include <string_view>

namespace idproxy {

/// `text` as a regular expression that matches it alone. For PCRE, in whose patterns a NUL would be
/// the end.
[[nodiscard]] std::string escaped_for_regex(std::string_view text);

}  // namespace idproxy
