#include "idproxy/ids/gapless_queue.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "support/fake_clock.hpp"

namespace idproxy::ids {
namespace gapless_queue_test {

using namespace std::chrono_literals;
using Time = GaplessQueue::Time;

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

/// A sequence in a script: each function is an event and returns what it led to, as
/// "3: 7 to 9; 4: unavailable (why); wake".
class SequenceScript {
 public:
  explicit SequenceScript(const GaplessSpec& spec)
      : queue(
            std::make_shared<GaplessQueue>(spec, clock, [this] { woken_ = true; }, transactions_)) {
    transactions_->note("of another", {}, clock.monotonic());
  }

  std::string ask(std::uint64_t write, std::uint64_t n, GaplessRead how = GaplessRead::sure,
                  const std::string& transaction = {}) {
    waiting_.erase(write);
    const std::uint64_t ticket = ticket_of(write);
    auto waiter = std::make_unique<Written>(*this, write);
    waiting_.emplace(write, queue->ask(ticket, n, how, transaction, std::move(waiter)));
    return events();
  }
  /// Of a transaction that has used numbers of another sequence, which each write needs, too.
  std::string hurry(std::uint64_t write, std::uint64_t n) {
    return ask(write, n, GaplessRead::sure, "of another");
  }
  [[nodiscard]] std::optional<Result<Range>> take_ahead(std::uint64_t n) {
    return queue->take(ticket_of(99), n, "of another");
  }
  void cancel(std::uint64_t write) { waiting_.erase(write); }
  std::string stored(std::uint64_t write, std::int64_t last) {
    queue->stored(ticket_of(write), last);
    return events();
  }
  std::string leave(std::uint64_t write) {
    queue->leave(ticket_of(write));
    return events();
  }
  std::string unknown(std::uint64_t write) {
    queue->unknown(ticket_of(write));
    return events();
  }
  /// The end of a transaction that may have stored numbers.
  std::string forget() {
    queue->note({.transaction = "its own"}, 1);
    queue->transaction_ended("its own", false);
    return events();
  }
  std::string committed(std::int64_t last) {
    queue->note({.transaction = "committed"}, last);
    queue->transaction_ended("committed", true);
    return events();
  }
  std::string begin() {
    const auto job = queue->begin();
    if (!job) return "nothing";
    if (job->kind == GaplessJob::Kind::keep) return "keep " + std::to_string(job->floor);
    return job->how == GaplessRead::sure ? "read" : "quick read";
  }
  std::string found(std::optional<std::int64_t> most) {
    queue->finish(most);
    return events();
  }
  std::string finish(const GaplessReply& reply) {
    queue->finish(reply);
    return events();
  }
  std::string announce() {
    queue->announce();
    return events();
  }
  std::string stop() {
    queue->stop();
    return events();
  }
  /// A look that finds `most`.
  void look(std::optional<std::int64_t> most) {
    EXPECT_EQ(begin(), "read");
    EXPECT_EQ(found(most), "");
  }
  /// From the start.
  [[nodiscard]] std::optional<Time> due() const {
    const auto due = queue->due();
    return due ? std::optional(*due - begun_) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::int64_t> next() const { return queue->statistics().next; }
  std::string events() {
    std::string text = std::exchange(text_, {});
    if (std::exchange(woken_, false)) text += text.empty() ? "wake" : "; wake";
    return text;
  }

  test::FakeClock clock;

 private:
  class Written final : public Waiter {
   public:
    Written(SequenceScript& script, std::uint64_t write) : script_(script), write_(write) {}
    void answered(Result<Grant> grant) override {
      std::string& text = script_.text_;
      text += (text.empty() ? "" : "; ") + std::to_string(write_) + ": ";
      if (grant) {
        const Range numbers = grant->take().at(0);
        text += std::to_string(numbers.first) + " to " +
                std::to_string(numbers.first + (static_cast<std::int64_t>(numbers.count) - 1));
      } else {
        const bool is_transient = grant.error().code == Errc::unavailable;
        text += (is_transient ? "unavailable (" : "exhausted (") + grant.error().reason + ")";
      }
    }

   private:
    SequenceScript& script_;
    const std::uint64_t write_;
  };

  std::uint64_t ticket_of(std::uint64_t write) {
    std::uint64_t& ticket = tickets_[write];
    if (ticket == 0) ticket = queue->enter(TurnTaker::Takes::several);
    return ticket;
  }

  const Time begun_ = clock.monotonic();
  const std::shared_ptr<TransactionSequences> transactions_ =
      std::make_shared<TransactionSequences>();
  std::map<std::uint64_t, std::uint64_t> tickets_;  // by write
  std::map<std::uint64_t, Ticket> waiting_;         // by write
  std::string text_;
  bool woken_ = false;

 public:
  std::shared_ptr<GaplessQueue> queue;  // ends before waiting_, which then has nothing to leave
};

TEST(GaplessQueue, LooksBeforeTheFirstNumber) {
  SequenceScript script(sequence_spec(10));
  EXPECT_EQ(script.ask(1, 2), "wake");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.ask(3, 1), "");
  EXPECT_EQ(script.found(std::nullopt), "1: 10 to 11");
  EXPECT_EQ(script.stored(1, 11), "2: 12 to 12");
  EXPECT_EQ(script.stored(2, 12), "3: 13 to 13");
  EXPECT_EQ(script.stored(3, 13), "");
  EXPECT_EQ(script.ask(4, 1), "4: 14 to 14");
}

TEST(GaplessQueue, NamesTheClientWhoseTransactionHasTheNextNumber) {
  SequenceScript script(sequence_spec());
  const auto holder = [&](const std::string& asking) {
    const auto found = script.queue->held_by(asking);
    EXPECT_EQ(script.queue->is_held(asking), found != nullptr);
    return found ? std::to_string(found->connection) + " " + found->application : "nobody";
  };
  EXPECT_EQ(holder(""), "nobody");
  script.queue->note({.transaction = "a", .connection = 12, .application = "job"}, 1);
  script.clock.advance(std::chrono::seconds(5));
  script.queue->note({.transaction = "b", .connection = 7, .application = "shop"}, 1);
  EXPECT_EQ(holder(""), "12 job") << "the first";
  EXPECT_EQ(script.clock.monotonic() - script.queue->held_by("")->since, std::chrono::seconds(5));
  EXPECT_EQ(holder("a"), "nobody") << "it has the number itself";
  script.queue->transaction_ended("a", false);
  EXPECT_EQ(holder(""), "7 shop");
  script.clock.advance(std::chrono::seconds(60));
  EXPECT_EQ(holder(""), "nobody") << "the server has ended it";
}

TEST(GaplessQueue, BeginsBehindWhatIsStored) {
  for (const auto& [start, most, next] :
       {std::tuple(1, 41, 42), std::tuple(100, 41, 100), std::tuple(-5, -7, -5)}) {
    SequenceScript script(sequence_spec(start));
    EXPECT_EQ(script.ask(1, 1), "wake");
    EXPECT_EQ(script.begin(), "read");
    EXPECT_EQ(script.found(most), "1: " + std::to_string(next) + " to " + std::to_string(next));
  }
}

TEST(GaplessQueue, GivesUnusedNumbersToTheNext) {
  SequenceScript script(sequence_spec());
  script.announce();
  script.look(4);
  EXPECT_EQ(script.ask(1, 3), "1: 5 to 7");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.stored(1, 5), "2: 6 to 6");
  EXPECT_EQ(script.ask(3, 2), "");
  EXPECT_EQ(script.leave(2), "3: 6 to 7");
}

TEST(GaplessQueue, LooksAgainWhenTheFateOfNumbersIsUnknown) {
  SequenceScript script(sequence_spec());
  script.announce();
  script.look(4);
  EXPECT_EQ(script.ask(1, 3), "1: 5 to 7");
  EXPECT_EQ(script.unknown(1), "");
  EXPECT_EQ(script.begin(), "nothing") << "nobody waits";
  EXPECT_EQ(script.ask(2, 1), "wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.found(6), "2: 7 to 7");
}

TEST(GaplessQueue, GivesTheHolderOtherNumbersFirst) {
  SequenceScript script(sequence_spec());
  script.announce();
  script.look(4);
  EXPECT_EQ(script.ask(1, 3), "1: 5 to 7");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.ask(1, 2, GaplessRead::quick), "wake");
  EXPECT_EQ(script.begin(), "quick read");
  EXPECT_EQ(script.found(8), "1: 9 to 10");
  EXPECT_EQ(script.stored(1, 10), "2: 11 to 11");
}

/// It may have seen what a failover undoes, and the next write may go to another server.
TEST(GaplessQueue, UsesAQuickLookForItsOwnTurnOnly) {
  {
    SequenceScript script(sequence_spec());
    script.announce();
    script.look(4);
    EXPECT_EQ(script.ask(1, 1), "1: 5 to 5");
    EXPECT_EQ(script.ask(1, 1, GaplessRead::quick), "wake");
    EXPECT_EQ(script.begin(), "quick read");
    EXPECT_EQ(script.found(8), "1: 9 to 9");
    EXPECT_EQ(script.ask(2, 1), "");
    EXPECT_EQ(script.leave(1), "wake") << "nothing was stored";
    EXPECT_EQ(script.begin(), "read");
  }
  {
    SequenceScript script(sequence_spec());
    script.announce();
    script.look(4);
    EXPECT_EQ(script.ask(1, 1), "1: 5 to 5");
    EXPECT_EQ(script.ask(2, 1), "");
    EXPECT_EQ(script.ask(1, 1, GaplessRead::quick), "wake");
    EXPECT_EQ(script.begin(), "quick read");
    EXPECT_EQ(script.unknown(1), "") << "the client has gone meanwhile";
    EXPECT_EQ(script.found(8), "wake");
    EXPECT_EQ(script.begin(), "read");
    EXPECT_EQ(script.found(7), "2: 8 to 8");
  }
}

TEST(GaplessQueue, PassesOverThoseWhoHaveLeft) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.ask(3, 1), "");
  EXPECT_EQ(script.queue->statistics().waiting, 3U);
  script.cancel(1);
  EXPECT_EQ(script.leave(2), "");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.found(0), "3: 1 to 1");
  EXPECT_EQ(script.stored(1, 77), "") << "it has no turn";
  EXPECT_EQ(script.stored(3, 1), "");
  EXPECT_EQ(script.next(), 2);
}

