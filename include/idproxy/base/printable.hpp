#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Texts that somebody else has chosen, fit to be seen: the one way to a terminal, a log, a page, a
/// metric's label and JSON.
namespace idproxy {

/// In bytes. Longer texts are cut.
inline constexpr std::size_t kMostShown = 4096;
/// For texts that must not be cut, such as JSON.
inline constexpr std::size_t kWhole = std::string_view::npos;

/// The text as it is, cut to `most` bytes between two characters, with "…" behind if it was longer.
[[nodiscard]] std::string cut_off(std::string_view text, std::size_t most);

/// The text on one line and in valid UTF-8, cut to `most` bytes, with "…" behind if it was longer.
/// Characters that end a line, control a terminal, are invisible, or change the direction of the
/// text after them are written as JSON and JavaScript write them: "\u001b", "\u202e". Bytes that
/// are no UTF-8 become U+FFFD. Of a serialized JSON text, the value stays as it is.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = kMostShown);

/// True if the text is what printable() makes of it.
[[nodiscard]] bool is_printable(std::string_view text);

/// Appends printable(text, most) with a backslash in front of each of the characters `escaped`.
void append_printable(std::string& out, std::string_view text, std::string_view escaped,
                      std::size_t most = kMostShown);

/// printable(text, most) in double quotes, as JSON, JavaScript and mongosh write a string.
[[nodiscard]] std::string in_quotes(std::string_view text, std::size_t most = kWhole);

/// A name that somebody else has chosen, in a sentence: in quotes unless it consists of ASCII
/// letters, digits and "_-.$", and shortened if nobody could read it.
[[nodiscard]] std::string named(std::string_view name);

}  // namespace idproxy
