#include <gmock/gmock.h>

#include <string>
#include <utility>

#include "clock_ahead.hpp"
#include "idproxy/ids/block_cache.hpp"
#include "reservations.hpp"
#include "stores.hpp"

// Reservations as rules use them: through the Store.
namespace idproxy::id_store::test {
namespace reservation_store_test {

using namespace std::chrono_literals;
using ids::ReservationBatch;
using testing::HasSubstr;
using Batch = std::shared_ptr<ReservationBatch>;

struct Asked {
  Batch batch;
  Answer answer;
  ids::Ticket ticket;
  ids::Result<ids::Grant> get() { return test::get(answer, 10s); }
};

Asked ask(ids::Reservations& reservations, ReservationBatch items) {
  Asked asked{std::make_shared<ReservationBatch>(std::move(items)), {}, {}};
  asked.ticket = reservations.reserve(asked.batch, std::make_unique<Promise>(asked.answer));
  return asked;
}

class ReservationStoreTest : public ReservationsTest {
 protected:
  [[nodiscard]] WatchedRule rule() const {
    WatchedRule rule{spec.parent_ns, spec.parent_field};
    rule.reserve = spec;
    return rule;
  }
};

INSTANTIATE_TEST_SUITE_P(Layouts, ReservationStoreTest,
                         testing::Values(ids::ReserveSpec::Layout::id,
                                         ids::ReserveSpec::Layout::field),
                         layout_name);

TEST_P(ReservationStoreTest, EveryWatchHasTheSameObject) {
  Store store(options(), clock);
  const auto watch = store.watch({rule()});
  const auto reservations = watch->reservations(spec);
  EXPECT_EQ(store.watch({rule()})->reservations(spec), reservations);
  Asked first = ask(*reservations, {wanted("1", "\"a\""), wanted("2", "\"b\"")});
  auto grant = first.get();
  ASSERT_TRUE(grant) << grant.error().reason;
  (void)grant->take();
  EXPECT_EQ(first.batch->at(1).state, State::made);
  Asked second = ask(*reservations, {wanted("1", "\"c\""), wanted("3", "\"c\"")});
  grant = second.get();
  ASSERT_TRUE(grant);
  (void)grant->take();
  EXPECT_EQ(second.batch->at(0).state, State::taken);
  EXPECT_EQ(second.batch->at(1).state, State::made);
  EXPECT_EQ(count(), 3U);
  spec.orphan_after = 1h;
  const auto changed = store.watch({rule()});
  EXPECT_NE(changed->reservations(spec), reservations);
  Asked third = ask(*reservations, {wanted("3", "\"d\"")});
  EXPECT_TRUE(third.get());
  const StoreStatistics statistics = store.statistics();
  EXPECT_EQ(statistics.reservations_made, 3U);
  EXPECT_EQ(statistics.reservations_taken, 2U);
  EXPECT_EQ(statistics.reservations_waiting, 0U);
  EXPECT_TRUE(store.stop(10s));
}

TEST_P(ReservationStoreTest, WhatNobodyTakesIsReleased) {
  Store store(options(), clock);
  const auto watch = store.watch({rule()});
  const auto reservations = watch->reservations(spec);
  {
    Asked dropped = ask(*reservations, {wanted("1", "\"a\""), wanted("2", "\"b\"")});
    EXPECT_TRUE(dropped.get());
  }
  EXPECT_TRUE(comes_true([&] { return store.statistics().reservations_released == 2; }));
  EXPECT_EQ(count(), 0U);
  for (int i = 0; i < 20; ++i) {
    // The ticket goes at once.
    (void)ask(*reservations, {wanted(std::to_string(i), "\"a\"")});
  }
  EXPECT_TRUE(comes_true([&] {
    const StoreStatistics now = store.statistics();
    return now.reservations_waiting == 0 && now.reservations_made == now.reservations_released;
  }));
  // A command that is under way neither waits nor has been counted: the stop awaits it.
  EXPECT_TRUE(store.stop(10s));
  EXPECT_EQ(count(), 0U);
}

TEST_P(ReservationStoreTest, AStopReleasesWhatIsToBeReleased) {
  Store store(options(), clock);
  const auto watch = store.watch({rule()});
  const auto reservations = watch->reservations(spec);
  ReservationBatch batch;
  for (int i = 0; i < 3000; ++i) batch.push_back(wanted(std::to_string(i), "\"a\""));
  Asked asked = ask(*reservations, std::move(batch));
  auto grant = asked.get();
  ASSERT_TRUE(grant);
  (void)grant->take();
  reservations->release(*asked.batch);
  EXPECT_TRUE(store.stop(20s));
  EXPECT_EQ(count(), 0U);
  Asked late = ask(*reservations, {wanted("1", "\"a\"")});
  EXPECT_FALSE(late.get());
}

TEST_P(ReservationStoreTest, SmallAsksThatWaitShareCommands) {
  Store store(options(), clock);
  const auto watch = store.watch({rule()});
  watch->await_first_inspection(10s);
  const auto reservations = watch->reservations(spec);
  const std::uint64_t before = store.statistics().round_trips;
  std::vector<Asked> all;
  for (int i = 0; i < 2000; ++i) {
    const std::string number = std::to_string(i);
    all.push_back(ask(*reservations, {wanted(number, number)}));
  }
  for (Asked& each : all) {
    auto grant = each.get();
    ASSERT_TRUE(grant) << grant.error().reason;
    (void)grant->take();
  }
  EXPECT_EQ(count(), 2000U);
  EXPECT_LT(store.statistics().round_trips - before, 1000U);
  EXPECT_TRUE(store.stop(10s));
}

TEST_P(ReservationStoreTest, ARuleIsReadyWhenValuesCanBeReserved) {
  spec.collection = "unfit";
  database.write(
      Document().add("create", "unfit").append(json(R"({"viewOn": "orders", "pipeline": []})")));
  Store store(options(), clock);
  const auto watch = store.watch({rule()});
  watch->await_first_inspection(10s);
  const auto readiness = [&] { return watch->readiness(0, database.name(), "orders"); };
  const std::uint64_t version = watch->version();
  EXPECT_EQ(readiness().kind, ids::Readiness::Kind::not_ready);
  EXPECT_EQ(readiness().error.code, ids::Errc::exhausted);
  EXPECT_THAT(readiness().error.reason, HasSubstr("is a view"));
  const auto listed = watch->not_ready(10);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].ns, spec.parent_ns);
  EXPECT_EQ(listed[0].readiness.error.reason, readiness().error.reason);
  EXPECT_EQ(watch->counters_not_ready().size(), 1U);
  EXPECT_EQ(watch->not_ready_counts().at(0), 1U);
  database.write(Document().add("drop", "unfit"));
  EXPECT_TRUE(comes_true([&] { return readiness().kind == ids::Readiness::Kind::ready; }));
  EXPECT_NE(watch->version(), version);
  EXPECT_TRUE(watch->not_ready(10).empty());
  EXPECT_TRUE(store.stop(10s));
}

