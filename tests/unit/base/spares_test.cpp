#include "idproxy/base/spares.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "idproxy/base/bytes.hpp"

namespace idproxy {
namespace spares_test {

Buffer of(std::size_t capacity) {
  Buffer buffer;
  buffer.reserve(capacity);
  return buffer;
}

TEST(Spares, GiveTheLastOneFirst) {
  Spares<Buffer> spares;
  EXPECT_TRUE(spares.empty());
  spares.add(of(100));
  spares.add(of(200));
  EXPECT_EQ(spares.bytes(), 300U);
  EXPECT_EQ(spares.take().capacity(), 200U);
  EXPECT_EQ(spares.take().capacity(), 100U);
  EXPECT_TRUE(spares.empty());
  EXPECT_EQ(spares.bytes(), 0U);
}

TEST(Spares, FreeThoseThatNobodyHasNeeded) {
  Spares<Buffer> spares;
  for (const std::size_t capacity : {1U, 2U, 3U, 4U}) spares.add(of(capacity));
  spares.free_unused();
  EXPECT_EQ(spares.size(), 4U) << "they have been added since the last call";
  Buffer fourth = spares.take();
  Buffer third = spares.take();
  spares.add(std::move(third));
  spares.add(std::move(fourth));
  spares.free_unused();
  EXPECT_EQ(spares.bytes(), 7U);
  EXPECT_EQ(spares.size(), 2U);
  EXPECT_EQ(spares.take().capacity(), 4U);
  spares.free_unused();
  EXPECT_EQ(spares.size(), 0U);
  EXPECT_EQ(spares.bytes(), 0U);
}

TEST(Spares, CountTheMemoryOfWhatTheyPointTo) {
  Spares<std::unique_ptr<Buffer>> spares;
  spares.add(std::make_unique<Buffer>(of(100)));
  EXPECT_EQ(spares.bytes(), 100U);
  EXPECT_EQ(spares.take()->capacity(), 100U);
  EXPECT_EQ(spares.bytes(), 0U);
}

TEST(BlockPool, GivesOutFirstWhatCameBackLast) {
  BlockPool pool;
  void* const first = pool.take(100);
  void* const second = pool.take(100);
  pool.give_back(first);
  pool.give_back(second);
  EXPECT_EQ(pool.take(100), second);
  EXPECT_EQ(pool.take(100), first);
  pool.give_back(second);
  pool.give_back(first);
}

}  // namespace spares_test
}  // namespace idproxy
