#include "app/views/terminal.hpp"

#include <fmt/color.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <cwchar>

#include "idproxy/base/utf8.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::views {
namespace {

constexpr std::size_t kUsualWidth = 80;
constexpr std::size_t kUsualHeight = 24;
constexpr std::string_view kEllipsis = "…";

/// wcwidth() answers for the characters of the thread's locale: makes that one with all of Unicode.
class UnicodeLocale {
 public:
  UnicodeLocale() {
    static const locale_t unicode = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (unicode != nullptr) before_ = ::uselocale(unicode);
  }
  ~UnicodeLocale() {
    if (before_ != nullptr) ::uselocale(before_);
  }
  UnicodeLocale(const UnicodeLocale&) = delete;
  UnicodeLocale& operator=(const UnicodeLocale&) = delete;

 private:
  locale_t before_ = nullptr;
};

/// Of a printable() text. Call it while there is a UnicodeLocale. A character that the locale does
/// not know is likely a new one, which the terminal may know.
std::size_t columns_of(char32_t c) {
  const int width = ::wcwidth(static_cast<wchar_t>(c));
  return static_cast<std::size_t>(std::max(width, c == kReplacementCharacter ? 1 : 0));
}

bool has_colours() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool is_unwanted = no_color != nullptr && *no_color != '\0';
  return !is_unwanted && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

fmt::text_style style_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      break;
    case Tone::strong:
      return fmt::emphasis::bold;
    case Tone::faint:
      return fmt::emphasis::faint;
    case Tone::good:
      return fmt::fg(fmt::terminal_color::green);
    case Tone::warning:
      return fmt::fg(fmt::terminal_color::yellow);
    case Tone::bad:
      return fmt::emphasis::bold | fmt::fg(fmt::terminal_color::red);
  }
  return {};
}

}  // namespace

Terminal Terminal::at(int descriptor) {
  if (::isatty(descriptor) == 0) return {};
  winsize size{};
  const bool is_known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return {is_known ? size.ws_col : kUsualWidth,
          is_known && size.ws_row > 0 ? size.ws_row : kUsualHeight, has_colours()};
}

std::string Terminal::coloured(std::string_view text, Tone tone) const {
  if (!colours || tone == Tone::plain || text.empty()) return std::string(text);
  return fmt::format(style_of(tone), "{}", text);
}

std::string Terminal::heading(std::string_view text) const {
  return coloured(text, Tone::strong) + '\n';
}

std::string Terminal::wrapped(std::string_view first, std::string_view text, std::size_t indent,
                              Tone tone) const {
  const std::string whole = printable(text);
  text = whole;
  std::string result;
  std::string line(first);
  std::size_t used = display_width(line);
  bool is_empty = true;  // but for what the line begins with
  const auto end_line = [&] { result += coloured(line, tone) + '\n'; };
  while (!text.empty()) {
    const std::string_view word = take_part(text, " ");
    const std::size_t width = display_width(word);
    if (columns > 0 && !is_empty && used + 1 + width > columns) {
      end_line();
      line.assign(indent, ' ');
      used = indent;
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    used += width + (is_empty ? 0 : 1);
    is_empty = false;
  }
  end_line();
  return result;
}

std::size_t display_width(std::string_view text) {
  const UnicodeLocale locale;
  std::size_t width = 0;
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    width += columns_of(next.code_point);
    text.remove_prefix(next.size);
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  const UnicodeLocale locale;
  std::size_t used = 0;
  std::size_t end = 0;
  while (end < text.size()) {
    const Utf8Character next = first_character(text.substr(end));
    used += columns_of(next.code_point);
    if (used > width - 1) break;
    end += next.size;
  }
  return std::string(text.substr(0, end)) + std::string(kEllipsis);
}

}  // namespace idproxy::app::views
