#include "app/progress_display.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>

namespace idproxy::app {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kDrawEvery = 200ms;
constexpr std::size_t kUsualColumns = 80;

std::chrono::nanoseconds monotonic_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

/// The width of the terminal at standard error; 0: that is none.
std::size_t terminal_columns() {
  if (::isatty(STDERR_FILENO) == 0) return 0;
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size.ws_col : kUsualColumns;
}

}  // namespace

ProgressDisplay::ProgressDisplay(std::uint64_t total)
    : columns_(terminal_columns()), lines_(monotonic_now()) {
  progress_.total = total;
  (void)rate_.add(monotonic_now(), 0);
}

ProgressDisplay::~ProgressDisplay() {
  finish();
}

/// Over what was there. The last column stays free, because some terminals begin a new line in it.
void ProgressDisplay::draw(const std::string& line) const {
  std::cerr << '\r' << line.substr(0, columns_ - 1) << "\x1b[K" << std::flush;
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
    draw("waiting: " + reason);
  } else {
    std::cerr << "waiting: " << reason << '\n' << std::flush;
  }
}

void ProgressDisplay::finish() {
  if (finished_) return;
  finished_ = true;
  if (columns_ == 0) return;
  draw(progress_bar(progress_, columns_ - 1));
  std::cerr << '\n' << std::flush;
}

}  // namespace idproxy::app
