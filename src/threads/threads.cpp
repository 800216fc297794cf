#include "idproxy/threads/threads.hpp"

#include <atomic>
#include <chrono>

#include "idproxy/log/log.hpp"

namespace idproxy::threads {
namespace {

std::atomic<bool> awaited{false};

}  // namespace

void await() {
  awaited = true;
}

bool are_awaited() {
  return awaited;
}

void refused(const char* reason) {
  using std::chrono::steady_clock;
  constexpr std::chrono::seconds kLogAgain{10};
  static std::atomic<steady_clock::rep> logged{0};
  const auto now = steady_clock::now().time_since_epoch();
  auto before = logged.load();
  const bool is_news = before == 0 || now - steady_clock::duration(before) >= kLogAgain;
  if (!is_news || !logged.compare_exchange_strong(before, now.count())) return;
  log::event(
      log::Level::error, "thread_refused",
      "cannot start a thread; trying again: raise TasksMax= of the unit, or ulimit -u of its "
      "user",
      {{"reason", reason}});
}

}  // namespace idproxy::threads
