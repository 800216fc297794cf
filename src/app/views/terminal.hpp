#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "idproxy/base/printable.hpp"

/// Text for people: how wide it is, and in which colour.
namespace idproxy::app::views {

/// What a text means, which its colour shows.
enum class Tone { plain, strong, faint, good, warning, bad };

/// Where a text is printed.
struct Terminal {
  std::size_t columns = 0;  ///< 0: no terminal, lines may be as long as they like
  std::size_t rows = 0;     ///< 0: no terminal
  bool colours = false;

  /// Of a file descriptor. Colours only on a terminal that has them (TERM is not "dumb"), and not
  /// if NO_COLOR is set (https://no-color.org).
  [[nodiscard]] static Terminal at(int descriptor);

  /// The text with the escape sequences of its colour, if there are colours.
  [[nodiscard]] std::string coloured(std::string_view text, Tone tone) const;
  /// A line of its own.
  [[nodiscard]] std::string heading(std::string_view text) const;
  /// printable(text), which may have long words, in lines that are not wider than the terminal.
  /// Each line ends with a newline, and begins with `indent` blanks, the first one with `first`.
  [[nodiscard]] std::string wrapped(std::string_view first, std::string_view text,
                                    std::size_t indent, Tone tone = Tone::plain) const;
};

/// How many columns a printable() text takes up, by wcwidth(3).
[[nodiscard]] std::size_t display_width(std::string_view text);

/// The text, or as much of its front as has room in `width` columns with "…" behind it.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t width);

}  // namespace idproxy::app::views