TEST(GaplessQueue, RefusesWhenTheStoreFails) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.finish(Error{Errc::unavailable, "down"}),
            "1: unavailable (down); 2: unavailable (down)");
  EXPECT_EQ(script.ask(3, 1), "3: unavailable (down)") << "without asking again";
  script.clock.advance(GaplessQueue::kFailureLasts);
  EXPECT_EQ(script.ask(4, 1), "wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.finish(Error{Errc::exhausted, "no index"}), "4: exhausted (no index)");
  script.clock.advance(GaplessQueue::kFailureLasts);
  EXPECT_EQ(script.ask(5, 1), "wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.found(0), "5: 1 to 1");
  EXPECT_FALSE(script.queue->statistics().failure);
}

/// A holder that finds no other numbers still ends its turn.
TEST(GaplessQueue, GoesOnAfterAHolderWasRefused) {
  SequenceScript script(sequence_spec());
  script.announce();
  script.look(4);
  EXPECT_EQ(script.ask(1, 1), "1: 5 to 5");
  EXPECT_EQ(script.ask(1, 1, GaplessRead::quick), "wake");
  EXPECT_EQ(script.begin(), "quick read");
  EXPECT_EQ(script.finish(Error{Errc::unavailable, "down"}), "1: unavailable (down)");
  EXPECT_EQ(script.unknown(1), "");
  script.clock.advance(GaplessQueue::kFailureLasts);
  EXPECT_EQ(script.ask(2, 1), "wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.found(5), "2: 6 to 6");
}

TEST(GaplessQueue, EndsAtTheLargestNumber) {
  SequenceScript script(sequence_spec(1, false, 10));
  script.announce();
  script.look(8);
  EXPECT_EQ(script.ask(1, 3).substr(0, 12), "1: exhausted");
  EXPECT_EQ(script.ask(2, 2), "2: 9 to 10");
  EXPECT_EQ(script.stored(2, 10), "");
  EXPECT_EQ(script.ask(3, 1).substr(0, 12), "3: exhausted");
  EXPECT_EQ(script.next(), std::nullopt);

  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  SequenceScript last(sequence_spec(kMax));
  EXPECT_EQ(last.ask(1, 1), "wake");
  EXPECT_EQ(last.begin(), "read");
  EXPECT_EQ(last.found(std::nullopt).substr(0, 22), "1: 9223372036854775807");
  EXPECT_EQ(last.stored(1, kMax), "");
  EXPECT_EQ(last.ask(2, 1).substr(0, 12), "2: exhausted");
}

TEST(GaplessQueue, KeepsTheFloorNowAndThen) {
  SequenceScript script(sequence_spec(1, true));
  script.announce();
  script.look(4);
  EXPECT_EQ(script.due(), std::nullopt) << "it has given out nothing";
  EXPECT_EQ(script.ask(1, 1), "1: 5 to 5");
  EXPECT_EQ(script.stored(1, 5), "wake");
  EXPECT_EQ(script.begin(), "nothing");
  EXPECT_EQ(script.due(), 1s);
  EXPECT_EQ(script.ask(2, 1), "2: 6 to 6");
  EXPECT_EQ(script.stored(2, 6), "");
  script.clock.advance(1s);
  EXPECT_EQ(script.begin(), "keep 6");
  EXPECT_EQ(script.ask(3, 1), "3: 7 to 7") << "meanwhile";
  EXPECT_EQ(script.finish(Error{Errc::unavailable, "down"}), "");
  EXPECT_EQ(script.due(), 2s);
  EXPECT_EQ(script.stored(3, 7), "");
  EXPECT_EQ(script.ask(4, 1), "4: 8 to 8") << "that a floor is not kept stops nobody";
  script.clock.advance(1s);
  EXPECT_EQ(script.begin(), "keep 7");
  EXPECT_EQ(script.finish(0), "");
  EXPECT_EQ(script.due(), std::nullopt);
  EXPECT_EQ(script.stored(4, 8), "wake");
  script.stop();
  EXPECT_EQ(script.begin(), "keep 8") << "at once";
  EXPECT_EQ(script.finish(0), "");
  EXPECT_EQ(script.begin(), "nothing");
}

TEST(GaplessQueue, KeepsTheFloorOfATransactionThatIsCommitted) {
  SequenceScript script(sequence_spec(1, true));
  script.announce();
  script.look(4);
  EXPECT_EQ(script.ask(1, 1), "1: 5 to 5");
  EXPECT_EQ(script.leave(1), "") << "in a transaction";
  EXPECT_EQ(script.committed(5), "wake");
  EXPECT_EQ(script.ask(2, 1), "wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.found(4), "2: 6 to 6") << "its document is gone";
}

TEST(GaplessQueue, NeverGoesBackBehindItsFloor) {
  for (const bool floor : {true, false}) {
    SequenceScript script(sequence_spec(1, floor));
    script.announce();
    script.look(4);
    EXPECT_EQ(script.ask(1, 3), "1: 5 to 7");
    (void)script.stored(1, 7);
    EXPECT_EQ(script.ask(2, 1), "2: 8 to 8");
    (void)script.unknown(2);
    (void)script.ask(3, 1);
    EXPECT_EQ(script.begin(), "read");
    EXPECT_EQ(script.found(5), floor ? "3: 8 to 8" : "3: 6 to 6") << "6 and 7 were deleted";
  }
}

TEST(GaplessQueue, LooksAgainAfterATransaction) {
  SequenceScript script(sequence_spec());
  script.announce();
  script.look(4);
  script.forget();
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.found(9), "1: 10 to 10");
  script.forget();
  EXPECT_EQ(script.stored(1, 10), "") << "who has the turn knows better";
  EXPECT_EQ(script.next(), 11);
}

TEST(GaplessQueue, LooksAheadUntilItSucceeds) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.announce(), "wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.finish(Error{Errc::exhausted, "no index"}), "");
  EXPECT_EQ(script.due(), GaplessQueue::kReadAgain);
  EXPECT_EQ(script.begin(), "nothing");
  script.clock.advance(GaplessQueue::kReadAgain);
  script.look(3);
  EXPECT_EQ(script.due(), std::nullopt);
  EXPECT_EQ(script.next(), 4);
}

TEST(GaplessQueue, RefusesAtTheEnd) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(script.stop(), "1: unavailable (the proxy ends)");
  EXPECT_EQ(script.ask(2, 1), "2: unavailable (the proxy ends)");
  EXPECT_EQ(script.begin(), "nothing");
}

