#include "net/direction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/messages.hpp"

namespace idproxy::net {
namespace direction_test {

using namespace test;
using Status = Stream::Received::Status;
using Texts = std::vector<std::string>;

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

/// A stream that the test plays both ends of.
class ScriptedStream {
 public:
  explicit ScriptedStream(bool secure) : secure_(secure) {}

  // What there is to read.
  void sends(std::string_view bytes) { arrived_ += bytes; }
  void ends() { end_ = Status::ended; }
  void breaks() { end_ = Status::broken; }

  // Waits. Each ends once.
  [[nodiscard]] bool is_waited_for() const { return reader_ != nullptr; }
  [[nodiscard]] bool is_waited_to_take() const { return writer_ != nullptr; }
  void wake_reader() { std::exchange(reader_, nullptr)->readable(); }
  void wake_writer() { std::exchange(writer_, nullptr)(); }

  std::size_t takes = kAll;  ///< that many bytes more
  bool write_fails = false;
  bool encrypts = false;  ///< takes all, and has to be flushed of it
  bool flushes = true;
  bool more = false;           ///< reading again is always worth it
  bool has_received_ = false;  ///< a wait would end at once
  std::string taken;
  int writes = 0;
  std::vector<std::size_t> reads;  ///< for how much, each
  const std::uint8_t* read_to = nullptr;

  void when_readable(StreamReader& reader) {
    EXPECT_FALSE(reader_) << "one wait at a time";
    reader_ = &reader;
  }
  void when_writable(std::function<void()> then) {
    EXPECT_FALSE(writer_) << "one wait at a time";
    writer_ = std::move(then);
  }
  [[nodiscard]] bool has_received() const { return has_received_; }
  [[nodiscard]] Stream::Received read(std::span<std::uint8_t> to) {
    reads.push_back(to.size());
    read_to = to.data();
    has_received_ = false;
    if (arrived_.empty()) return {.status = end_, .more = more};
    const std::size_t bytes = std::min(to.size(), arrived_.size());
    std::copy_n(as_bytes(arrived_).begin(), bytes, to.begin());
    arrived_.erase(0, bytes);
    return {.status = Status::some,
            .bytes = bytes,
            .more = more || !arrived_.empty() || end_ != Status::none};
  }
  [[nodiscard]] Stream::Peeked peek() {
    if (!arrived_.empty()) return Stream::Peeked::bytes;
    return end_ == Status::none ? Stream::Peeked::nothing : Stream::Peeked::end;
  }
  [[nodiscard]] bool is_secure() const { return secure_; }
  [[nodiscard]] ssize_t write(Bytes bytes) {
    ++writes;
    if (write_fails) return -1;
    const std::size_t some = std::min(bytes.size(), takes);
    taken += as_text(bytes.first(some));
    takes -= takes == kAll ? 0 : some;
    unsent_ = encrypts;
    return static_cast<ssize_t>(some);
  }
  [[nodiscard]] ssize_t write(std::span<const iovec> slices) {
    ssize_t sum = 0;
    for (const iovec& slice : slices) {
      const ssize_t some =
          write(Bytes(static_cast<const std::uint8_t*>(slice.iov_base), slice.iov_len));
      if (some < 0) return some;
      sum += some;
    }
    return sum;
  }
  [[nodiscard]] Stream::Sent flush() {
    if (write_fails) return Stream::Sent::failed;
    if (!flushes) return Stream::Sent::blocked;
    unsent_ = false;
    return Stream::Sent::all;
  }
  [[nodiscard]] bool unsent() const { return unsent_; }

 private:
  const bool secure_;
  std::string arrived_;
  Status end_ = Status::none;
  bool unsent_ = false;
  StreamReader* reader_ = nullptr;
  std::function<void()> writer_;
};

/// Notes what it is told, and does as the test says.
class ScriptedDirection final : public Direction<ScriptedDirection, ScriptedStream> {
 public:
  ScriptedDirection(ScriptedStream& source, ScriptedStream& sink, BufferPool& pool, bool leaving)
      : Direction(source, sink, pool, leaving) {}

  std::function<std::size_t(ScriptedDirection&, Bytes)> decide = [](ScriptedDirection& direction,
                                                                    Bytes input) {
    direction.write(input);
    return input.size();
  };
  bool holds = false;
  std::size_t most = BufferPool::kReadSize;
  std::string close_in;     ///< the callback that closes the direction
  Texts told;               ///< but for woken() and writing()
  Texts inputs;             ///< of take()
  std::size_t counted = 0;  ///< bytes, by writing()

