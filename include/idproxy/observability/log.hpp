#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

/// One line per event on standard error: text for people on a terminal, else JSON. Never a
/// document, a credential or a command's payload. Thread-safe.
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

[[nodiscard]] bool enabled(Level level);

/// Writes one line. `event` is a stable snake_case name for machines, `message` a sentence for
/// people. Lines of one event beyond 10 a second are counted and reported by the next line of it.
void event(Level level, std::string_view name, std::string_view message,
           std::initializer_list<Field> fields = {});

}  // namespace idproxy::log
