#include "idproxy/ids/gapless_sequence.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace idproxy::ids {
namespace gapless_sequence_test {

using namespace std::chrono_literals;
using ReplyKind = GaplessReply::Kind;
using Time = GaplessSequence::Time;

GaplessSpec sequence_spec(std::int64_t start = 1, bool floor = false,
                          std::int64_t max = std::numeric_limits<std::int64_t>::max()) {
  GaplessSpec spec;
  spec.field.ns = "shop.orders";
  spec.field.field = "number";
  spec.start = start;
  spec.max = max;
  spec.floor = floor;
  return spec;
}

/// "3: 7 to 9; 4: unavailable (why); wake"
std::string text_of(const GaplessSequence::Action& action) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (const auto& [ticket, numbers] : action.answers) {
    if (numbers) {
      add(std::to_string(ticket) + ": " + std::to_string(numbers->first) + " to " +
          std::to_string(numbers->first + (static_cast<std::int64_t>(numbers->count) - 1)));
    } else {
      const bool passes = numbers.error().code == Errc::unavailable;
      add(std::to_string(ticket) + (passes ? ": unavailable (" : ": exhausted (") +
          numbers.error().reason + ")");
    }
  }
  if (action.wake) add("wake");
  return text;
}

/// A sequence in a script: each function is an event and returns what it led to.
class SequenceScript {
 public:
  explicit SequenceScript(const GaplessSpec& spec) : sequence(spec) {}

  using Haste = GaplessSequence::Haste;
  std::string ask(std::uint64_t ticket, std::uint64_t n, GaplessLook look = GaplessLook::sure,
                  Haste haste = Haste::none) {
    return text_of(sequence.ask(ticket, n, look, now, haste));
  }
  std::string hurry(std::uint64_t ticket, std::uint64_t n, Haste haste = Haste::ahead) {
    return ask(ticket, n, GaplessLook::sure, haste);
  }
  std::string stored(std::uint64_t ticket, std::int64_t last) {
    return text_of(sequence.stored(ticket, last, now));
  }
  std::string leave(std::uint64_t ticket) { return text_of(sequence.leave(ticket)); }
  std::string unknown(std::uint64_t ticket) { return text_of(sequence.unknown(ticket)); }
  std::string begin() {
    const auto job = sequence.begin(now);
    if (!job) return "nothing";
    if (job->kind == GaplessJob::Kind::keep) return "keep " + std::to_string(job->floor);
    return job->look == GaplessLook::sure ? "look" : "quick look";
  }
  std::string found(std::optional<std::int64_t> most) {
    return text_of(sequence.finish({ReplyKind::found, most, {}}, now));
  }
  std::string finish(ReplyKind kind, const std::string& reason = {}) {
    return text_of(sequence.finish({kind, {}, reason}, now));
  }
  /// A look that finds `most`.
  void look(std::optional<std::int64_t> most) {
    EXPECT_EQ(begin(), "look");
    EXPECT_EQ(found(most), "");
  }

  GaplessSequence sequence;
  Time now{};
};

TEST(GaplessSequence, LooksBeforeTheFirstNumber) {
  SequenceScript script(sequence_spec(10));
  EXPECT_EQ(script.ask(1, 2), "wake");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.ask(3, 1), "");
  EXPECT_EQ(script.found(std::nullopt), "1: 10 to 11");
  EXPECT_EQ(script.stored(1, 11), "2: 12 to 12");
  EXPECT_EQ(script.stored(2, 12), "3: 13 to 13");
  EXPECT_EQ(script.stored(3, 13), "");
  EXPECT_EQ(script.ask(4, 1), "4: 14 to 14");
}

TEST(GaplessSequence, BeginsBehindWhatIsStored) {
  for (const auto& [start, most, next] :
       {std::tuple(1, 41, 42), std::tuple(100, 41, 100), std::tuple(-5, -7, -5)}) {
    SequenceScript script(sequence_spec(start));
    EXPECT_EQ(script.ask(1, 1), "wake");
    EXPECT_EQ(script.begin(), "look");
    EXPECT_EQ(script.found(most), "1: " + std::to_string(next) + " to " + std::to_string(next));
  }
}

TEST(GaplessSequence, GivesUnusedNumbersToTheNext) {
  SequenceScript script(sequence_spec());
  (void)script.sequence.announce();
  script.look(4);
  EXPECT_EQ(script.ask(1, 3), "1: 5 to 7");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.stored(1, 5), "2: 6 to 6");
  EXPECT_EQ(script.ask(3, 2), "");
  EXPECT_EQ(script.leave(2), "3: 6 to 7");
}

