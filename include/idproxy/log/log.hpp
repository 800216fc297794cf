#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "idproxy/base/finding.hpp"

/// Logs one line per event to standard error: text on a terminal, else JSON. If that is systemd's
/// journal, each line begins with its priority, as "<4>" (sd-daemon(3)). Callers never pass
/// documents, credentials or the payload of commands. event() writes the line before it returns, in
/// the order of the calls, but never waits for the reader of the log: lines that standard error
/// does not take are buffered, and dropped if the buffer is full. Thread-safe.
namespace idproxy::log {

enum class Level { debug, info, warning, error };
enum class Format { automatic, text, json };

struct Options {
  Level level = Level::info;
  Format format = Format::automatic;
};

struct Field {
  std::string_view name;
  std::variant<std::string_view, std::int64_t> value;
  Field(std::string_view n, std::string_view v) : name(n), value(v) {}
  Field(std::string_view n, const std::string& v) : name(n), value(std::string_view(v)) {}
  Field(std::string_view n, const char* v) : name(n), value(std::string_view(v)) {}
  template <class Integer>
    requires std::is_integral_v<Integer>
  Field(std::string_view n, Integer v) : name(n), value(static_cast<std::int64_t>(v)) {}
};

/// Call it before the first event, while no other thread logs.
void start(const Options& options);
/// Takes effect with the next event. Call it after start().
void set_level(Level level);

[[nodiscard]] bool enabled(Level level);

/// Logs one line. `name` is the event's stable snake_case name for machines; it must be a string
/// literal. `message` is a sentence for people. Of one event, at most 10 lines per second are
/// written; the next line reports how many were left out.
void event(Level level, std::string_view name, std::string_view message,
           std::initializer_list<Field> fields = {});
/// Logs the event of the finding's kind, with what is so and what to do as its message.
void event(const Finding& finding, std::initializer_list<Field> fields = {});

/// Writes buffered lines as far as standard error takes them now, and reports left-out lines of
/// events that have not logged since. Call it every few seconds.
void catch_up();
/// Like catch_up(), but waits up to `limit` for a slow reader. Call it before the process ends.
void finish(std::chrono::milliseconds limit);

/// A line of the log, for those who look at a page instead.
struct Line {
  std::chrono::system_clock::time_point time;
  Level level;
  std::string_view event;
  std::string message;
  /// Names and values, in the order of the line; a text as it was given, not escaped.
  std::vector<std::pair<std::string, std::string>> fields;
};
/// The last 50 lines of level info and above, the oldest first.
[[nodiscard]] std::vector<Line> last_lines();
[[nodiscard]] std::string_view name_of(Level level);
[[nodiscard]] Level level_of(FindingLevel level);

/// The numbers of lines since the start that were not written.
struct Counts {
  std::uint64_t suppressed = 0;  ///< more than 10 per second of one event
  std::uint64_t dropped = 0;     ///< standard error did not take them
};
[[nodiscard]] Counts counts();

}  // namespace idproxy::log
