#include "net/event_loop.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <vector>

namespace idproxy::net {
namespace deadlines_test {

using namespace std::chrono_literals;

struct Waiting : Deadlines::Place {
  explicit Waiting(std::vector<const Waiting*>& to) : expired(to) {}
  std::vector<const Waiting*>& expired;
};

void note(Deadlines::Place& place) {
  auto& waiting = static_cast<Waiting&>(place);
  waiting.expired.push_back(&waiting);
}

void run_until(EventLoop& loop, const std::function<bool()>& happened) {
  while (!happened()) loop.poll();
}

TEST(Deadlines, EndInTheOrderOfTheirBeginnings) {
  EventLoop loop;
  Deadlines deadlines(loop, 1ms);
  std::vector<const Waiting*> expired;
  Waiting first(expired), second(expired), third(expired);
  deadlines.start(second, note);
  deadlines.start(first, note);
  deadlines.start(third, note);
  EXPECT_TRUE(third.runs());
  third.stop();
  run_until(loop, [&] { return expired.size() == 2; });
  EXPECT_EQ(expired, (std::vector<const Waiting*>{&second, &first}));
  EXPECT_FALSE(first.runs());
}

TEST(Deadlines, AreOneOfAPlace) {
  EventLoop loop;
  Deadlines soon(loop, 1ms);
  Deadlines later(loop, 1h);
  std::vector<const Waiting*> expired;
  Waiting waiting(expired);
  soon.start(waiting, note);
  later.start(waiting, note);
  bool over = false;
  Timer timer(loop);
  timer.start(20ms, [&] { over = true; });
  run_until(loop, [&] { return over; });
  EXPECT_TRUE(expired.empty());
  EXPECT_TRUE(waiting.runs());
}

TEST(Deadlines, MayBeginAnewWhenTheyEnd) {
  EventLoop loop;
  static Deadlines* again;
  Deadlines deadlines(loop, 1ms);
  again = &deadlines;
  std::vector<const Waiting*> expired;
  Waiting waiting(expired);
  deadlines.start(waiting, [](Deadlines::Place& place) {
    note(place);
    again->start(place, note);
  });
  run_until(loop, [&] { return expired.size() == 2; });
  EXPECT_EQ(expired.size(), 2U);
}

}  // namespace deadlines_test
}  // namespace idproxy::net