TEST(GaplessSequence, LooksAgainWhenTheFateOfNumbersIsUnknown) {
  SequenceScript script(sequence_spec());
  (void)script.sequence.announce();
  script.look(4);
  EXPECT_EQ(script.ask(1, 3), "1: 5 to 7");
  EXPECT_EQ(script.unknown(1), "");
  EXPECT_EQ(script.begin(), "nothing") << "nobody waits";
  EXPECT_EQ(script.ask(2, 1), "wake");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.found(6), "2: 7 to 7");
}

TEST(GaplessSequence, GivesTheHolderOtherNumbersFirst) {
  SequenceScript script(sequence_spec());
  (void)script.sequence.announce();
  script.look(4);
  EXPECT_EQ(script.ask(1, 3), "1: 5 to 7");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.ask(1, 2, GaplessLook::quick), "wake");
  EXPECT_EQ(script.begin(), "quick look");
  EXPECT_EQ(script.found(8), "1: 9 to 10");
  EXPECT_EQ(script.stored(1, 10), "2: 11 to 11");
}

/// It may have seen what a failover undoes, and the next write may go to another server.
TEST(GaplessSequence, UsesAQuickLookForItsOwnTurnOnly) {
  {
    SequenceScript script(sequence_spec());
    (void)script.sequence.announce();
    script.look(4);
    EXPECT_EQ(script.ask(1, 1), "1: 5 to 5");
    EXPECT_EQ(script.ask(1, 1, GaplessLook::quick), "wake");
    EXPECT_EQ(script.begin(), "quick look");
    EXPECT_EQ(script.found(8), "1: 9 to 9");
    EXPECT_EQ(script.ask(2, 1), "");
    EXPECT_EQ(script.leave(1), "wake") << "nothing was stored";
    EXPECT_EQ(script.begin(), "look");
  }
  {
    SequenceScript script(sequence_spec());
    (void)script.sequence.announce();
    script.look(4);
    EXPECT_EQ(script.ask(1, 1), "1: 5 to 5");
    EXPECT_EQ(script.ask(2, 1), "");
    EXPECT_EQ(script.ask(1, 1, GaplessLook::quick), "wake");
    EXPECT_EQ(script.begin(), "quick look");
    EXPECT_EQ(script.unknown(1), "") << "the client has gone meanwhile";
    EXPECT_EQ(script.found(8), "wake");
    EXPECT_EQ(script.begin(), "look");
    EXPECT_EQ(script.found(7), "2: 8 to 8");
  }
}

TEST(GaplessSequence, PassesOverThoseWhoHaveLeft) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.ask(3, 1), "");
  EXPECT_EQ(script.sequence.waiting(), 3U);
  script.sequence.cancel(1);
  EXPECT_EQ(script.leave(2), "");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.found(0), "3: 1 to 1");
  EXPECT_EQ(script.stored(1, 77), "") << "it has no turn";
  EXPECT_EQ(script.stored(3, 1), "");
  EXPECT_EQ(script.sequence.next(), 2);
}

TEST(GaplessSequence, RefusesWhenTheStoreFails) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.finish(ReplyKind::failed, "down"),
            "1: unavailable (down); 2: unavailable (down)");
  EXPECT_EQ(script.ask(3, 1), "3: unavailable (down)") << "without asking again";
  script.now += GaplessSequence::kFailureLasts;
  EXPECT_EQ(script.ask(4, 1), "wake");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.finish(ReplyKind::refused, "no index"), "4: exhausted (no index)");
  script.now += GaplessSequence::kFailureLasts;
  EXPECT_EQ(script.ask(5, 1), "wake");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.found(0), "5: 1 to 1");
  EXPECT_EQ(script.sequence.failure(), nullptr);
}

/// A holder that finds no other numbers still ends its turn.
TEST(GaplessSequence, GoesOnAfterAHolderWasRefused) {
  SequenceScript script(sequence_spec());
  (void)script.sequence.announce();
  script.look(4);
  EXPECT_EQ(script.ask(1, 1), "1: 5 to 5");
  EXPECT_EQ(script.ask(1, 1, GaplessLook::quick), "wake");
  EXPECT_EQ(script.begin(), "quick look");
  EXPECT_EQ(script.finish(ReplyKind::failed, "down"), "1: unavailable (down)");
  EXPECT_EQ(script.unknown(1), "");
  script.now += GaplessSequence::kFailureLasts;
  EXPECT_EQ(script.ask(2, 1), "wake");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.found(5), "2: 6 to 6");
}

