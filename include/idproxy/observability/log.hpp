#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

/// One line per event on standard error: text for people on a terminal, else JSON. Never a
/// document, a credential or a command's payload. A line is written before event() returns, in the
/// order of the calls; where standard error does not take it, it waits in memory, and if that is
/// full it is dropped: nobody ever waits for the reader of the log. Thread-safe.
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

/// Call before the first event, and not while others log.
void start(const Options& options);
/// From the next event on.
void set_level(Level level);

[[nodiscard]] bool enabled(Level level);

/// Writes one line. `event` is a stable snake_case name for machines, `message` a sentence for
/// people. Lines of one event beyond 10 a second are counted and reported by the next line of it.
/// `name` is a literal: it is remembered.
void event(Level level, std::string_view name, std::string_view message,
           std::initializer_list<Field> fields = {});

/// Writes what waits as far as standard error takes it now, and a line for each event of which
/// lines were left out and none has been written since. To be called every few seconds.
void catch_up();
/// For the end: as catch_up(), only that it waits so long for a reader that is behind.
void finish(std::chrono::milliseconds limit);

/// Lines that were not written, since the start.
struct Counts {
  std::uint64_t suppressed = 0;  ///< beyond 10 a second of one event
  std::uint64_t dropped = 0;     ///< not taken by standard error
};
[[nodiscard]] Counts counts();

}  // namespace idproxy::log
