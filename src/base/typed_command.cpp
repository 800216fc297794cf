#include "idproxy/base/typed_command.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy {

std::string TypedCommand::line() const {
  if (in == In::mongosh) return words.front();
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + in_shell(word);
  return line;
}

Commands& Commands::add(TypedCommand command) {
  if (is_printable(command.line())) all_.push_back(std::move(command));
  return *this;
}

Commands& Commands::mongosh(std::string statement, std::initializer_list<std::string_view> names) {
  if (!std::ranges::all_of(names, is_name)) return *this;
  return add({TypedCommand::In::mongosh, {std::move(statement)}});
}

Commands& Commands::append(const Commands& others) {
  all_.insert(all_.end(), others.all_.begin(), others.all_.end());
  return *this;
}

std::string Commands::text() const {
  std::string text;
  for (const TypedCommand& each : all_) text += (text.empty() ? "" : " or ") + each.line();
  return text;
}

std::string Reason::whole() const {
  return commands.empty() ? text : text + std::string(lead) + commands.text();
}

std::string in_shell(std::string_view word) {
  if (consists_of(word, "_-./:=@%+,")) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string as_path(std::string_view file) {
  return (file.starts_with('-') ? "./" : "") + std::string(file);
}

std::vector<std::string> with_option(std::vector<std::string> words, std::string_view option,
                                     std::string_view value) {
  words.emplace_back(option);
  if (value.starts_with('-')) {
    words.back().append("=").append(value);
  } else {
    words.emplace_back(value);
  }
  return words;
}

bool is_host_name(std::string_view text) {
  constexpr std::size_t kLongestPart = 63;  // RFC 1035
  std::size_t part = 0;
  for (const char c : text) {
    part = c == '.' ? 0 : part + 1;
    if (part > kLongestPart) return false;
  }
  const bool is_ipv6 =
      text.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos &&
      std::ranges::count(text, ':') > 1;
  return is_ipv6 || (consists_of(text, "-_.") && !text.starts_with('-'));
}

bool is_name(std::string_view text) {
  return !text.empty() && is_printable(text) &&
         text.find_first_of("\"'`\\") == std::string_view::npos;
}

}  // namespace idproxy
