#include "id_store/reservation_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "id_store/reservation_collection.hpp"

namespace idproxy::id_store {
namespace reservation_queue_test {

using ids::Errc;
using ids::Error;
using ids::Reservation;
using ids::ReservationBatch;
using Job = ReservationQueue::Job;
using State = Reservation::State;

/// Where an answer goes.
struct Inbox {
  std::optional<ids::Result<ids::Grant>> answer;
  bool waiter_gone = false;
};

class InboxWaiter final : public ids::Waiter {
 public:
  explicit InboxWaiter(std::shared_ptr<Inbox> inbox) : inbox_(std::move(inbox)) {}
  ~InboxWaiter() override { inbox_->waiter_gone = true; }
  InboxWaiter(const InboxWaiter&) = delete;
  InboxWaiter& operator=(const InboxWaiter&) = delete;
  void answered(ids::Result<ids::Grant> grant) override {
    inbox_->answer.emplace(std::move(grant));
  }

 private:
  std::shared_ptr<Inbox> inbox_;
};

struct Request {
  std::shared_ptr<ReservationBatch> batch = std::make_shared<ReservationBatch>();
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  ids::Ticket ticket{};
  [[nodiscard]] bool granted() const { return inbox->answer && inbox->answer->has_value(); }
};

Reservation made(std::size_t bytes = 8) {
  Reservation item;
  item.value = {bson::Type::binary, std::string(bytes, 'x')};
  item.state = State::made;
  return item;
}

class ReservationQueueTest : public testing::Test {
 protected:
  Request ask(std::size_t count, std::size_t bytes = 8) {
    Request request;
    for (std::size_t i = 0; i < count; ++i) {
      request.batch->push_back({.value = {bson::Type::binary, std::string(bytes, 'v')},
                                .parent_id = {bson::Type::int32, "abcd"}});
    }
    request.ticket = queue->reserve(request.batch, std::make_unique<InboxWaiter>(request.inbox));
    return request;
  }
  /// The next job, in which the server makes everything.
  Job begin() {
    auto job = queue->begin();
    EXPECT_TRUE(job);
    if (!job) return {};
    for (Reservation* item : job->items()) {
      if (item->state == State::wanted) item->state = State::made;
    }
    return *std::move(job);
  }
  std::size_t to_release() {
    auto job = queue->begin();
    if (!job) return 0;
    EXPECT_TRUE(job->asks.empty());
    const std::size_t count = job->release.size();
    queue->finish(*std::move(job), std::nullopt);
    return count;
  }