TEST(GaplessQueue, HasRoomForSoMany) {
  SequenceScript script(sequence_spec());
  for (std::uint64_t i = 1; i <= GaplessQueue::kMostWaiting; ++i) (void)script.ask(i, 1);
  EXPECT_EQ(script.ask(100'000, 1), "100000: unavailable (too many writes wait)");
}

// ---- writes in a hurry --------------------------------------------------------------------------

TEST(GaplessQueue, PutsWritesInAHurryInFront) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.ask(2, 1), "");
  EXPECT_EQ(script.hurry(3, 1), "");
  EXPECT_EQ(script.hurry(4, 1), "");
  EXPECT_EQ(script.found({}), "3: 1 to 1");
  EXPECT_EQ(script.stored(3, 1), "4: 2 to 2");
  EXPECT_EQ(script.stored(4, 2), "1: 3 to 3");
}

/// The turn stays where it is, and so do its numbers.
TEST(GaplessQueue, LetsAWriteGoAheadOfTheTurn) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 3), "wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.found(4), "1: 5 to 7");
  const auto ahead = script.take_ahead(2);
  ASSERT_TRUE(ahead && *ahead);
  EXPECT_EQ((*ahead)->first, 5);
  EXPECT_EQ(script.hurry(2, 1), "2: 5 to 5");
  EXPECT_EQ(script.leave(2), "");
  EXPECT_EQ(script.stored(1, 6), "");
  EXPECT_EQ(script.next(), 7);
}

