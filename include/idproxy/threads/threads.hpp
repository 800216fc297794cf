#pragma once

#include <exception>
#include <thread>
#include <utility>

/// Threads that the system may refuse: by TasksMax= of the unit, by ulimit -u, for lack of memory.
namespace idproxy::threads {

/// Why something stands still, and what helps.
inline constexpr const char* kRefused =
    "cannot start a thread: the system refuses one; raise TasksMax= of the unit (ulimit -u of its "
    "user), or see what has so many";

/// Event: the system has refused a thread. Logged once in ten seconds. Thread-safe.
void refused(const char* reason);

/// From now on a library that needs a thread waits as long as the system refuses it: this is the
/// proxy, and no command that somebody waits for.
void await();
[[nodiscard]] bool are_awaited();

/// Starts the thread, which must not run. False: the system refuses it now; try again later.
template <class Run>
[[nodiscard]] bool start(std::thread& thread, Run run) {
  try {
    thread = std::thread(std::move(run));
    return true;
  } catch (const std::exception& error) {
    refused(error.what());
    return false;
  }
}

}  // namespace idproxy::threads