  int wakes = 0;
  std::shared_ptr<ReservationQueue> queue =
      std::make_shared<ReservationQueue>(ids::ReserveSpec{}, [this] { ++wakes; });
};

TEST_F(ReservationQueueTest, AnAskIsAnsweredWithItsBatch) {
  Request request = ask(3);
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(queue->waiting(), 1U);
  Job job = begin();
  EXPECT_EQ(queue->waiting(), 1U);
  EXPECT_FALSE(queue->idle());
  queue->finish(std::move(job), std::nullopt);
  ASSERT_TRUE(request.granted());
  EXPECT_EQ(request.batch->size(), 3U);
  EXPECT_EQ(request.batch->front().state, State::made);
  (void)(*request.inbox->answer)->take();
  request = {};
  EXPECT_TRUE(queue->idle());
  EXPECT_FALSE(queue->begin());
}

TEST_F(ReservationQueueTest, AGrantThatNobodyTakesIsReleased) {
  Request request = ask(3);
  Job job = begin();
  job.items()[1]->state = State::taken;
  queue->finish(std::move(job), std::nullopt);
  EXPECT_EQ(wakes, 1);
  request = {};
  EXPECT_EQ(wakes, 2);
  EXPECT_EQ(to_release(), 2U);
}

TEST_F(ReservationQueueTest, WhoeverLeavesBeforeCostsNothing) {
  Request first = ask(1);
  Request second = ask(2000);
  Request third = ask(1);
  {
    const ids::Ticket gone = std::move(second.ticket);
  }
  EXPECT_TRUE(second.inbox->waiter_gone);
  EXPECT_EQ(queue->waiting(), 2U);
  Job job = begin();
  EXPECT_EQ(job.asks.size(), 2U);
  queue->finish(std::move(job), std::nullopt);
  EXPECT_TRUE(first.granted());
  EXPECT_TRUE(third.granted());
  EXPECT_FALSE(second.granted());
}

TEST_F(ReservationQueueTest, WhatIsMadeForWhoeverHasLeftIsReleased) {
  Request request = ask(5);
  Job job = begin();
  const auto inbox = request.inbox;
  request = {};
  EXPECT_TRUE(inbox->waiter_gone);
  queue->finish(std::move(job), std::nullopt);
  EXPECT_FALSE(inbox->answer);
  EXPECT_EQ(to_release(), 5U);
  EXPECT_TRUE(queue->idle());
}

TEST_F(ReservationQueueTest, SmallAsksGoTogetherAndLargeOnesAlone) {
  const Request all[] = {ask(400), ask(400), ask(400), ask(5000), ask(1)};
  std::vector<std::size_t> sizes;
  std::vector<Job> jobs;
  while (queue->has_work()) {
    jobs.push_back(begin());
    sizes.push_back(jobs.back().items().size());
  }
  EXPECT_THAT(sizes, testing::ElementsAre(800, 400, 5000, 1));
  for (Job& job : jobs) queue->finish(std::move(job), std::nullopt);
  for (const Request& each : all) EXPECT_TRUE(each.granted());
}

TEST_F(ReservationQueueTest, AFailureConcernsThoseThatAreNotComplete) {
  const Request first = ask(1);
  const Request second = ask(3);
  Job job = begin();
  job.items()[3]->state = State::wanted;
  queue->finish(std::move(job), Error{Errc::unavailable, "why"});
  EXPECT_TRUE(first.granted());
  ASSERT_TRUE(second.inbox->answer);
  EXPECT_EQ(second.inbox->answer->error().reason, "why");
  EXPECT_EQ(to_release(), 2U);
}

TEST_F(ReservationQueueTest, OnlyWhatWasMadeIsReleased) {
  ReservationBatch batch(5);
  batch[1].state = State::made;
  batch[2].state = State::own;
  batch[3].state = State::taken;
  batch[4].state = State::refused;
  queue->release(std::move(batch));
  EXPECT_EQ(to_release(), 1U);
}

TEST_F(ReservationQueueTest, AsksAndReleasesTakeTurns) {
  queue->release(ReservationBatch(3000, made()));
  const Request all[] = {ask(1000), ask(1000)};
  std::string order;
  while (auto job = queue->begin()) {
    order += job->asks.empty() ? 'r' : 'a';
    queue->finish(*std::move(job), std::nullopt);
  }
  EXPECT_EQ(order, "rarar");
  EXPECT_TRUE(all[0].inbox->answer);
}

TEST_F(ReservationQueueTest, MemoryIsBounded) {
  const std::size_t most = ReservationQueue::kMostReleasingBytes;
  queue->release(ReservationBatch(10, made(most / 8)));
  EXPECT_EQ(to_release(), 7U);
  const std::size_t half = ReservationQueue::kMostWaitingBytes / 2;
  const Request first = ask(1, half);
  const Request second = ask(1, half);
  ASSERT_TRUE(second.inbox->answer);
  EXPECT_EQ(second.inbox->answer->error().code, Errc::unavailable);
  EXPECT_EQ(queue->waiting(), 1U);
}

TEST_F(ReservationQueueTest, WhoeverWaitsWhenItEndsHearsThat) {
  Request first = ask(1);
  queue->release(ReservationBatch(2, made()));
  queue->stop();
  ASSERT_TRUE(first.inbox->answer);
  EXPECT_EQ(first.inbox->answer->error().reason, "the proxy ends");
  const Request second = ask(1);
  ASSERT_TRUE(second.inbox->answer);
  EXPECT_FALSE(second.granted());
  EXPECT_EQ(to_release(), 2U);
}

TEST_F(ReservationQueueTest, AtTheEndOneFailureToReleaseIsEnough) {
  for (const bool stops : {false, true}) {
    queue->release(ReservationBatch(2500, made()));
    if (stops) queue->stop();
    auto job = queue->begin();
    ASSERT_TRUE(job);
    queue->finish(*std::move(job), Error{Errc::unavailable, "why"});
    EXPECT_NE(queue->has_work(), stops);
  }
}

TEST_F(ReservationQueueTest, MayEndBeforeItsGrants) {
  Request request = ask(1);
  queue->finish(begin(), std::nullopt);
  EXPECT_TRUE(request.granted());
  queue.reset();
  request = {};
}

TEST(ReservationCommands, EqualKeysAreEqualValues) {
  const auto int32 = [](std::int32_t number) {
    std::string bytes(4, '\0');
    store_i32(reinterpret_cast<std::uint8_t*>(bytes.data()), number);
    return ids::TypedValue{bson::Type::int32, bytes};
  };
  const auto eight = [](bson::Type type, std::int64_t bits) {
    std::string bytes(8, '\0');
    store_i64(reinterpret_cast<std::uint8_t*>(bytes.data()), bits);
    return ids::TypedValue{type, bytes};
  };
  const auto int64 = [&](std::int64_t number) { return eight(bson::Type::int64, number); };
  const auto real = [&](double number) {
    return eight(bson::Type::number_double, std::bit_cast<std::int64_t>(number));
  };
  EXPECT_EQ(key_of(int32(7)), key_of(int64(7)));
  EXPECT_EQ(key_of(int32(-7)), key_of(real(-7)));
  EXPECT_EQ(key_of(real(0.0)), key_of(real(-0.0)));
  EXPECT_EQ(key_of(int64(std::int64_t{1} << 53)), key_of(real(0x1p53)));
  EXPECT_NE(key_of(real(7.5)), key_of(real(7)));
  EXPECT_NE(key_of(real(0x1p63)), key_of(int64(std::numeric_limits<std::int64_t>::max())));
  EXPECT_EQ(key_of(real(-0x1p63)), key_of(int64(std::numeric_limits<std::int64_t>::min())));
  EXPECT_NE(key_of({bson::Type::string, "a"}), key_of({bson::Type::binary, "a"}));
  EXPECT_NE(key_of({bson::Type::int32, "x"}), key_of(int32(0)));  // malformed
}

TEST(ReservationCommands, ManyDoNotFitIntoOne) {
  ReservationBatch batch(100'000,
                         Reservation{.value = {bson::Type::int64, std::string(8, 'v')},
                                     .parent_id = {bson::Type::int64, std::string(8, 'p')}});
  std::vector<Reservation*> items;
  for (Reservation& item : batch) items.push_back(&item);
  ids::ReserveSpec spec;
  spec.db = "shop";
  spec.collection = "orders__number";
  const std::size_t some = fitting(spec, items);
  EXPECT_GT(some, 50'000U);
  EXPECT_LT(some, 65'000U);
  EXPECT_EQ(fitting(spec, items, 10), 10U);
  EXPECT_LT(insert_command(spec, Reserved(items).first(some), 0).bytes().size(), 16U << 20);
  batch[0].value.bytes.resize(std::size_t{14} << 20);
  EXPECT_EQ(fitting(spec, items), 1U);
  EXPECT_TRUE(refuse(batch[0]));
  EXPECT_FALSE(refuse(batch[1]));
}

}  // namespace reservation_queue_test
}  // namespace idproxy::id_store
