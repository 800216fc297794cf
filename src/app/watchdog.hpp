#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace idproxy::app {

/// Knows whether every io thread still turns its loop: asks each of them, and takes the time until
/// it answers. Not thread-safe: one thread calls it, on whatever threads the answers come.
class Watchdog {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic
  /// Runs `answer` on the io thread, once it has time.
  using Ask = std::function<void(std::size_t thread, std::function<void()> answer)>;

  static constexpr std::chrono::seconds kStuck{5};  ///< so late, the log says so
  static constexpr std::chrono::seconds kDead{10};  ///< so late, the process does not live

  Watchdog(std::size_t threads, Ask ask) : ask_(std::move(ask)), threads_(threads) {}

  /// Asks those that have answered, and logs which have not for too long, and where they are. To be
  /// called every second, or more often.
  void look(Time now);
  /// True if each thread has answered since the last true: time to feed systemd's watchdog.
  [[nodiscard]] bool all_answered();
  /// How long each thread has owed an answer; 0 if it owes none.
  [[nodiscard]] std::vector<Time> owed(Time now) const;

 private:
  /// What comes from the thread itself.
  struct Answers {
    std::atomic<std::uint64_t> count{0};
    std::atomic<pid_t> thread_id{0};
  };
  struct Thread {
    std::shared_ptr<Answers> answers = std::make_shared<Answers>();  // a question may outlive us
    std::uint64_t questions = 0;
    std::uint64_t counted = 0;  ///< answers, at the last true of all_answered()
    Time asked{};
    bool logged = false;  ///< as stuck
    [[nodiscard]] bool owes() const { return answers->count < questions; }
  };

  void note(std::size_t index, Time now);

  Ask ask_;
  std::vector<Thread> threads_;
};

}  // namespace idproxy::app