 private:
  friend Direction;

  bool take(Bytes front) {
    inputs.push_back(text_of(front));
    if (close_in == "take") {
      close();
      consume(front.size());
      return false;
    }
    consume(decide(*this, front));
    if (close_in == "take, at its end") close();
    return false;
  }
  [[nodiscard]] bool holds_up() const { return holds; }
  [[nodiscard]] std::size_t read_size() const { return most; }
  void woken(auto go_on) {
    if (close_in == "woken") return close();
    go_on();
  }
  void heard() { tell("heard"); }
  void received(std::size_t bytes) { tell("received " + std::to_string(bytes)); }
  void writing(std::size_t bytes) { counted += bytes; }
  void source_ended() {
    EXPECT_TRUE(ended());
    tell("source ended");
  }
  void source_broke() { tell("source broke"); }
  void finished() { tell("finished"); }
  void written() {
    tell("written");
    resume();
  }
  void write_failed() { tell("write failed"); }

  void tell(const std::string& what) {
    told.push_back(what);
    if (close_in == what) close();
  }
};

enum class Notices { nothing, leaving };

struct World {
  explicit World(bool secure = false, Notices notices = Notices::leaving)
      : source(secure), sink(secure), direction(source, sink, pool, notices == Notices::leaving) {
    direction.wait_source();
  }

  /// Arrives at the source, whose wait is over.
  void arrives(std::string_view bytes) {
    source.sends(bytes);
    source.wake_reader();
  }
  [[nodiscard]] int waits() const { return source.is_waited_for() + sink.is_waited_to_take(); }
  /// Does not decide before there are this many bytes; then passes all on.
  void needs(std::size_t bytes) {
    direction.decide = [bytes](ScriptedDirection& of, Bytes input) -> std::size_t {
      if (input.size() < bytes) {
        of.need(bytes);
        return 0;
      }
      of.write(input);
      return input.size();
    };
  }

