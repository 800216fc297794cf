#include "deadlines.hpp"

#include <gtest/gtest.h>

#include <chrono>
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

TEST(Deadlines, EndInTheOrderOfTheirBeginnings) {
  asio::io_context io;
  Deadlines deadlines(io, 1ms);
  std::vector<const Waiting*> expired;
  Waiting first(expired), second(expired), third(expired);
  deadlines.start(second, note);
  deadlines.start(first, note);
  deadlines.start(third, note);
  EXPECT_TRUE(third.runs());
  third.stop();
  io.run();
  EXPECT_EQ(expired, (std::vector<const Waiting*>{&second, &first}));
  EXPECT_FALSE(first.runs());
}

TEST(Deadlines, AreOneOfAPlace) {
  asio::io_context io;
  Deadlines soon(io, 1ms);
  Deadlines later(io, 1h);
  std::vector<const Waiting*> expired;
  Waiting waiting(expired);
  soon.start(waiting, note);
  later.start(waiting, note);
  io.run_for(20ms);
  EXPECT_TRUE(expired.empty());
  EXPECT_TRUE(waiting.runs());
}

TEST(Deadlines, MayBeginAnewWhenTheyEnd) {
  asio::io_context io;
  static Deadlines* again;
  Deadlines deadlines(io, 1ms);
  again = &deadlines;
  std::vector<const Waiting*> expired;
  Waiting waiting(expired);
  deadlines.start(waiting, [](Deadlines::Place& place) {
    note(place);
    again->start(place, note);
  });
  io.run();
  EXPECT_EQ(expired.size(), 2U);
}

}  // namespace deadlines_test
}  // namespace idproxy::net
