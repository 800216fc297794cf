#include "net/buffer_pool.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

namespace idproxy::net {
namespace buffer_pool_test {

using namespace std::chrono_literals;

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

struct World {
  explicit World(std::size_t most = 64 * kMegabyte, std::chrono::milliseconds patience = 1ms)
      : pool(loop, most, patience, [this] { ++freed; }) {}

  void run_until(const std::function<bool()>& happened) {
    while (!happened()) loop.poll();
  }
  void run_for(std::chrono::milliseconds time) {
    bool over = false;
    Timer timer(loop);
    timer.start(time, [&over] { over = true; });
    run_until([&over] { return over; });
  }

  EventLoop loop;
  int freed = 0;
  BufferPool pool;
};

TEST(BufferPool, GivesEachSizeABufferThatFits) {
  World world;
  for (const std::size_t size : {0U, 1U, 1024U, 1025U, 100'000U, 131'072U, 48'000'000U}) {
    Buffer buffer = world.pool.take(size);
    EXPECT_TRUE(buffer.empty());
    EXPECT_GE(buffer.capacity(), size);
    EXPECT_TRUE(BufferPool::is_for(size, buffer)) << size;
  }
}

TEST(BufferPool, UsesABufferAgainForWhatFits) {
  World world;
  Buffer buffer = world.pool.take(100'000);
  buffer.extend(100'000);
  const std::uint8_t* memory = buffer.data();
  world.pool.give_back(std::move(buffer));
  EXPECT_EQ(world.pool.spare(), 131'072U);
  EXPECT_NE(world.pool.take(50'000).data(), memory) << "too large";
  EXPECT_NE(world.pool.take(200'000).data(), memory) << "too small";
  Buffer again = world.pool.take(131'072);
  EXPECT_EQ(again.data(), memory);
  EXPECT_TRUE(again.empty());
  EXPECT_EQ(world.pool.spare(), 0U);
}

TEST(BufferPool, SortsBuffersOfAnySize) {
  World world;
  for (const std::size_t capacity : {100U, 1500U, 3000U, 200'000'000U}) {
    Buffer buffer;
    buffer.reserve(capacity);
    world.pool.give_back(std::move(buffer));
  }
  EXPECT_EQ(world.pool.spare(), 4500U);
  EXPECT_EQ(world.pool.take(1025).capacity(), 3000U);
  EXPECT_EQ(world.pool.take(1025).capacity(), 2048U);
  EXPECT_EQ(world.pool.take(1024).capacity(), 1500U);
}

TEST(BufferPool, KeepsNoMoreThanItMay) {
  World world(3 * kMegabyte);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back(world.pool.take(kMegabyte));
  for (Buffer& buffer : buffers) world.pool.give_back(std::move(buffer));
  EXPECT_EQ(world.pool.spare(), 3 * kMegabyte);
}

TEST(BufferPool, FreesWhatNobodyNeeds) {
  World world;
  std::vector<Buffer> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back(world.pool.take(kMegabyte));
  for (Buffer& buffer : buffers) world.pool.give_back(std::move(buffer));
  world.run_until([&world] { return world.pool.spare() == 0; });
  EXPECT_EQ(world.freed, 2) << "those that were needed in the first period have another one";
  world.run_for(10ms);
  EXPECT_EQ(world.freed, 2) << "nothing is left to be freed";

  world.pool.give_back(world.pool.take(kMegabyte));
  world.run_until([&world] { return world.pool.spare() == 0; });
  EXPECT_EQ(world.freed, 4);
}

TEST(BufferPool, KeepsWhatIsNeededAgainAndAgain) {
  World world;
  Buffer other = world.pool.take(kMegabyte);
  Buffer buffer = world.pool.take(kMegabyte);
  buffer.extend(1);
  const std::uint8_t* memory = buffer.data();
  world.pool.give_back(std::move(other));
  world.pool.give_back(std::move(buffer));
  for (const int before = world.freed; world.freed < before + 5;) {
    Buffer again = world.pool.take(kMegabyte);
    EXPECT_EQ(again.data(), memory);
    world.pool.give_back(std::move(again));
    world.loop.poll();
  }
  EXPECT_EQ(world.pool.spare(), kMegabyte);
}

TEST(BufferPool, IsNotWokenForLittle) {
  World world;
  world.pool.give_back(world.pool.take(10'000));
  world.run_for(10ms);
  EXPECT_EQ(world.freed, 0);
  EXPECT_GT(world.pool.spare(), 0U);
}

}  // namespace buffer_pool_test
}  // namespace idproxy::net
