#include "app/serve/watchdog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "idproxy/log/log.hpp"

namespace idproxy::app::serve {
namespace watchdog_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Io threads that answer when the test says so.
class WatchdogTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kThreads = 3;

  void answer(std::size_t thread) {
    for (const auto& each : std::exchange(asked_[thread], {})) each();
  }
  void answer_all() {
    for (std::size_t i = 0; i < kThreads; ++i) answer(i);
  }
  [[nodiscard]] std::size_t asked(std::size_t thread) const { return asked_[thread].size(); }

 private:
  std::vector<std::vector<std::function<void()>>> asked_{kThreads};

 protected:
  Watchdog watchdog_{kThreads, [this](std::size_t thread, std::function<void()> answer) {
                       asked_[thread].push_back(std::move(answer));
                     }};
};

TEST_F(WatchdogTest, IsFedWhenAllHaveAnswered) {
  EXPECT_FALSE(watchdog_.all_answered()) << "nobody has been asked";
  watchdog_.tick(0s);
  EXPECT_FALSE(watchdog_.all_answered());
  answer(0);
  answer(2);
  EXPECT_FALSE(watchdog_.all_answered());
  answer(1);
  EXPECT_TRUE(watchdog_.all_answered());
  EXPECT_FALSE(watchdog_.all_answered()) << "each time anew";
  watchdog_.tick(1s);
  answer_all();
  EXPECT_TRUE(watchdog_.all_answered());
}

TEST_F(WatchdogTest, IsNotFedWhileOneIsStuck) {
  for (int second = 0; second < 100; ++second) {
    watchdog_.tick(std::chrono::seconds(second));
    answer(0);
    answer(1);
    EXPECT_FALSE(watchdog_.all_answered());
  }
  answer(2);
  EXPECT_TRUE(watchdog_.all_answered());
}

TEST_F(WatchdogTest, AsksNobodyTwice) {
  for (int second = 0; second < 10; ++second) {
    watchdog_.tick(std::chrono::seconds(second));
    answer(0);
  }
  EXPECT_EQ(asked(0), 0U);
  EXPECT_EQ(asked(1), 1U);
}

TEST_F(WatchdogTest, TellsHowLongAnAnswerIsOwed) {
  watchdog_.tick(100s);
  answer(0);
  EXPECT_THAT(watchdog_.owed(103s), ElementsAre(0s, 3s, 3s));
  watchdog_.tick(104s);
  EXPECT_THAT(watchdog_.owed(105s), ElementsAre(1s, 5s, 5s));
  answer_all();
  EXPECT_THAT(watchdog_.owed(200s), ElementsAre(0s, 0s, 0s));
}

TEST_F(WatchdogTest, LogsOnceWhoIsStuckAndThatItIsOver) {
  const auto log_of = [&](int from, int to) {
    ::testing::internal::CaptureStderr();
    log::start({log::Level::info, log::Format::json});
    for (int second = from; second < to; ++second) {
      watchdog_.tick(std::chrono::seconds(second));
      answer(0);
      answer(2);
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(log_of(0, 5), "");
  const std::string stuck = log_of(5, 60);
  EXPECT_THAT(stuck, HasSubstr("\"event\":\"io_thread_stuck\",\"thread\":1,\"seconds\":5,"));
  EXPECT_EQ(std::ranges::count(stuck, '\n'), 1);
  answer(1);
  EXPECT_THAT(log_of(60, 61),
              HasSubstr("\"event\":\"io_thread_answers\",\"thread\":1,\"seconds\":60"));
  answer(1);
  EXPECT_EQ(log_of(61, 62), "");
}

TEST_F(WatchdogTest, TakesAnswersFromAnyThread) {
  for (int i = 0; i < 100; ++i) {
    watchdog_.tick(std::chrono::seconds(i));
    std::jthread other([this] { answer_all(); });
    const auto end = std::chrono::steady_clock::now() + 10s;
    bool fed = false;
    while (!fed && std::chrono::steady_clock::now() < end) fed = watchdog_.all_answered();
    ASSERT_TRUE(fed);
  }
}

TEST(Watchdog, MayEndBeforeAnAnswerComes) {
  std::function<void()> late;
  {
    Watchdog watchdog(1, [&](std::size_t, std::function<void()> answer) { late = answer; });
    watchdog.tick(0s);
  }
  late();
}

TEST(Livez, IsWellWhileEveryThreadAnswers) {
  EXPECT_EQ(livez({}).status, 200U);
  const admin::HttpResponse response = livez({0s, 9s});
  EXPECT_EQ(response.status, 200U);
  EXPECT_EQ(response.body, "live\n");
}

TEST(Livez, NamesTheThreadThatIsDead) {
  const admin::HttpResponse response = livez({0s, 12'500ms, 10s});
  EXPECT_EQ(response.status, 503U);
  EXPECT_EQ(response.body, "thread 1: no answer for 12 s\nthread 2: no answer for 10 s\n");
}

}  // namespace watchdog_test

namespace thread_trace_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// A busy machine may let the thread respond later than trace_of() waits: it is asked again.
std::string trace_in_the_end(pid_t thread) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  std::string trace;
  while (trace.empty() && std::chrono::steady_clock::now() < end) trace = trace_of(thread);
  return trace;
}

TEST(ThreadTrace, TellsWhereAnotherThreadIs) {
  std::atomic<pid_t> id{0};
  std::jthread stuck([&](const std::stop_token& over) {
    id = ::gettid();
    while (!over.stop_requested()) std::this_thread::sleep_for(1ms);
  });
  while (id == 0) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(trace_in_the_end(id), HasSubstr("unit_app("));
}

TEST(ThreadTrace, TellsWhereItselfIs) {
  EXPECT_THAT(trace_in_the_end(::gettid()), HasSubstr("unit_app("));
}

TEST(ThreadTrace, KnowsNothingOfAThreadThatHasGone) {
  pid_t id = 0;
  std::thread([&] { id = ::gettid(); }).join();
  EXPECT_EQ(trace_of(id), "");
}

}  // namespace thread_trace_test

}  // namespace idproxy::app::serve