/// What a quick reading has seen counts only for the write that goes to the same server.
TEST(GaplessQueue, LooksForAWriteThatGoesAhead) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  script.begin();
  EXPECT_EQ(script.found(4), "1: 5 to 5");
  EXPECT_EQ(script.ask(1, 1, GaplessRead::quick), "wake");
  EXPECT_EQ(script.hurry(2, 1), "");
  EXPECT_EQ(script.begin(), "quick read");
  EXPECT_EQ(script.found(7), "1: 8 to 8; wake");
  EXPECT_FALSE(script.take_ahead(1));
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.found(8), "2: 9 to 9");
  EXPECT_EQ(script.leave(1), "");
  EXPECT_EQ(script.next(), 9);
}

TEST(GaplessQueue, PrefersWhatATurnHasStoredToAnOlderLook) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  script.begin();
  EXPECT_EQ(script.found(4), "1: 5 to 5");
  EXPECT_EQ(script.ask(1, 1, GaplessRead::quick), "wake");
  EXPECT_EQ(script.begin(), "quick read");
  EXPECT_EQ(script.hurry(2, 1), "");
  EXPECT_EQ(script.found(5), "1: 6 to 6; wake");
  EXPECT_EQ(script.begin(), "read");
  EXPECT_EQ(script.stored(1, 6), "2: 7 to 7");
  EXPECT_EQ(script.found(5), "");
  EXPECT_EQ(script.leave(2), "");
  EXPECT_EQ(script.next(), 7);
}

