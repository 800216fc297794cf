#include "idproxy/observability/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace idproxy::log {
namespace {

constexpr std::uint64_t kLinesPerSecond = 10;

struct State {
  Level level = Level::info;
  bool json = false;
  std::shared_ptr<spdlog::logger> logger;
};
State state;

constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                 spdlog::level::warn, spdlog::level::err};
constexpr std::string_view kLevelNames[] = {"debug", "info", "warning", "error"};

/// How many lines of each event this second has seen. Events are few and named by us.
class Limiter {
 public:
  /// The number of lines left out before this one; nothing if this one is left out too.
  std::optional<std::uint64_t> admit(std::string_view event) {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::steady_clock::now().time_since_epoch());
    const std::scoped_lock lock(mutex_);
    Count& count = counts_[event];
    if (count.second != now) {
      count.second = now;
      count.lines = 0;
    }
    if (++count.lines > kLinesPerSecond) {
      ++count.suppressed;
      return std::nullopt;
    }
    return std::exchange(count.suppressed, 0);
  }

 private:
  struct Count {
    std::chrono::seconds second{-1};
    std::uint64_t lines = 0;
    std::uint64_t suppressed = 0;
  };
  std::mutex mutex_;
  std::map<std::string_view, Count> counts_;
};

/// What is not printable ASCII is escaped byte by byte, so that a name chosen by a peer can neither
/// end the line, nor move a terminal's cursor, nor be invalid UTF-8.
void append_printable(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte < 0x20 || byte > 0x7e) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
  } else {
    out += c;
  }
}

void append_json(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    append_printable(out, c);
  }
  out += '"';
}

std::string json_line(std::string_view time, Level level, std::string_view name,
                      std::string_view message, const std::vector<Field>& fields) {
  std::string line = "{\"time\":";
  append_json(line, time);
  line += ",\"level\":";
  append_json(line, kLevelNames[static_cast<std::size_t>(level)]);
  line += ",\"event\":";
  append_json(line, name);
  for (const Field& field : fields) {
    line += ',';
    append_json(line, field.name);
    line += ':';
    if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
      line += std::to_string(*number);
    } else {
      append_json(line, std::get<std::string_view>(field.value));
    }
  }
  line += ",\"message\":";
  append_json(line, message);
  return line + "}";
}

std::string text_line(std::string_view message, const std::vector<Field>& fields) {
  std::string line;
  for (const char c : message) append_printable(line, c);
  const char* separator = "  ";
  for (const Field& field : fields) {
    line.append(separator).append(field.name) += '=';
    if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
      line += std::to_string(*number);
    } else {
      const auto text = std::get<std::string_view>(field.value);
      const bool quoted =
          text.empty() ||
          text.find_first_not_of(
              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_-/[]*") !=
              std::string_view::npos;
      quoted ? append_json(line, text) : static_cast<void>(line.append(text));
    }
    separator = " ";
  }
  return line;
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03d}Z", std::string_view(text, n), millis);
}

}  // namespace

void start(const Options& options) {
  state.level = options.level;
  state.json = options.format == Format::json ||
               (options.format == Format::automatic && ::isatty(STDERR_FILENO) == 0);
  spdlog::drop("mongo-idproxy");
  state.logger = spdlog::stderr_color_mt("mongo-idproxy");
  state.logger->set_level(spdlog::level::debug);
  state.logger->set_pattern(state.json ? "%v" : "%H:%M:%S.%e %^%-7l%$ %v");
}

bool enabled(Level level) {
  return state.logger != nullptr && level >= state.level;
}

void event(Level level, std::string_view name, std::string_view message,
           std::initializer_list<Field> fields) {
  if (!enabled(level)) return;
  static Limiter limiter;
  const auto suppressed = limiter.admit(name);
  if (!suppressed) return;
  std::vector<Field> all(fields);
  if (*suppressed > 0) all.emplace_back("suppressed", *suppressed);
  const std::string line =
      state.json ? json_line(utc_now(), level, name, message, all) : text_line(message, all);
  state.logger->log(kLevels[static_cast<std::size_t>(level)], "{}", line);
}

}  // namespace idproxy::log
