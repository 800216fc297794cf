#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "database.hpp"
#include "id_store/reservation_collection.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/ids/reservations.hpp"

namespace idproxy::id_store::test {

/// The system's wall clock, which a test can set forward.
class WallAhead final : public Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds wall() const override {
    return system_.wall() + std::chrono::nanoseconds(ahead_.load());
  }
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override { return system_.monotonic(); }
  void advance(std::chrono::nanoseconds by) { ahead_ += by.count(); }

 private:
  SystemClock system_;
  std::atomic<std::int64_t> ahead_{0};
};

/// The value of the only field of {v: value}.
inline ids::TypedValue typed(const std::string& value) {
  return value_of(*bson::find(json(R"({"v": )" + value + "}").bytes(), "v"));
}
inline ids::TypedValue typed(std::int64_t number) {
  return typed(R"({"$numberLong": ")" + std::to_string(number) + R"("})");
}
/// A reservation of the value for the document with this _id, both as JSON.
inline ids::Reservation wanted(const std::string& value, const std::string& parent) {
  return {.value = typed(value), .parent_id = typed(parent)};
}
inline std::vector<ids::Reservation*> pointers(ids::ReservationBatch& batch) {
  std::vector<ids::Reservation*> items;
  for (ids::Reservation& item : batch) items.push_back(&item);
  return items;
}

/// Reservations of the field `number` of "orders", in "orders__number".
class ReservationsTest : public testing::TestWithParam<ids::ReserveSpec::Layout> {
 protected:
  using State = ids::Reservation::State;
  using Layout = ids::ReserveSpec::Layout;

  ReservationsTest() { use(GetParam(), "number"); }
  void use(Layout layout, const std::string& field) {
    spec.db = database.name();
    spec.collection = "orders__number";
    spec.layout = layout;
    spec.parent_ns = database.name() + ".orders";
    spec.parent_field = field;
    spec.name = layout == Layout::id ? "_id" : field.substr(field.rfind('.') + 1);
    if (layout == Layout::field) {
      database.create_index("orders__number", spec.name, Database::Unique::yes);
    }
  }
  [[nodiscard]] ReservationCollection collection() {
    return {spec, ReservationCollection::Missing::create, clock, metrics};
  }
  std::optional<ids::Error> make(ids::ReservationBatch& batch) {
    mongo::Client client = pool().client(&metrics.round_trips);
    return collection().make(client, pointers(batch));
  }
  bool release(ids::ReservationBatch batch) {
    mongo::Client client = pool().client();
    return !collection().release(client, pointers(batch));
  }
  /// The state of a reservation that is made now.
  State reserve(const std::string& value, const std::string& parent) {
    ids::ReservationBatch batch{wanted(value, parent)};
    const auto failure = make(batch);
    EXPECT_FALSE(failure) << failure->reason;
    return batch.front().state;
  }
  std::size_t count() {
    std::size_t found = 0;
    mongo::Client client = pool().client();
    (void)client.read_all(database.name(), Document().add("find", spec.collection), [&](Bytes) {
      ++found;
      return true;
    });
    return found;
  }

  WallAhead clock;
  StoreMetrics metrics;
  Database database;
  ids::ReserveSpec spec;
};

inline std::string layout_name(const testing::TestParamInfo<ids::ReserveSpec::Layout>& info) {
  return info.param == ids::ReserveSpec::Layout::id ? "id" : "field";
}

}  // namespace idproxy::id_store::test