  EventLoop loop;
  TlsScratch scratch;
  BufferPool pool{loop, kAll, std::chrono::milliseconds(1), [] {}};
  ScriptedStream source;
  ScriptedStream sink;
  ScriptedDirection direction;
};

std::string held(const ScriptedDirection& direction) {
  return text_of(direction.held());
}

// ---- what is consumed goes, what is not is kept ------------------------------------------------

TEST(Direction, WritesWhatGoesOnAndWaitsForMore) {
  World world;
  world.arrives("hello");
  EXPECT_EQ(world.direction.told, Texts{"received 5"});
  EXPECT_EQ(world.sink.taken, "hello");
  EXPECT_EQ(held(world.direction), "");
  EXPECT_TRUE(world.source.is_waited_for());
  world.arrives(" world");
  EXPECT_EQ(world.sink.taken, "hello world");
  EXPECT_EQ(world.direction.counted, 11U);
}

TEST(Direction, KeepsWhatIsNotConsumedAndOffersItAgainWithMore) {
  World world;
  world.direction.decide = [](ScriptedDirection& direction, Bytes input) {
    const std::size_t whole = input.size() / 3 * 3;
    if (whole > 0) direction.write(input.first(whole));
    return whole;
  };
  world.arrives("abcde");
  EXPECT_EQ(held(world.direction), "de");
  world.arrives("f");
  EXPECT_EQ(held(world.direction), "");
  world.arrives("g");
  world.arrives("hijkl");
  EXPECT_EQ(world.direction.inputs, (Texts{"abcde", "def", "g", "ghijkl"}));
  EXPECT_EQ(world.sink.taken, "abcdefghijkl");
}

TEST(Direction, AsksAgainOnlyWhenWhatIsNeededIsThere) {
  World world;
  world.needs(10);
  world.arrives("12345");
  world.arrives("6789");
  EXPECT_EQ(world.direction.inputs, Texts{"12345"});
  world.arrives("0");
  EXPECT_EQ(world.direction.inputs, (Texts{"12345", "1234567890"}));
  EXPECT_EQ(world.sink.taken, "1234567890");
}

TEST(Direction, GivesTheMemoryBackOnceNothingIsKept) {
  World world;
  world.needs(10);
  world.arrives("12345");
  EXPECT_EQ(world.pool.spare(), 0U);
  world.arrives("67890");
  EXPECT_GT(world.pool.spare(), 0U);
}

TEST(Direction, LetsTheBufferGoThatIsTheMessage) {
  constexpr std::size_t kLength = 20'000;
  World world;
  Buffer given;
  world.direction.decide = [&given](ScriptedDirection& direction, Bytes input) -> std::size_t {
    if (input.size() < kLength) {
      direction.need(kLength);
      return 0;
    }
    if (Buffer* buffer = direction.buffer_of(input)) given = std::move(*buffer);
    return input.size();
  };
  const std::string message(kLength, 'x');
  world.arrives("xxx");
  EXPECT_EQ(world.direction.buffer_of(world.direction.held().first(2)), nullptr);
  world.arrives(message.substr(3));
  EXPECT_EQ(text_of(given.view()), message);
  EXPECT_EQ(held(world.direction), "");
  world.arrives("xxx");
  EXPECT_EQ(held(world.direction), "xxx") << "in another buffer";
}

TEST(Direction, WaitsForOneOfItsStreams) {
  World world;
  EXPECT_EQ(world.waits(), 1);
  world.sink.takes = 0;
  world.arrives("x");
  EXPECT_EQ(world.waits(), 1) << "for the sink";
  world.direction.close();
  world.sink.wake_writer();
  EXPECT_EQ(world.waits(), 0);
}

// ---- back-pressure -----------------------------------------------------------------------------

TEST(Direction, ReadsNothingWhileTheSinkHasNotTakenEverything) {
  World world;
  world.sink.takes = 2;
  world.source.more = true;
  world.arrives("hello");
  EXPECT_TRUE(world.direction.unsent());
  EXPECT_TRUE(world.direction.blocked());
  EXPECT_FALSE(world.source.is_waited_for());
  EXPECT_EQ(world.source.reads.size(), 1U);
  EXPECT_EQ(world.sink.taken, "he");

  world.sink.takes = 2;
  world.sink.wake_writer();
  EXPECT_EQ(world.sink.taken, "hell");
  EXPECT_TRUE(world.sink.is_waited_to_take()) << "for the rest";
  EXPECT_EQ(world.source.reads.size(), 1U);

  world.sink.takes = kAll;
  world.sink.wake_writer();
  EXPECT_EQ(world.sink.taken, "hello");
  EXPECT_EQ(world.direction.told.back(), "written");
  EXPECT_FALSE(world.direction.unsent());
  EXPECT_TRUE(world.source.is_waited_for());
}

TEST(Direction, GoesOnWithWhatItHoldsOnceTheSinkHasTakenEverything) {
  World world;
  world.direction.decide = [](ScriptedDirection& direction, Bytes input) -> std::size_t {
    direction.write(input.first(1));
    return 1;
  };
  world.sink.takes = 0;
  world.arrives("ab");
  EXPECT_EQ(held(world.direction), "b");
  world.sink.takes = kAll;
  world.sink.wake_writer();
  EXPECT_EQ(world.direction.inputs, (Texts{"ab", "b"}));
  EXPECT_EQ(world.sink.taken, "ab");
}

TEST(Direction, WaitsUntilWhatASinkHasEncryptedIsSent) {
  World world(true);
  world.sink.encrypts = true;
  world.sink.flushes = false;
  world.arrives("hello");
  EXPECT_EQ(world.sink.taken, "hello");
  EXPECT_TRUE(world.direction.unsent());
  world.sink.wake_writer();
  EXPECT_TRUE(world.direction.unsent());
  EXPECT_FALSE(world.source.is_waited_for());
  world.sink.flushes = true;
  world.sink.wake_writer();
  EXPECT_FALSE(world.direction.unsent());
  EXPECT_EQ(world.direction.told.back(), "written");
  EXPECT_TRUE(world.source.is_waited_for());
}

TEST(Direction, TellsWhetherAPatchedMessageHasBeenTakenWhole) {
  World world;
  const std::string original = "original";
  wire::PatchedMessage patched;
  patched.start(as_bytes(original));
  patched.keep(0, 4);
  patched.add(as_bytes("[new]"));
  EXPECT_TRUE(world.direction.write(patched, as_bytes(original)));
  world.sink.takes = 5;
  EXPECT_FALSE(world.direction.write(patched, as_bytes(original)));
  world.sink.takes = kAll;
  world.sink.wake_writer();
  EXPECT_EQ(world.sink.taken, "orig[new]orig[new]");
  EXPECT_EQ(world.direction.counted, 18U) << "also what waits for the sink";
}

TEST(Direction, TellsOfAWriteThatFails) {
  World at_once;
  at_once.sink.write_fails = true;
  at_once.arrives("hello");
  EXPECT_EQ(at_once.direction.told.back(), "write failed");

  World later;
  later.sink.takes = 2;
  later.arrives("hello");
  later.sink.write_fails = true;
  later.sink.wake_writer();
  EXPECT_EQ(later.direction.told.back(), "write failed");
  EXPECT_TRUE(later.direction.unsent());
}

TEST(Direction, IsWokenOnceMoreWhenItsStreamsAreClosed) {
  World world;
  world.sink.takes = 2;
  world.arrives("hello");
  world.direction.close();
  world.sink.wake_writer();
  EXPECT_EQ(world.sink.taken, "he");
  EXPECT_EQ(world.waits(), 0);
}

// ---- reads -------------------------------------------------------------------------------------

TEST(Direction, ReadsAFewTimesAndThenGivesOthersATurn) {
  World world;
  world.direction.most = 1;
  world.arrives("1234567");
  EXPECT_EQ(world.sink.taken, "1234");
  EXPECT_TRUE(world.source.is_waited_for());
  world.source.wake_reader();
  EXPECT_EQ(world.sink.taken, "1234567");
}

TEST(Direction, ReadsNoMoreThanIsAllowed) {
  World world;
  world.direction.most = 600;
  world.arrives("x");
  EXPECT_EQ(world.source.reads, std::vector<std::size_t>{600});
  EXPECT_EQ(world.source.read_to, world.pool.read_buffer());
}

TEST(Direction, KnowsWhetherTheLastReadFoundNothing) {
  World world;
  EXPECT_FALSE(world.direction.seen_empty());
  world.source.wake_reader();
  EXPECT_TRUE(world.direction.seen_empty());
  world.direction.forget_empty();
  EXPECT_FALSE(world.direction.seen_empty());
  world.source.wake_reader();
  world.arrives("x");
  EXPECT_FALSE(world.direction.seen_empty());
}

/// Of TLS: records that hold nothing for us.
TEST(Direction, HasNotSeenEmptyWhileThereMayBeMore) {
  World world(true);
  world.source.more = true;
  world.source.wake_reader();
  EXPECT_FALSE(world.direction.seen_empty());
  EXPECT_EQ(world.source.reads.size(), 4U);
  EXPECT_TRUE(world.source.is_waited_for());
}

TEST(Direction, HearsNothingInWhatTlsHasToSay) {
  World world(true);
  world.source.wake_reader();
  EXPECT_EQ(world.direction.told, Texts{});
}

TEST(Direction, GrowsWithWhatHasComeAndNotWithWhatIsAnnounced) {
  constexpr std::size_t kAnnounced = 48'000'000;
  constexpr std::size_t kPiece = 100'000;
  World world;
  world.needs(kAnnounced);
  std::size_t arrived = 0;
  for (int i = 0; i < 40; ++i) {
    world.arrives(std::string(kPiece, 'x'));
    arrived += kPiece;
    while (world.direction.held().size() < arrived) world.source.wake_reader();
    EXPECT_LE(world.direction.memory(), 4 * arrived) << arrived;
  }
  EXPECT_EQ(world.direction.inputs.size(), 1U);
}

TEST(Direction, LetsALargeMessageBeKeptWhereItWasRead) {
  constexpr std::size_t kLength = 100'000;
  World world;
  std::vector<Buffer> kept;
  world.direction.decide = [&kept](ScriptedDirection& direction, Bytes input) -> std::size_t {
    if (input.size() < kLength) {
      direction.need(kLength);
      return 0;
    }
    const Bytes message = input.first(kLength);
    direction.expect(message.size());
    if (Buffer* buffer = direction.buffer_of(message)) kept.push_back(std::move(*buffer));
    return kLength;
  };
  const std::string first(kLength, '1');
  const std::string second(kLength, '2');
  world.arrives(first);
  EXPECT_EQ(world.source.read_to, world.pool.read_buffer()) << "nothing is known yet";
  EXPECT_EQ(kept.size(), 0U);

  world.source.reads.clear();
  world.arrives(second);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(text_of(kept[0].view()), second);
  EXPECT_EQ(kept[0].data(), world.source.read_to) << "without a copy";
  EXPECT_EQ(world.source.reads.size(), 1U);

  // In pieces it is the same.
  world.arrives(first.substr(0, 10));
  world.arrives(first.substr(10));
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(text_of(kept[1].view()), first);
  for (const Buffer& each : kept) EXPECT_TRUE(BufferPool::is_for(kLength, each));

  // With another message behind it, it has to be copied.
  world.arrives(second + "next");
  EXPECT_EQ(kept.size(), 2U);
  EXPECT_EQ(held(world.direction), "next");
}

TEST(Direction, GivesBackWhatItExpectedInVain) {
  World world;
  world.direction.decide = [](ScriptedDirection& direction, Bytes input) {
    direction.expect(100'000);
    return input.size();
  };
  world.arrives("x");
  const std::size_t before = world.pool.spare();
  world.source.wake_reader();
  EXPECT_EQ(world.source.reads.back(), 131'072U);
  EXPECT_EQ(held(world.direction), "");
  EXPECT_EQ(world.pool.spare(), before + 131'072);
  EXPECT_EQ(world.direction.memory(), 0U);
}

/// Or many who send little could hold much.
TEST(Direction, HoldsLittleInLittleMemory) {
  World world;
  world.direction.decide = [&world](ScriptedDirection& direction, Bytes input) -> std::size_t {
    if (input.back() == 'x') {
      direction.expect(1'000'000);
      return input.size();
    }
    world.direction.holds = input.back() == 'w';  // for room
    if (input.back() == 'n') direction.need(50'000);
    return input.back() == 'r' ? input.size() - 1 : 0;
  };
  world.arrives("x");
  world.arrives("--n");
  EXPECT_EQ(world.source.reads.back(), 1'048'576U);
  EXPECT_LE(world.direction.memory(), 2048U) << "needed, but not so much that there is room for it";
  world.arrives(std::string(50'000, 'x'));
  world.arrives(std::string(1'000, '-') + "r");
  EXPECT_EQ(held(world.direction), "r");
  EXPECT_LE(world.direction.memory(), 2048U) << "the rest";
  world.arrives("x");
  world.arrives("--w");
  EXPECT_EQ(held(world.direction), "--w");
  EXPECT_LE(world.direction.memory(), 2048U) << "waits for room";
}

TEST(Direction, KeepsItsMemoryForALargeMessageThatIsNeeded) {
  World world;
  world.direction.decide = [](ScriptedDirection& direction, Bytes input) -> std::size_t {
    direction.expect(1'000'000);
    if (input[0] == 'x') return input.size();
    direction.need(900'000);
    return 0;
  };
  world.arrives("x");
  world.arrives("--");
  EXPECT_EQ(held(world.direction), "--");
  world.source.reads.clear();
  world.arrives(std::string(899'998, '-'));
  EXPECT_EQ(world.source.reads, std::vector<std::size_t>{1'048'576 - 2});
  EXPECT_EQ(world.direction.held().size(), 900'000U);
}

TEST(Direction, ExpectsNoMoreThanAFewMegabytes) {
  World world;
  world.direction.decide = [](ScriptedDirection& direction, Bytes input) {
    direction.expect(48'000'000);
    return input.size();
  };
  world.arrives("x");
  world.arrives("x");
  EXPECT_EQ(world.source.reads.back(), 4'194'304U);
}

/// A long message that passes through is read as by any other connection.
TEST(Direction, ExpectsNothingMoreOnceMoreHasComeThanExpected) {
  World world;
  bool expects = true;
  world.direction.decide = [&expects](ScriptedDirection& direction, Bytes input) {
    if (std::exchange(expects, false)) direction.expect(20'000);
    direction.write(input);
    return input.size();
  };
  world.arrives("x");
  world.arrives(std::string(100'000, '-'));
  EXPECT_EQ(world.source.reads, (std::vector<std::size_t>{262'144, 32'768, 262'144}));
  EXPECT_EQ(world.sink.taken.size(), 100'001U);
}

/// Nobody reads ahead while many wait for room.
TEST(Direction, ExpectsNothingWhileLittleIsAllowed) {
  World world;
  world.direction.decide = [](ScriptedDirection& direction, Bytes input) {
    direction.expect(1'000'000);
    return input.size();
  };
  world.arrives("x");
  world.direction.most = 4096;
  world.arrives("x");
  EXPECT_EQ(world.source.reads.back(), 4096U);
}

TEST(Direction, ForgetsALargeMessageAfterManySmallOnes) {
  World world;
  std::size_t size = 1'000'000;
  world.direction.decide = [&size](ScriptedDirection& direction, Bytes input) {
    direction.expect(size);
    return input.size();
  };
  world.arrives("x");
  size = 100;
  for (int i = 0; i < 50; ++i) world.arrives("x");
  EXPECT_EQ(world.source.reads.back(), BufferPool::kReadSize);
  EXPECT_EQ(world.source.read_to, world.pool.read_buffer());
}

TEST(Direction, ReadsARestOfAMessageAtOnce) {
  constexpr std::size_t kLength = 100'000;
  World world;
  world.needs(kLength);
  world.arrives(std::string(60'000, 'x'));
  world.source.reads.clear();
  world.arrives(std::string(40'000, 'x'));
  EXPECT_EQ(world.source.reads.size(), 1U);
  EXPECT_GE(world.source.reads.front(), 40'000U);
  EXPECT_EQ(world.sink.taken.size(), kLength);
}

// ---- held up -----------------------------------------------------------------------------------

TEST(Direction, ProcessesNothingWhileItIsHeldUp) {
  World world;
  world.direction.holds = true;
  world.source.has_received_ = true;
  world.arrives("hello");
  EXPECT_EQ(world.direction.inputs, Texts{});
  EXPECT_EQ(world.source.reads, std::vector<std::size_t>{});
  EXPECT_FALSE(world.source.is_waited_for()) << "it waits for resume()";
  world.direction.wait_source();
  EXPECT_FALSE(world.source.is_waited_for());

  world.direction.holds = false;
  world.direction.resume();
  EXPECT_EQ(world.direction.inputs, Texts{}) << "the thread's buffer may be in use";
  world.source.wake_reader();
  EXPECT_EQ(world.direction.inputs, Texts{"hello"});
  EXPECT_EQ(world.sink.taken, "hello");
  EXPECT_TRUE(world.source.is_waited_for());
}

TEST(Direction, ResumesWithWhatItHolds) {
  World world;
  world.direction.decide = [&world](ScriptedDirection& direction, Bytes input) -> std::size_t {
    direction.write(input.first(1));
    world.direction.holds = true;
    return 1;
  };
  world.arrives("abc");
  EXPECT_EQ(held(world.direction), "bc");
  world.direction.holds = false;
  world.direction.resume();
  EXPECT_EQ(world.direction.inputs, (Texts{"abc", "bc"}));
  EXPECT_EQ(held(world.direction), "c");
  EXPECT_EQ(world.source.reads.size(), 1U);
}

TEST(Direction, ResumesOnlyOnceWhatIsNeededIsThere) {
  World world;
  world.needs(3);
  world.arrives("ab");
  world.direction.resume();
  EXPECT_EQ(world.direction.inputs, Texts{"ab"});
  world.arrives("c");
  EXPECT_EQ(world.sink.taken, "abc");
}

TEST(Direction, WatchesTheSourceWhileItIsHeldUp) {
  World world;
  world.direction.decide = [&world](ScriptedDirection&, Bytes input) {
    world.direction.holds = true;
    return input.size();
  };
  world.arrives("request");
  EXPECT_TRUE(world.source.is_waited_for());
  world.direction.resume();
  EXPECT_TRUE(world.source.is_waited_for());
  EXPECT_EQ(world.waits(), 1) << "one wait is enough";
}

TEST(Direction, NoticesAtOnceThatAPlainSourceLeavesWhileItIsHeldUp) {
  World world;
  world.direction.holds = true;
  world.source.ends();
  world.source.wake_reader();
  EXPECT_EQ(world.direction.told, Texts{"source ended"});
  EXPECT_TRUE(world.direction.ended());
}

TEST(Direction, WaitsAgainIfAPlainSourceHasSentNothingWhileItIsHeldUp) {
  World world;
  world.direction.holds = true;
  world.source.wake_reader();
  EXPECT_EQ(world.direction.told, Texts{});
  EXPECT_TRUE(world.source.is_waited_for());
}

TEST(Direction, LooksForTheEndBehindNothingThatIsNotRead) {
  World world;
  world.direction.holds = true;
  world.source.has_received_ = true;
  world.source.ends();
  world.arrives("hello");
  EXPECT_EQ(world.direction.told, Texts{"heard"});
  world.direction.holds = false;
  world.direction.resume();
  world.source.wake_reader();
  EXPECT_EQ(world.sink.taken, "hello");
}

TEST(Direction, NoticesAtOnceThatASecureSourceLeavesWhileItIsHeldUp) {
  World world(true);
  world.direction.holds = true;
  world.source.ends();
  world.source.wake_reader();
  EXPECT_EQ(world.direction.told, Texts{"source ended"});
  EXPECT_TRUE(world.direction.ended());
  EXPECT_FALSE(world.source.is_waited_for());
}

TEST(Direction, KeepsWhatASecureSourceSendsWhileItIsHeldUp) {
  World world(true);
  world.direction.holds = true;
  world.arrives("hello");
  EXPECT_EQ(world.direction.told, Texts{"received 5"});
  EXPECT_EQ(held(world.direction), "hello");
  EXPECT_EQ(world.direction.inputs, Texts{});
  EXPECT_FALSE(world.source.is_waited_for()) << "it waits for resume()";
  world.direction.holds = false;
  world.direction.resume();
  EXPECT_EQ(world.sink.taken, "hello");
}

/// TLS's own, a KeyUpdate or a session ticket.
TEST(Direction, WaitsAgainIfASecureSourceHasSentNothingWhileItIsHeldUp) {
  World world(true);
  world.direction.holds = true;
  world.source.wake_reader();
  EXPECT_EQ(held(world.direction), "");
  EXPECT_TRUE(world.source.is_waited_for());
}

TEST(Direction, NoticesNoLeavingIfItIsNotAskedTo) {
  for (const bool secure : {false, true}) {
    World world(secure, Notices::nothing);
    world.direction.holds = true;
    world.source.ends();
    world.source.wake_reader();
    EXPECT_EQ(world.source.reads, std::vector<std::size_t>{});
    EXPECT_TRUE(world.direction.told.empty() || world.direction.told == Texts{"heard"});
  }
}

TEST(Direction, NoticesNoLeavingWhileTheSinkHasNotTakenEverything) {
  World world(true);
  world.sink.takes = 0;
  world.direction.write(as_bytes("local"));
  world.source.ends();
  world.source.wake_reader();
  EXPECT_EQ(world.direction.told, Texts{});
  EXPECT_EQ(world.source.reads, std::vector<std::size_t>{});
}

/// Who sends on while nobody reads fills the proxy's memory no further than that.
TEST(Direction, WaitsForNoMoreThanAReadWhileItIsHeldUp) {
  World world(true);
  world.direction.holds = true;
  world.source.sends(std::string(BufferPool::kReadSize + 1, 'x'));
  std::size_t wakes = 0;
  while (world.source.is_waited_for() && ++wakes < 100) world.source.wake_reader();
  EXPECT_LT(wakes, 100U);
  EXPECT_LE(world.direction.held().size(), BufferPool::kReadSize);
}

// ---- the end -----------------------------------------------------------------------------------

TEST(Direction, TellsThatItsSourceHasEndedOrBroken) {
  const struct {
    const char* name;
    std::function<void(World&)> happens;
    const char* told;
  } rows[] = {
      {"a read ends", [](World& world) { world.source.ends(), world.source.wake_reader(); },
       "source ended"},
      {"a read breaks", [](World& world) { world.source.breaks(), world.source.wake_reader(); },
       "source broke"},
      {"a read ends behind bytes",
       [](World& world) { world.source.ends(), world.arrives("hello"); }, "source ended"},
      {"a read breaks behind bytes",
       [](World& world) { world.source.breaks(), world.arrives("hello"); }, "source broke"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    World world;
    row.happens(world);
    ASSERT_FALSE(world.direction.told.empty());
    EXPECT_EQ(world.direction.told.back(), row.told);
    EXPECT_EQ(std::ranges::count(world.direction.told, row.told), 1);
    EXPECT_EQ(world.direction.ended(), std::string(row.told) == "source ended");
    EXPECT_FALSE(world.source.is_waited_for());
    EXPECT_EQ(world.waits(), 0);
  }
}

TEST(Direction, PassesOnWhatCameBeforeTheEnd) {
  World world;
  world.source.ends();
  world.arrives("hello");
  EXPECT_EQ(world.sink.taken, "hello");
  EXPECT_EQ(world.direction.told, (Texts{"received 5", "source ended"}));
}

TEST(Direction, FinishesWhatItHoldsAfterTheEnd) {
  World world(true);
  world.direction.holds = true;
  world.arrives("hello");
  world.direction.end();
  world.direction.resume();
  EXPECT_EQ(world.direction.told.back(), "received 5") << "it is still held up";
  world.direction.holds = false;
  world.direction.resume();
  EXPECT_EQ(world.sink.taken, "hello");
  EXPECT_EQ(world.direction.told.back(), "finished");
  EXPECT_FALSE(world.source.is_waited_for());
}

TEST(Direction, IsNotFinishedBeforeTheSinkHasTakenEverything) {
  World world;
  world.sink.takes = 0;
  world.source.ends();
  world.arrives("hello");
  world.direction.end();
  world.direction.resume();
  EXPECT_EQ(std::ranges::count(world.direction.told, "finished"), 0);
  world.sink.takes = kAll;
  world.sink.wake_writer();
  EXPECT_EQ(world.direction.told.back(), "finished");
}

TEST(Direction, WaitsForNoSourceThatHasEnded) {
  World world;
  world.source.ends();
  world.source.wake_reader();
  world.direction.wait_source();
  EXPECT_FALSE(world.source.is_waited_for());
}

// ---- closing in the middle ---------------------------------------------------------------------

/// Everything that can happen, as far as it still does once the direction has been closed.
void play(World& world) {
  const auto wake_reader = [&world] {
    if (world.source.is_waited_for()) world.source.wake_reader();
  };
  const auto wake_writer = [&world] {
    if (world.sink.is_waited_to_take()) world.sink.wake_writer();
  };
  world.needs(3);
  world.source.sends("a");
  wake_reader();
  world.source.sends("bcd");
  world.sink.takes = 1;
  wake_reader();
  world.sink.takes = kAll;
  wake_writer();
  world.direction.holds = true;
  world.source.sends("efg");
  world.source.has_received_ = true;
  wake_reader();
  world.direction.holds = false;
  world.direction.resume();
  world.source.ends();
  wake_reader();
  world.direction.resume();
}

TEST(Direction, ReadsProcessesAndWritesNothingOnceItIsClosed) {
  for (const std::string step :
       {"woken", "heard", "take", "take, at its end", "written", "source ended", "finished"}) {
    SCOPED_TRACE(step);
    World world;
    world.direction.close_in = step;
    bool closes = false;
    const auto done = [&world] {
      return std::tuple(world.source.reads.size(), world.direction.inputs.size(),
                        world.sink.writes);
    };
    play(world);
    closes = world.direction.blocked();
    EXPECT_TRUE(closes) << "the script comes to this step";
    world.direction.close_in.clear();
    const auto before = done();
    play(world);
    EXPECT_EQ(done(), before);
    EXPECT_FALSE(world.source.is_waited_for());
    EXPECT_FALSE(world.sink.is_waited_to_take());
    EXPECT_EQ(world.waits(), 0);
  }
}

TEST(Direction, GoesNoFurtherThanTheStepThatClosesIt) {
  const auto world_with = [](const char* step) {
    auto world = std::make_unique<World>();
    world->direction.close_in = step;
    return world;
  };
  auto world = world_with("woken");
  world->arrives("hello");
  EXPECT_EQ(world->source.reads.size(), 0U);

  world = world_with("take");
  world->source.more = true;
  world->arrives("hello");
  EXPECT_EQ(world->source.reads.size(), 1U);
  EXPECT_EQ(world->sink.taken, "");

  world = world_with("write failed");
  world->sink.write_fails = true;
  world->source.more = true;
  world->arrives("hello");
  EXPECT_EQ(world->source.reads.size(), 1U);

  world = world_with("written");
  world->sink.takes = 0;
  world->direction.decide = [](ScriptedDirection& direction, Bytes input) -> std::size_t {
    direction.write(input.first(1));
    return 1;
  };
  world->arrives("hello");
  world->sink.takes = kAll;
  world->sink.wake_writer();
  EXPECT_EQ(world->direction.inputs.size(), 1U);
  EXPECT_EQ(world->sink.taken, "h");
}

}  // namespace direction_test
}  // namespace idproxy::net