TEST(GaplessSequence, EndsAtTheLargestNumber) {
  SequenceScript script(sequence_spec(1, false, 10));
  (void)script.sequence.announce();
  script.look(8);
  EXPECT_EQ(script.ask(1, 3).substr(0, 12), "1: exhausted");
  EXPECT_EQ(script.ask(2, 2), "2: 9 to 10");
  EXPECT_EQ(script.stored(2, 10), "");
  EXPECT_EQ(script.ask(3, 1).substr(0, 12), "3: exhausted");
  EXPECT_EQ(script.sequence.next(), std::nullopt);

  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  SequenceScript last(sequence_spec(kMax));
  EXPECT_EQ(last.ask(1, 1), "wake");
  EXPECT_EQ(last.begin(), "look");
  EXPECT_EQ(last.found(std::nullopt).substr(0, 22), "1: 9223372036854775807");
  EXPECT_EQ(last.stored(1, kMax), "");
  EXPECT_EQ(last.ask(2, 1).substr(0, 12), "2: exhausted");
}

TEST(GaplessSequence, KeepsTheFloorNowAndThen) {
  SequenceScript script(sequence_spec(1, true));
  (void)script.sequence.announce();
  script.look(4);
  EXPECT_EQ(script.sequence.due(), std::nullopt) << "it has given out nothing";
  EXPECT_EQ(script.ask(1, 1), "1: 5 to 5");
  EXPECT_EQ(script.stored(1, 5), "wake");
  EXPECT_EQ(script.begin(), "nothing");
  EXPECT_EQ(script.sequence.due(), 1s);
  EXPECT_EQ(script.ask(2, 1), "2: 6 to 6");
  EXPECT_EQ(script.stored(2, 6), "");
  script.now = 1s;
  EXPECT_EQ(script.begin(), "keep 6");
  EXPECT_EQ(script.ask(3, 1), "3: 7 to 7") << "meanwhile";
  EXPECT_EQ(script.finish(ReplyKind::failed, "down"), "");
  EXPECT_EQ(script.sequence.due(), 2s);
  EXPECT_EQ(script.stored(3, 7), "");
  EXPECT_EQ(script.ask(4, 1), "4: 8 to 8") << "that a floor is not kept stops nobody";
  script.now = 2s;
  EXPECT_EQ(script.begin(), "keep 7");
  EXPECT_EQ(script.finish(ReplyKind::kept), "");
  EXPECT_EQ(script.sequence.due(), std::nullopt);
  EXPECT_EQ(script.stored(4, 8), "wake");
  (void)script.sequence.stop();
  EXPECT_EQ(script.begin(), "keep 8") << "at once";
  EXPECT_EQ(script.finish(ReplyKind::kept), "");
  EXPECT_EQ(script.begin(), "nothing");
}

TEST(GaplessSequence, NeverGoesBackBehindItsFloor) {
  for (const bool floor : {true, false}) {
    SequenceScript script(sequence_spec(1, floor));
    (void)script.sequence.announce();
    script.look(4);
    EXPECT_EQ(script.ask(1, 3), "1: 5 to 7");
    (void)script.stored(1, 7);
    EXPECT_EQ(script.ask(2, 1), "2: 8 to 8");
    (void)script.unknown(2);
    (void)script.ask(3, 1);
    EXPECT_EQ(script.begin(), "look");
    EXPECT_EQ(script.found(5), floor ? "3: 8 to 8" : "3: 6 to 6") << "6 and 7 were deleted";
  }
}

TEST(GaplessSequence, LooksAgainAfterATransaction) {
  SequenceScript script(sequence_spec());
  (void)script.sequence.announce();
  script.look(4);
  (void)script.sequence.forget();
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.found(9), "1: 10 to 10");
  (void)script.sequence.forget();
  EXPECT_EQ(script.stored(1, 10), "") << "who has the turn knows better";
  EXPECT_EQ(script.sequence.next(), 11);
}

TEST(GaplessSequence, LooksAheadUntilItSucceeds) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(text_of(script.sequence.announce()), "wake");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.finish(ReplyKind::refused, "no index"), "");
  EXPECT_EQ(script.sequence.due(), GaplessSequence::kLookAgain);
  EXPECT_EQ(script.begin(), "nothing");
  script.now += GaplessSequence::kLookAgain;
  script.look(3);
  EXPECT_EQ(script.sequence.due(), std::nullopt);
  EXPECT_EQ(script.sequence.next(), 4);
}

TEST(GaplessSequence, RefusesAtTheEnd) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(text_of(script.sequence.stop()), "1: unavailable (the proxy ends)");
  EXPECT_EQ(script.ask(2, 1), "2: unavailable (the proxy ends)");
  EXPECT_EQ(script.begin(), "nothing");
}

