#include "idproxy/base/regex.hpp"

namespace idproxy {
namespace {

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

}  // namespace

std::string escaped_for_regex(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\0') {
      result += "\\x00";
      continue;
    }
    if (!is_word(c)) result += '\\';
    result += c;
  }
  return result;
}

}  // namespace idproxy
