#include "app/doctor_findings.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace idproxy::app {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$';
}

/// Behind the bracket that closes the one at `open`; npos: it is not closed.
std::size_t end_of_call(std::string_view text, std::size_t open) {
  std::size_t depth = 0;
  bool in_text = false;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

/// Behind the last call of "db.name(…).name(…)".
std::size_t end_of_calls(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  for (std::size_t i = begin; i < text.size();) {
    while (i < text.size() && is_word(text[i])) ++i;
    if (i >= text.size() || text[i] != '(') return end;
    i = end_of_call(text, i);
    if (i == std::string_view::npos) return end;
    end = i;
    if (i >= text.size() || text[i] != '.') return end;
  }
  return end;
}

/// What leads to a command, and means nothing without it.
constexpr auto kLeads = std::to_array<std::string_view>(
    {"; make it with ", "; create it with ", ": make a unique index: ", "; type ", ": "});

}  // namespace

Advice split_advice(std::string_view reason) {
  const std::size_t begin = reason.find("db.getSiblingDB(");
  if (begin == std::string_view::npos) return {std::string(reason), {}};
  const std::size_t end = end_of_calls(reason, begin);
  Advice advice{std::string(reason), std::string(reason.substr(begin, end - begin))};
  if (end != reason.size()) return advice;
  std::string_view front = reason.substr(0, begin);
  const auto lead =
      std::ranges::find_if(kLeads, [&](std::string_view each) { return front.ends_with(each); });
  if (lead != kLeads.end()) front.remove_suffix(lead->size());
  advice.text = front;
  return advice;
}

std::string in_shell(std::string_view word) {
  constexpr std::string_view kPlain = "_-./:=@%+,";
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           kPlain.find(c) != std::string_view::npos;
  });
  if (is_plain) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace idproxy::app
