#include "app/watchdog.hpp"

#include <unistd.h>

#include <algorithm>

#include "app/thread_trace.hpp"
#include "idproxy/observability/log.hpp"

namespace idproxy::app {
namespace {

std::int64_t whole_seconds(Watchdog::Time time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

}  // namespace

void Watchdog::look(Time now) {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    note(i, now);
    Thread& thread = threads_[i];
    if (thread.owes()) continue;
    thread.asked = now;
    ++thread.questions;
    ask_(i, [answers = thread.answers] {
      answers->thread_id = ::gettid();
      ++answers->count;
    });
  }
}

/// Logs if the thread is stuck, or answers again.
void Watchdog::note(std::size_t index, Time now) {
  Thread& thread = threads_[index];
  const Time owed = now - thread.asked;
  if (!thread.owes()) {
    if (!std::exchange(thread.logged, false)) return;
    log::event(log::Level::info, "io_thread_answers", "an io thread answers again",
               {{"thread", index}, {"seconds", whole_seconds(owed)}});
  } else if (owed >= kStuck && !std::exchange(thread.logged, true)) {
    log::event(log::Level::error, "io_thread_stuck",
               "an io thread does not answer: its clients are not served",
               {{"thread", index},
                {"seconds", whole_seconds(owed)},
                {"trace", trace_of(thread.answers->thread_id)}});
  }
}

bool Watchdog::all_answered() {
  if (std::ranges::any_of(threads_,
                          [](const Thread& each) { return each.answers->count == each.counted; })) {
    return false;
  }
  for (Thread& thread : threads_) thread.counted = thread.answers->count;
  return true;
}

std::vector<Watchdog::Time> Watchdog::owed(Time now) const {
  std::vector<Time> owed;
  owed.reserve(threads_.size());
  for (const Thread& thread : threads_) {
    owed.push_back(thread.owes() ? now - thread.asked : Time(0));
  }
  return owed;
}

}  // namespace idproxy::app
