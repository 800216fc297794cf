#include "config/key_meanings.hpp"

#include <algorithm>

#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

/// "See [Links](#links)" -> "See Links".
std::string without_links(std::string_view text) {
  std::string plain;
  while (true) {
    const std::size_t middle = text.find("](");
    const std::size_t start = text.rfind('[', middle);
    const std::size_t end = text.find(')', middle);
    if (middle == std::string_view::npos || start == std::string_view::npos ||
        end == std::string_view::npos) {
      return plain.append(text);
    }
    plain.append(text.substr(0, start));
    plain.append(text.substr(start + 1, middle - start - 1));
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::map<std::string, std::string> key_meanings(std::string_view strategy) {
  constexpr std::string_view kOfEvery = "Keys of every rule";
  const std::string own = "Keys of the strategy " + std::string(strategy);
  std::map<std::string, std::string> meanings;
  std::string_view page = configuration_page();
  for (bool wanted = false; !page.empty();) {
    const std::string_view line = take_part(page, "\n");
    if (line.starts_with('#')) {
      const std::string_view heading = line.substr(std::min(line.find(' '), line.size() - 1) + 1);
      const bool of_rules = heading.starts_with("Keys of");
      wanted = strategy.empty() ? !of_rules : heading == kOfEvery || heading == own;
    }
    if (!wanted || !line.starts_with("| `")) continue;
    const std::string_view key = line.substr(3, line.find('`', 3) - 3);
    const std::size_t meaning = line.rfind(" | ") + 3;
    meanings.emplace(key, without_links(line.substr(meaning, line.rfind(" |") - meaning)));
  }
  return meanings;
}

}  // namespace idproxy::config
