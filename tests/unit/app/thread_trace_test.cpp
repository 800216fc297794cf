#include "app/thread_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace idproxy::app {
namespace thread_trace_test {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(ThreadTrace, TellsWhereAnotherThreadIs) {
  std::atomic<pid_t> id{0};
  std::jthread stuck([&](const std::stop_token& over) {
    id = ::gettid();
    while (!over.stop_requested()) std::this_thread::sleep_for(1ms);
  });
  while (id == 0) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) EXPECT_THAT(trace_of(id), HasSubstr("unit_app("));
}

TEST(ThreadTrace, TellsWhereItselfIs) {
  EXPECT_THAT(trace_of(::gettid()), HasSubstr("unit_app("));
}

TEST(ThreadTrace, KnowsNothingOfAThreadThatHasGone) {
  pid_t id = 0;
  std::thread([&] { id = ::gettid(); }).join();
  EXPECT_EQ(trace_of(id), "");
}

}  // namespace thread_trace_test
}  // namespace idproxy::app
