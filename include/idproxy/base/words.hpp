#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

/// Names and values: to compare, and to show in messages.
namespace idproxy {

/// `text` with A to Z in lower case, whatever the locale: the way to compare host names (RFC 4343).
[[nodiscard]] std::string ascii_lower(std::string_view text);

/// Text from the file as a message shows it: without the user, password and options of a connection
/// string, without control characters, truncated to `limit` bytes.
[[nodiscard]] std::string shown(std::string_view text, std::size_t limit = 80);

/// In double quotes, with a backslash before quotes and backslashes, as mongosh writes a string.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// `text` as a part of a URI, with %XX for all but letters, digits and -._~ (RFC 3986 2.3).
[[nodiscard]] std::string percent_encoded(std::string_view text);

/// "a, b or c".
[[nodiscard]] std::string listed(std::span<const std::string_view> words,
                                 std::string_view last = " or ");

/// The word that was probably meant: the only one that begins with `word`, if that has at least 3
/// letters; else the nearest one, at most 2 typing errors and half its length away. Nothing if
/// there is none.
[[nodiscard]] std::optional<std::string_view> closest(std::string_view word,
                                                      std::span<const std::string_view> words);

/// ", did you mean 'digits'?", or nothing.
[[nodiscard]] std::string suggestion(std::string_view word,
                                     std::span<const std::string_view> words);

}  // namespace idproxy