TEST_P(ReservationStoreTest, ServersThatDoNotAnswerAreNamedAsTheCause) {
  Store store(options("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=300"), clock);
  const auto watch = store.watch({rule()});
  Asked asked = ask(*watch->reservations(spec), {wanted("1", "1")});
  auto grant = asked.get();
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error().code, ids::Errc::unavailable);
  EXPECT_THAT(grant.error().reason, HasSubstr("does not answer"));
  watch->await_first_inspection(10s);
  EXPECT_EQ(watch->readiness(0, database.name(), "orders").error.code, ids::Errc::unavailable);
  EXPECT_TRUE(store.stop(10s));
}

TEST_P(ReservationStoreTest, OrphansAreSweptInTheBackground) {
  ClockAhead time;
  const auto reserve_two = [&](Store& store, const std::string& first, const std::string& second) {
    const auto watch = store.watch({rule()});
    watch->await_first_inspection(10s);
    Asked asked = ask(*watch->reservations(spec), {wanted(first, "1"), wanted(second, "2")});
    auto grant = asked.get();
    ASSERT_TRUE(grant) << grant.error().reason;
    (void)grant->take();
  };
  database.insert("orders", R"({"_id": 1, "number": 1})");
  {
    Store yesterday(options(), time);
    reserve_two(yesterday, "1", "2");
    EXPECT_TRUE(yesterday.stop(10s));
  }
  time.advance(25h);
  Store store(options(), time);
  reserve_two(store, "3", "4");
  EXPECT_TRUE(comes_true([&] { return store.statistics().reservations_swept == 1; }));
  EXPECT_EQ(count(), 3U);
  EXPECT_TRUE(store.stop(10s));
}

/// The first number that a counter gives.
std::optional<std::int64_t> first_of(ids::BlockCache& cache) {
  std::vector<ids::Range> ranges;
  Answer answer;
  const ids::Ticket ticket = cache.ask(1, std::make_unique<Promise>(answer));
  auto grant = get(answer, 10s);
  return grant ? std::optional(grant->take().at(0).first) : std::nullopt;
}

TEST_P(ReservationStoreTest, ANewCounterBeginsBehindReservationsAndData) {
  for (const auto& [stored, reserved] : {std::pair(41, 7), std::pair(7, 41)}) {
    database.remove_all("orders");
    database.remove_all("orders__number");
    database.insert("orders", Document().add("number", stored));
    EXPECT_EQ(reserve(std::to_string(reserved), "\"a\""), State::made);
    Store store(options(), clock);
    const auto watch = store.watch({rule()});
    ids::CounterSpec counter;
    counter.place.db = database.name();
    counter.place.collection = "counters";
    counter.place.key = "c" + std::to_string(stored);
    counter.place.value_field = "V";
    const auto cache = watch->counter(counter, {spec.parent_ns, spec.parent_field, {}});
    EXPECT_EQ(first_of(*cache), 42) << stored;
    // The number may be there before the index has been seen.
    EXPECT_TRUE(comes_true([&] { return watch->not_ready(10).empty(); }));
    EXPECT_TRUE(store.stop(10s));
  }
}

}  // namespace reservation_store_test
}  // namespace idproxy::id_store::test