TEST(GaplessSequence, HasRoomForSoMany) {
  SequenceScript script(sequence_spec());
  for (std::uint64_t i = 1; i <= GaplessSequence::kMostWaiting; ++i) (void)script.ask(i, 1);
  EXPECT_EQ(script.ask(100'000, 1), "100000: unavailable (too many writes wait)");
}

// ---- writes in a hurry --------------------------------------------------------------------------

using Haste = GaplessSequence::Haste;

TEST(GaplessSequence, PutsWritesInAHurryInFront) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.hurry(3, 1, Haste::first), "");
  EXPECT_EQ(script.hurry(4, 1, Haste::first), "");
  EXPECT_EQ(script.found({}), "3: 1 to 1");
  EXPECT_EQ(script.stored(3, 1), "4: 2 to 2");
  EXPECT_EQ(script.stored(4, 2), "1: 3 to 3");
}

/// The turn stays where it is, and so do its numbers.
TEST(GaplessSequence, LetsAWriteGoAheadOfTheTurn) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 3), "wake");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.found(4), "1: 5 to 7");
  const auto ahead = script.sequence.take_ahead(2, script.now);
  ASSERT_TRUE(ahead && *ahead);
  EXPECT_EQ((*ahead)->first, 5);
  EXPECT_EQ(script.hurry(2, 1), "2: 5 to 5");
  EXPECT_TRUE(script.sequence.has_turn(1));
  EXPECT_EQ(script.leave(2), "");
  EXPECT_EQ(script.stored(1, 6), "");
  EXPECT_EQ(script.sequence.next(), 7);
}

/// What a quick look has seen counts only for the write that goes to the same server.
TEST(GaplessSequence, LooksForAWriteThatGoesAhead) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  script.begin();
  EXPECT_EQ(script.found(4), "1: 5 to 5");
  EXPECT_EQ(script.ask(1, 1, GaplessLook::quick), "wake");
  EXPECT_EQ(script.hurry(2, 1), "");
  EXPECT_EQ(script.begin(), "quick look");
  EXPECT_EQ(script.found(7), "1: 8 to 8; wake");
  EXPECT_FALSE(script.sequence.take_ahead(1, script.now));
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.found(8), "2: 9 to 9");
  EXPECT_EQ(script.leave(1), "");
  EXPECT_EQ(script.sequence.next(), 9);
}

TEST(GaplessSequence, PrefersWhatATurnHasStoredToAnOlderLook) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  script.begin();
  EXPECT_EQ(script.found(4), "1: 5 to 5");
  EXPECT_EQ(script.ask(1, 1, GaplessLook::quick), "wake");
  EXPECT_EQ(script.begin(), "quick look");
  EXPECT_EQ(script.hurry(2, 1), "");
  EXPECT_EQ(script.found(5), "1: 6 to 6; wake");
  EXPECT_EQ(script.begin(), "look");
  EXPECT_EQ(script.stored(1, 6), "2: 7 to 7");
  EXPECT_EQ(script.found(5), "");
  EXPECT_EQ(script.leave(2), "");
  EXPECT_EQ(script.sequence.next(), 7);
}

// ---- the index ----------------------------------------------------------------------------------

/// Writes come only once there is one.
TEST(GaplessSequence, LooksAgainForAnIndexWithEachWrite) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  script.begin();
  EXPECT_EQ(script.finish(ReplyKind::unguarded, "no index"), "1: exhausted (no index)");
  EXPECT_TRUE(script.sequence.is_unguarded());
  EXPECT_EQ(script.ask(2, 1), "wake");
  script.begin();
  EXPECT_EQ(script.found({}), "2: 1 to 1");
  EXPECT_FALSE(script.sequence.is_unguarded());
}

// ---- the end of its use -------------------------------------------------------------------------

TEST(GaplessSequence, KeepsItsFloorBeforeItIsForgotten) {
  SequenceScript script(sequence_spec(1, true));
  EXPECT_EQ(script.ask(1, 1), "wake");
  script.begin();
  EXPECT_EQ(script.found(4), "1: 5 to 5");
  EXPECT_EQ(script.stored(1, 5), "wake");
  EXPECT_EQ(script.begin(), "nothing") << "it is not due yet";
  EXPECT_FALSE(script.sequence.idle());
  EXPECT_TRUE(script.sequence.let_go(script.now).wake);
  EXPECT_EQ(script.begin(), "keep 5");
  EXPECT_EQ(script.finish(ReplyKind::kept), "");
  EXPECT_TRUE(script.sequence.idle());
}

}  // namespace gapless_sequence_test
}  // namespace idproxy::ids
