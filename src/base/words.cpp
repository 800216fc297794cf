#include "idproxy/base/words.hpp"

#include <algorithm>
#include <vector>

#include "idproxy/base/printable.hpp"

namespace idproxy {
namespace {

constexpr std::size_t kMaxTypingErrors = 2;
constexpr std::size_t kMinBeginning = 3;  // letters that a word may be abbreviated to

/// "mongodb://user:password@host/?option=secret" -> "mongodb://***@host/".
std::string without_credentials(std::string_view text) {
  const std::size_t scheme = text.find("://");
  if (scheme == std::string_view::npos) return std::string(text);
  const std::size_t at = text.rfind('@');
  const bool has_user = at != std::string_view::npos && at > scheme;
  const std::string start(text.substr(0, scheme + 3));
  const std::string_view rest = text.substr(has_user ? at : scheme + 3);
  return start + (has_user ? "***" : "") + std::string(rest.substr(0, rest.find('?')));
}

/// The number of insertions, deletions, replacements and swaps of neighbours that turn `a` into
/// `b`.
std::size_t typing_errors(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) now[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(now);
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before_last[j - 2] + 1);
    }
  }
  return now[b.size()];
}

/// The only word that begins with this one: `surface` for `surf`.
std::optional<std::string_view> completed(std::string_view word,
                                          std::span<const std::string_view> words) {
  if (word.size() < kMinBeginning) return std::nullopt;
  const auto begins = [word](std::string_view candidate) { return candidate.starts_with(word); };
  if (std::ranges::count_if(words, begins) != 1) return std::nullopt;
  return *std::ranges::find_if(words, begins);
}

std::string two_units(std::int64_t large, const char* large_unit, std::int64_t small,
                      const char* small_unit) {
  std::string text = std::to_string(large) + large_unit;
  if (small > 0) text += " " + std::to_string(small) + small_unit;
  return text;
}

bool similar_length(std::string_view a, std::string_view b) {
  return std::max(a.size(), b.size()) - std::min(a.size(), b.size()) <= kMaxTypingErrors;
}

}  // namespace

NamespaceParts split_ns(std::string_view ns) {
  const std::size_t dot = std::min(ns.find('.'), ns.size());
  return {ns.substr(0, dot), ns.substr(std::min(dot + 1, ns.size()))};
}

bool consists_of(std::string_view text, std::string_view signs) {
  return !text.empty() && std::ranges::all_of(text, [signs](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           signs.find(c) != std::string_view::npos;
  });
}

std::string ascii_lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string shown(std::string_view text, std::size_t limit) {
  return printable(cut_off(without_credentials(text), limit));
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_bare = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
    if (is_bare) {
      result += c;
    } else {
      result += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
  }
  return result;
}

std::string_view take_part(std::string_view& text, std::string_view ends) {
  const std::string_view part = text.substr(0, text.find_first_of(ends));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

std::string remedy_for_set(std::string_view found) {
  if (found.empty()) return "remove that";
  // Nobody gives a set a longer name.
  if (found.size() > 160) return "name another server";
  return "write replicaSet=" + percent_encoded(found);
}

std::string listed(std::span<const std::string_view> words, std::string_view last) {
  std::string result;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) result += i + 1 == words.size() ? last : ", ";
    result += words[i];
  }
  return result;
}

std::string and_more(std::uint64_t left) {
  return "and " + with_commas(left) + " more";
}

std::string list_text(std::span<const std::string> items, std::size_t most, std::string_view last) {
  const auto shown = items.first(std::min(items.size(), most));
  const std::vector<std::string_view> words(shown.begin(), shown.end());
  const bool is_cut = items.size() > most;
  return listed(words, is_cut ? ", " : last) + (is_cut ? ' ' + and_more(items.size() - most) : "");
}

std::string count_of(std::uint64_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

std::string seconds_text(std::chrono::nanoseconds time) {
  const std::int64_t seconds = std::chrono::floor<std::chrono::seconds>(time).count();
  if (seconds >= 3600) return two_units(seconds / 3600, " h", seconds % 3600 / 60, " min");
  if (seconds >= 60) return two_units(seconds / 60, " min", seconds % 60, " s");
  if (seconds >= 10) return std::to_string(seconds) + " s";
  const std::int64_t tenths = time / std::chrono::milliseconds(100);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::optional<std::string_view> closest(std::string_view word,
                                        std::span<const std::string_view> words) {
  if (const auto whole = completed(word, words)) return whole;
  std::optional<std::string_view> best;
  std::size_t best_errors = kMaxTypingErrors + 1;
  for (const std::string_view candidate : words) {
    if (!similar_length(word, candidate)) continue;
    const std::size_t errors = typing_errors(word, candidate);
    if (errors >= best_errors || 2 * errors > candidate.size()) continue;
    best = candidate;
    best_errors = errors;
  }
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> words) {
  const auto meant = closest(word, words);
  return meant ? ", did you mean '" + std::string(*meant) + "'?" : std::string();
}

}  // namespace idproxy
