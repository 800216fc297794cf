#include "app/jobs/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "app/system_clock.hpp"
#include "app/views/terminal.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::app::jobs {
namespace {

using namespace std::chrono_literals;

constexpr auto kRecent = 30s;
constexpr auto kRateMarkEvery = 1s;
constexpr auto kFirstLines = 10s;
constexpr auto kLaterLines = 60s;
constexpr std::size_t kNarrowestBar = 10;
constexpr std::size_t kWidestBar = 40;
constexpr std::chrono::nanoseconds kDrawEvery = 200ms;

double share_of(const Progress& progress) {
  if (progress.total == 0) return 1;
  return std::min(static_cast<double>(progress.done) / static_cast<double>(progress.total), 1.0);
}

std::string percent_of(const Progress& progress) {
  return std::to_string(static_cast<int>(share_of(progress) * 100)) + " %";
}

std::string done_of(const Progress& progress) {
  return with_commas(progress.done) + " of " + with_commas(progress.total);
}

/// "1 min 10 s left", or "" if it is not known.
std::string time_left(const Progress& progress) {
  if (progress.per_second <= 0 || progress.done >= progress.total) return "";
  const double seconds = static_cast<double>(progress.total - progress.done) / progress.per_second;
  constexpr double kMost = 1e9;  // 31 years
  const auto whole = static_cast<std::int64_t>(std::ceil(std::min(seconds, kMost)));
  return seconds_text(std::chrono::seconds(whole)) + " left";
}

std::string rate_of(const Progress& progress) {
  return with_commas(static_cast<std::uint64_t>(progress.per_second));
}

}  // namespace

std::string progress_line(const Progress& progress) {
  std::string line = done_of(progress) + " documents (" + percent_of(progress) + ")";
  if (progress.per_second > 0) line += ", " + rate_of(progress) + " a second";
  if (const std::string left = time_left(progress); !left.empty()) line += ", " + left;
  return line;
}

std::string progress_bar(const Progress& progress, std::size_t columns) {
  std::string text = percent_of(progress) + "  " + done_of(progress);
  if (progress.per_second > 0) text += "  " + rate_of(progress) + "/s";
  if (const std::string left = time_left(progress); !left.empty()) text += "  " + left;
  const std::size_t around = text.size() + 4;  // brackets and two blanks
  if (columns < around + kNarrowestBar) return text.substr(0, columns);
  const std::size_t width = std::min(columns - around, kWidestBar);
  const auto filled = static_cast<std::size_t>(share_of(progress) * static_cast<double>(width));
  std::string bar(filled, '=');
  if (filled < width) bar += '>';
  bar.resize(width, ' ');
  return "[" + bar + "]  " + text;
}

double RecentRate::add(Time now, std::uint64_t done) {
  if (marks_.empty() || now - marks_.back().at >= kRateMarkEvery) marks_.push_back({now, done});
  while (marks_.size() > 1 && now - marks_[1].at >= kRecent) marks_.pop_front();
  const Mark& oldest = marks_.front();
  const double seconds = std::chrono::duration<double>(now - oldest.at).count();
  return seconds > 0 ? static_cast<double>(done - oldest.done) / seconds : 0;
}

bool SparseLines::is_due(Time now) {
  if (now < next_) return false;
  const Time pause = now - begun_ < kLaterLines ? Time(kFirstLines) : Time(kLaterLines);
  next_ = now + pause;
  return true;
}

Pace::Time Pace::until_next(Time now, std::uint64_t n) {
  if (rate_ == 0) return {};
  const Time begins = std::max(now, next_);
  const double seconds = static_cast<double>(n) / static_cast<double>(rate_);
  next_ = begins + std::chrono::duration_cast<Time>(std::chrono::duration<double>(seconds));
  return begins - now;
}

ProgressDisplay::ProgressDisplay(std::uint64_t total)
    : columns_(views::Terminal::at(STDERR_FILENO).columns), lines_(monotonic_now()) {
  progress_.total = total;
  (void)rate_.add(monotonic_now(), 0);
}

ProgressDisplay::~ProgressDisplay() {
  finish();
}

/// Over what was there. The last column stays free, because some terminals begin a new line in it.
void ProgressDisplay::draw(const std::string& line) const {
  std::cerr << '\r' << line << "\x1b[K" << std::flush;
}

void ProgressDisplay::show(std::uint64_t done) {
  const auto now = monotonic_now();
  waits_for_.clear();
  progress_.done = done;
  progress_.total = std::max(progress_.total, done);
  progress_.per_second = rate_.add(now, done);
  if (columns_ > 0 && now - drawn_ >= kDrawEvery) {
    drawn_ = now;
    draw(progress_bar(progress_, columns_ - 1));
  } else if (columns_ == 0 && lines_.is_due(now)) {
    std::cerr << progress_line(progress_) << '\n' << std::flush;
  }
}

void ProgressDisplay::waits(const std::string& reason) {
  if (reason == waits_for_) return;
  waits_for_ = reason;
  if (columns_ > 0) {
    draw(printable("waiting: " + reason, columns_ - std::min<std::size_t>(columns_, 2)));
  } else {
    std::cerr << "waiting: " << printable(reason) << '\n' << std::flush;
  }
}

void ProgressDisplay::finish() {
  if (finished_) return;
  finished_ = true;
  if (columns_ == 0) return;
  draw(progress_bar(progress_, columns_ - 1));
  std::cerr << '\n' << std::flush;
}

}  // namespace idproxy::app::jobs
