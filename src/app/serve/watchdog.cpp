#include "app/serve/watchdog.hpp"

#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "idproxy/base/words.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::serve {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kPatience = 200ms;

// The signal handler stores the stack in `frames` and `depth`. `stage` passes their ownership on,
// so that a thread that responds too late does nothing.
enum class Stage { idle, asked, taking, taken };
std::atomic<Stage> stage{Stage::idle};
std::atomic<pid_t> asked_thread{0};
std::array<void*, 48> frames;
int depth = 0;

void take_trace(int) {
  const int error = errno;
  auto expected = Stage::asked;
  if (asked_thread == ::gettid() && stage.compare_exchange_strong(expected, Stage::taking)) {
    depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
    stage = Stage::taken;
  }
  errno = error;
}

/// True if the thread has stored its stack; if false, it will not do so later.
bool await_trace() {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (stage != Stage::taken) {
    std::this_thread::sleep_for(1ms);
    if (std::chrono::steady_clock::now() < end) continue;
    auto expected = Stage::asked;
    if (stage.compare_exchange_strong(expected, Stage::idle)) return false;
  }
  return true;
}

bool install() {
  (void)::backtrace(frames.data(), 1);  // the first call loads a library: not safe in a handler
  struct sigaction action{};
  action.sa_handler = take_trace;
  action.sa_flags = SA_RESTART;
  return ::sigaction(SIGUSR2, &action, nullptr) == 0;
}

}  // namespace

std::string trace_of(pid_t thread) {
  static const bool installed = install();
  asked_thread = thread;
  stage = Stage::asked;
  if (!installed || ::tgkill(::getpid(), thread, SIGUSR2) != 0 || !await_trace()) return "";
  const std::unique_ptr<char*, decltype(&std::free)> symbols(
      ::backtrace_symbols(frames.data(), depth), &std::free);
  if (!symbols) return "";
  constexpr int kHandler = 2;  // take_trace(), and what the kernel calls it from
  std::string trace;
  for (int i = kHandler; i < depth; ++i) {
    std::string_view symbol = symbols.get()[i];
    symbol = symbol.substr(0, symbol.find(" ["));  // the address, once more
    trace.append(trace.empty() ? "" : " ").append(symbol);
  }
  return trace;
}

void Watchdog::tick(Time now) {
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

admin::HttpResponse livez(const std::vector<std::chrono::nanoseconds>& owed) {
  admin::HttpResponse response;
  for (std::size_t i = 0; i < owed.size(); ++i) {
    if (owed[i] < Watchdog::kDead) continue;
    response.status = 503;
    response.body += "thread " + std::to_string(i) + ": no answer for " +
                     std::to_string(whole_seconds(owed[i])) + " s\n";
  }
  if (response.body.empty()) response.body = "live\n";
  return response;
}

}  // namespace idproxy::app::serve