// ---- the index ----------------------------------------------------------------------------------

/// Writes come only once there is one.
TEST(GaplessQueue, LooksAgainForAnIndexWithEachWrite) {
  SequenceScript script(sequence_spec());
  EXPECT_EQ(script.ask(1, 1), "wake");
  script.begin();
  EXPECT_EQ(script.finish(Error{Errc::unguarded, "no index"}), "1: exhausted (no index)");
  EXPECT_EQ(script.queue->statistics().failure->code, Errc::unguarded);
  EXPECT_EQ(script.ask(2, 1), "wake");
  script.begin();
  EXPECT_EQ(script.found({}), "2: 1 to 1");
  EXPECT_NE(script.queue->statistics().failure.value_or(Error()).code, Errc::unguarded);
}

// ---- the end of its use -------------------------------------------------------------------------

TEST(GaplessQueue, KeepsItsFloorBeforeItIsForgotten) {
  SequenceScript script(sequence_spec(1, true));
  EXPECT_EQ(script.ask(1, 1), "wake");
  script.begin();
  EXPECT_EQ(script.found(4), "1: 5 to 5");
  EXPECT_EQ(script.stored(1, 5), "wake");
  EXPECT_EQ(script.begin(), "nothing") << "it is not due yet";
  EXPECT_FALSE(script.queue->idle());
  script.queue->let_go();
  EXPECT_EQ(script.events(), "wake");
  EXPECT_EQ(script.begin(), "keep 5");
  EXPECT_EQ(script.finish(0), "");
  EXPECT_TRUE(script.queue->idle());
}

}  // namespace gapless_queue_test
}  // namespace idproxy::ids
