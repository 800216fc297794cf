#include "idproxy/log/log.hpp"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "idproxy/base/printable.hpp"
#include "log/line_writer.hpp"

namespace idproxy::log {
namespace {

constexpr std::uint64_t kLinesPerSecond = 10;

// Per level. The colors are those of spdlog's own sink; the prefixes tell journald the priority of
// a line, and it removes them (sd-daemon(3)).
constexpr std::array kLevels{spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                             spdlog::level::err};
constexpr std::array kColors{"\x1b[36m", "\x1b[32m", "\x1b[33m\x1b[1m", "\x1b[31m\x1b[1m"};
constexpr std::array kPriorities{"<7>", "<6>", "<4>", "<3>"};
constexpr std::string_view kPlain = "\x1b[m";

// %n is the event's name.
constexpr const char* kJsonPattern =
    R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","event":"%n",%v})";
constexpr const char* kTextPattern = "%Y-%m-%d %H:%M:%S.%e %^%-7l%$ %n  %v";

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

/// systemd names the device and inode of the journal's stream (systemd.exec(5)). A process that
/// inherits the variable may have another standard error.
bool is_journal(int descriptor) {
  const char* journal = std::getenv("JOURNAL_STREAM");
  struct stat status{};
  return journal != nullptr && ::fstat(descriptor, &status) == 0 &&
         fmt::format("{}:{}", status.st_dev, status.st_ino) == journal;
}

/// spdlog's sink, with its level and its patterns: writes lines to standard error. Call it under
/// the log's lock, except for the level.
class Sink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit Sink(Format format)
      : json(format == Format::json ||
             (format == Format::automatic && ::isatty(STDERR_FILENO) == 0)) {
    using spdlog::pattern_time_type;
    formatter_ = std::make_unique<spdlog::pattern_formatter>(
        json ? kJsonPattern : kTextPattern,
        json ? pattern_time_type::utc : pattern_time_type::local);
  }

  const bool json;
  LineWriter writer{STDERR_FILENO};

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    std::string line(formatted.data(), formatted.size());
    const auto level = static_cast<std::size_t>(message.level - kLevels[0]);
    if (colored_) {
      line.insert(message.color_range_end, kPlain);
      line.insert(message.color_range_start, kColors[level]);
    }
    if (in_journal_) line.insert(0, kPriorities[level]);
    writer.write(line);
  }
  void flush_() override { writer.flush(); }

  const bool colored_ = !json && ::isatty(STDERR_FILENO) != 0;
  const bool in_journal_ = is_journal(STDERR_FILENO);
};

constexpr std::size_t kLastLines = 50;

struct State {
  std::mutex mutex;  // guards all below; held while a line is written, to keep the order
  Limiter limiter;
  std::uint64_t dropped_told = 0;
  std::unique_ptr<Sink> sink;  // its level needs no lock
  std::deque<Line> last;
};
State state;

/// Appends a number, or a text: in quotes, unless it consists of characters in `bare`.
void append_value(std::string& out, const Field& field, std::string_view bare) {
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
    out += std::to_string(*number);
    return;
  }
  const auto text = std::get<std::string_view>(field.value);
  const bool quoted = text.empty() || text.find_first_not_of(bare) != std::string_view::npos;
  out += quoted ? in_quotes(text, kMostShown) : std::string(text);
}

/// What follows the event's name.
std::string json_payload(std::string_view message, std::span<const Field> fields) {
  std::string payload;
  for (const Field& field : fields) {
    payload += in_quotes(field.name, kMostShown) + ':';
    append_value(payload, field, {});
    payload += ',';
  }
  return payload + "\"message\":" + in_quotes(message, kMostShown);
}

/// What follows the event's name.
std::string text_payload(std::string_view message, std::span<const Field> fields) {
  constexpr std::string_view kBare =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_-/[]*";
  std::string line;
  append_printable(line, message, {});
  const char* separator = "  ";
  for (const Field& field : fields) {
    line.append(separator).append(field.name) += '=';
    append_value(line, field, kBare);
    separator = " ";
  }
  return line;
}

spdlog::level::level_enum spdlog_level(Level level) {
  return kLevels[static_cast<std::size_t>(level)];
}

/// For last_lines(). Call it under the lock.
void keep(Level level, std::string_view name, std::string_view message,
          std::span<const Field> fields) {
  Line line{std::chrono::system_clock::now(), level, name, cut_off(message, kMostShown), {}};
  for (const Field& field : fields) {
    const auto* number = std::get_if<std::int64_t>(&field.value);
    line.fields.emplace_back(field.name,
                             number != nullptr
                                 ? std::to_string(*number)
                                 : cut_off(std::get<std::string_view>(field.value), kMostShown));
  }
  state.last.push_back(std::move(line));
  if (state.last.size() > kLastLines) state.last.pop_front();
}

/// Writes an admitted line. Call it under the lock.
void write(Level level, std::string_view name, std::string_view message,
           std::span<const Field> fields) {
  const std::string payload =
      state.sink->json ? json_payload(message, fields) : text_payload(message, fields);
  state.sink->log({name, spdlog_level(level), payload});
  if (level != Level::debug) keep(level, name, message, fields);
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
  state.sink = std::make_unique<Sink>(options.format);
  set_level(options.level);
}

void set_level(Level level) {
  state.sink->set_level(spdlog_level(level));
}

bool enabled(Level level) {
  return state.sink != nullptr && state.sink->should_log(spdlog_level(level));
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

void event(const Finding& finding, std::initializer_list<Field> fields) {
  event(level_of(finding.kind.level), finding.kind.event, finding.whole(), fields);
}

Level level_of(FindingLevel level) {
  constexpr std::array kOf{Level::error, Level::warning, Level::info};
  return kOf[static_cast<std::size_t>(level)];
}

void catch_up() {
  const std::scoped_lock lock(state.mutex);
  if (state.sink == nullptr) return;
  state.sink->writer.flush();
  tell_suppressed();
  tell_dropped();
}

void finish(std::chrono::milliseconds limit) {
  catch_up();
  const std::scoped_lock lock(state.mutex);
  if (state.sink != nullptr) state.sink->writer.flush(limit);
}

std::vector<Line> last_lines() {
  const std::scoped_lock lock(state.mutex);
  return {state.last.begin(), state.last.end()};
}

std::string_view name_of(Level level) {
  constexpr std::array<std::string_view, 4> kNames{"debug", "info", "warning", "error"};
  return kNames[static_cast<std::size_t>(level)];
}

Counts counts() {
  const std::scoped_lock lock(state.mutex);
  return {.suppressed = state.limiter.all_suppressed(),
          .dropped = state.sink ? state.sink->writer.dropped() : 0};
}

}  // namespace idproxy::log
