#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

/// Names, numbers and values: to compare, and to show in messages.
namespace idproxy {

/// `text` with A to Z in lower case, whatever the locale: the way to compare host names (RFC 4343).
[[nodiscard]] std::string ascii_lower(std::string_view text);

/// The parts of "db.collection". A database's name has no dot, a collection's may.
struct NamespaceParts {
  std::string_view db;
  std::string_view collection;  ///< "" if there is no dot
};
[[nodiscard]] NamespaceParts split_ns(std::string_view ns);

/// True for one or more ASCII letters, digits and `signs`.
[[nodiscard]] bool consists_of(std::string_view text, std::string_view signs);

/// Text from the file as a message shows it: without the user, password and options of a connection
/// string, truncated to `limit` bytes, and printable().
[[nodiscard]] std::string shown(std::string_view text, std::size_t limit = 80);

/// `text` as a part of a URI, with %XX for all but letters, digits and -._~ (RFC 3986 2.3).
[[nodiscard]] std::string percent_encoded(std::string_view text);

/// What to do about a connection string with another replicaSet than `found`, the name that a
/// server says; empty: the server is in none. Behind a colon.
[[nodiscard]] std::string remedy_for_set(std::string_view found);
/// Of a server that was started for a replica set and is a member of none yet.
inline constexpr std::string_view kNotInitiated =
    "it waits to be a member of its replica set: rs.initiate() has not been run";

/// Takes what stands in front of the first of the characters `ends`, and that one, off the text.
std::string_view take_part(std::string_view& text, std::string_view ends);

/// "a, b or c".
[[nodiscard]] std::string listed(std::span<const std::string_view> words,
                                 std::string_view last = " or ");

/// "a, b and 3 more", or, if there are at most `most`, "a, b, c" with `last` before the last one.
[[nodiscard]] std::string list_text(std::span<const std::string> items, std::size_t most,
                                    std::string_view last = ", ");
/// "and 3 more", behind what is shown of a list.
[[nodiscard]] std::string and_more(std::uint64_t left);

/// Rounded down.
[[nodiscard]] inline std::int64_t whole_seconds(std::chrono::nanoseconds time) {
  return std::chrono::floor<std::chrono::seconds>(time).count();
}

/// "1 rule" or "3 rules", if `what` is "rule".
[[nodiscard]] std::string count_of(std::uint64_t count, std::string_view what);

/// "1,234,567"
[[nodiscard]] std::string with_commas(std::uint64_t number);
/// "0.8 s", "12 s", "3 min 5 s", "2 h 10 min"
[[nodiscard]] std::string seconds_text(std::chrono::nanoseconds time);

/// The word that was probably meant: the only one that begins with `word`, if that has at least 3
/// letters; else the nearest one, at most 2 typing errors and half its length away. Nothing if
/// there is none.
[[nodiscard]] std::optional<std::string_view> closest(std::string_view word,
                                                      std::span<const std::string_view> words);

/// ", did you mean 'digits'?", or nothing.
[[nodiscard]] std::string suggestion(std::string_view word,
                                     std::span<const std::string_view> words);

}  // namespace idproxy
