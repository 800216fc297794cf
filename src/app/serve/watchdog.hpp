#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/admin/http_server.hpp"

namespace idproxy::app::serve {

/// The stack of a thread of this process, innermost call first, for addr2line:
/// "/usr/bin/mongo-idproxy(+0x51234) …". Interrupts the thread with SIGUSR2, which the process must
/// not use otherwise. Empty if the thread does not respond within 200 ms, as when it is blocked in
/// the kernel. One call at a time.
[[nodiscard]] std::string trace_of(pid_t thread);

/// Checks that every io thread still runs its event loop: asks each of them, and measures the time
/// until it answers. Only one thread may call it; answers may come on any thread.
class Watchdog {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic
  /// Runs `answer` on the io thread as soon as that is free.
  using Ask = std::function<void(std::size_t thread, std::function<void()> answer)>;

  static constexpr std::chrono::seconds kStuck{5};  ///< without an answer for so long: logged
  static constexpr std::chrono::seconds kDead{10};  ///< without an answer for so long: not live

  Watchdog(std::size_t threads, Ask ask) : ask_(std::move(ask)), threads_(threads) {}

  /// Asks the threads that owe no answer, and logs threads that have owed one for too long, with
  /// their stack. Call it at least every second.
  void tick(Time now);
  /// True if each thread has answered since the last time that this returned true: systemd's
  /// watchdog may then be fed.
  [[nodiscard]] bool all_answered();
  /// How long each thread, by index, has owed an answer; 0 if it owes none.
  [[nodiscard]] std::vector<Time> owed(Time now) const;

 private:
  /// Written by the thread itself.
  struct Answers {
    std::atomic<std::uint64_t> count{0};
    std::atomic<pid_t> thread_id{0};
  };
  struct Thread {
    std::shared_ptr<Answers> answers = std::make_shared<Answers>();  // may outlive the Watchdog
    std::uint64_t questions = 0;
    std::uint64_t counted = 0;  ///< answers when all_answered() last returned true
    Time asked{};
    bool logged = false;  ///< logged as stuck
    [[nodiscard]] bool owes() const { return answers->count < questions; }
  };

  void note(std::size_t index, Time now);

  Ask ask_;
  std::vector<Thread> threads_;
};

/// The page /livez: 503 if an io thread has not answered for Watchdog::kDead, after which only a
/// restart helps. `owed`: as Watchdog::owed().
[[nodiscard]] admin::HttpResponse livez(const std::vector<std::chrono::nanoseconds>& owed);

}  // namespace idproxy::app::serve
