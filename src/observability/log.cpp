#include "idproxy/observability/log.hpp"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "idproxy/base/utf8.hpp"
#include "observability/line_writer.hpp"

namespace idproxy::log {
namespace {

constexpr std::uint64_t kLinesPerSecond = 10;

constexpr std::array kLevels{spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                             spdlog::level::err};
constexpr std::array<std::string_view, 4> kLevelNames{"debug", "info", "warning", "error"};
constexpr std::array<std::string_view, 4> kColors{"\x1b[36m", "\x1b[32m", "\x1b[33m\x1b[1m",
                                                  "\x1b[31m\x1b[1m"};
constexpr std::string_view kPlain = "\x1b[m";

/// Limits the lines per second of each event. Events are few, and their names are the program's
/// own.
class Limiter {
 public:
  struct Suppressed {
    std::string_view event;
    Level level;  // of the last one
    std::uint64_t lines;
  };

  /// The number of lines left out before this one; nothing if this one must be left out, too.
  std::optional<std::uint64_t> admit(std::string_view event, Level level) {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::steady_clock::now().time_since_epoch());
    Count& count = counts_[event];
    if (count.second != now) {
      count.second = now;
      count.lines = 0;
    }
    if (++count.lines > kLinesPerSecond) {
      ++count.suppressed;
      ++all_suppressed_;
      count.level = level;
      return std::nullopt;
    }
    return std::exchange(count.suppressed, 0);
  }

  /// The left-out lines that have not been reported yet.
  std::vector<Suppressed> take_suppressed() {
    std::vector<Suppressed> taken;
    for (auto& [event, count] : counts_) {
      if (count.suppressed == 0) continue;
      taken.push_back({event, count.level, std::exchange(count.suppressed, 0)});
    }
    return taken;
  }

  /// Since the start.
  [[nodiscard]] std::uint64_t all_suppressed() const { return all_suppressed_; }

 private:
  struct Count {
    std::chrono::seconds second{-1};
    std::uint64_t lines = 0;
    std::uint64_t suppressed = 0;
    Level level = Level::info;
  };
  std::map<std::string_view, Count> counts_;
  std::uint64_t all_suppressed_ = 0;
};

/// spdlog's sink: writes formatted lines to standard error. Call it under the log's lock.
class Sink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  LineWriter writer{STDERR_FILENO};

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view text(line.data(), line.size());
    if (!colored_ || message.color_range_end <= message.color_range_start) {
      return writer.write(text);
    }
    const auto level = std::ranges::find(kLevels, message.level) - kLevels.begin();
    const std::string_view head = text.substr(0, message.color_range_start);
    const std::string_view tail = text.substr(message.color_range_end);
    text.remove_suffix(tail.size());
    writer.write(fmt::format("{}{}{}{}{}", head, kColors[static_cast<std::size_t>(level)],
                             text.substr(head.size()), kPlain, tail));
  }
  void flush_() override { writer.flush(); }

  const bool colored_ = ::isatty(STDERR_FILENO) != 0;
};

struct State {
  std::atomic<Level> level = Level::info;
  bool json = false;
  std::mutex mutex;  // guards all below; held while a line is written, to keep the order
  Limiter limiter;
  std::uint64_t dropped_told = 0;
  std::shared_ptr<Sink> sink;
  std::unique_ptr<spdlog::logger> logger;
};
State state;

/// False for characters that end a line, control a terminal, are invisible, or change the direction
/// of the following text.
bool is_shown(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 6> kHidden{{{0, 0x1f},
                                                                  {0x7f, 0x9f},
                                                                  {0x200b, 0x200f},
                                                                  {0x2028, 0x202e},
                                                                  {0x2060, 0x206f},
                                                                  {0xfeff, 0xfeff}}};
  return std::ranges::none_of(
      kHidden, [&](const auto& range) { return c >= range.first && c <= range.second; });
}

/// Appends text that a peer may have chosen: escapes characters that must not be shown, and makes
/// it valid UTF-8. Puts a backslash before the characters in `escaped`.
void append_shown(std::string& out, std::string_view text, std::string_view escaped) {
  while (!text.empty()) {
    const auto [code_point, size] = first_character(text);
    if (!is_shown(code_point)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<std::uint32_t>(code_point));
    } else if (code_point == kReplacementCharacter) {
      out += "\xef\xbf\xbd";
    } else {
      if (escaped.find(text[0]) != std::string_view::npos) out += '\\';
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
}

void append_json(std::string& out, std::string_view text) {
  out += '"';
  append_shown(out, text, "\"\\");
  out += '"';
}

std::string json_line(std::string_view time, Level level, std::string_view name,
                      std::string_view message, std::span<const Field> fields) {
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

std::string text_line(std::string_view name, std::string_view message,
                      std::span<const Field> fields) {
  std::string line(name);
  line += "  ";
  append_shown(line, message, {});
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

/// Writes an admitted line. Call it under the lock.
void write(Level level, std::string_view name, std::string_view message,
           std::span<const Field> fields) {
  const std::string line = state.json ? json_line(utc_now(), level, name, message, fields)
                                      : text_line(name, message, fields);
  state.logger->log(kLevels[static_cast<std::size_t>(level)], "{}", line);
}

/// Call it under the lock.
void tell_suppressed() {
  for (const auto& [event, level, lines] : state.limiter.take_suppressed()) {
    const std::array fields{Field("suppressed", lines)};
    write(level, event, fmt::format("{} more lines of {}", lines, event), fields);
  }
}

/// Call it under the lock. Waits until the buffer is empty, or this line would be dropped, too.
void tell_dropped() {
  const std::uint64_t dropped = state.sink->writer.dropped();
  if (dropped == state.dropped_told || state.sink->writer.is_behind()) return;
  const std::array fields{Field("lines", dropped - state.dropped_told)};
  write(Level::warning, "log_lines_dropped",
        "log lines were lost because nobody read standard error", fields);
  state.dropped_told = dropped;
}

}  // namespace

void start(const Options& options) {
  const std::scoped_lock lock(state.mutex);
  state.level = options.level;
  state.json = options.format == Format::json ||
               (options.format == Format::automatic && ::isatty(STDERR_FILENO) == 0);
  state.sink = std::make_shared<Sink>();
  state.logger = std::make_unique<spdlog::logger>("mongo-idproxy", state.sink);
  state.logger->set_level(spdlog::level::debug);
  state.logger->set_pattern(state.json ? "%v" : "%H:%M:%S.%e %^%-7l%$ %v");
}

void set_level(Level level) {
  state.level = level;
}

bool enabled(Level level) {
  return state.logger != nullptr && level >= state.level.load(std::memory_order_relaxed);
}

void event(Level level, std::string_view name, std::string_view message,
           std::initializer_list<Field> fields) {
  if (!enabled(level)) return;
  const std::scoped_lock lock(state.mutex);
  const auto suppressed = state.limiter.admit(name, level);
  if (!suppressed) return;
  std::vector<Field> all(fields);
  if (*suppressed > 0) all.emplace_back("suppressed", *suppressed);
  write(level, name, message, all);
}

void catch_up() {
  const std::scoped_lock lock(state.mutex);
  if (state.logger == nullptr) return;
  state.sink->writer.flush();
  tell_suppressed();
  tell_dropped();
}

void finish(std::chrono::milliseconds limit) {
  catch_up();
  const std::scoped_lock lock(state.mutex);
  if (state.logger != nullptr) state.sink->writer.flush(limit);
}

Counts counts() {
  const std::scoped_lock lock(state.mutex);
  return {.suppressed = state.limiter.all_suppressed(),
          .dropped = state.sink ? state.sink->writer.dropped() : 0};
}

}  // namespace idproxy::log
