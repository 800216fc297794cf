#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "idproxy/ids/reservations.hpp"
#include "support/fake_store.hpp"

namespace idproxy::test {

/// A proxy collection in memory. It answers when the test calls answer(). Numbers and texts only.
class FakeReservations final : public ids::Reservations {
 public:
  ids::Ticket reserve(std::shared_ptr<ids::ReservationBatch> batch,
                      std::unique_ptr<ids::Waiter> /*waiter*/) override {
    batch_ = std::move(batch);
    return {};
  }
  void release(ids::ReservationBatch made) noexcept override {
    for (const ids::Reservation& each : made) {
      calls += "release " + shown(each.value) + "; ";
      const auto found = all.find(shown(each.value));
      if (found != all.end() && found->second == shown(each.parent_id)) all.erase(found);
    }
  }
  /// Carries out the last reserve().
  void answer() {
    calls += "reserve";
    for (ids::Reservation& each : *batch_) {
      const std::string value = shown(each.value);
      calls += ' ' + value + '=' + shown(each.parent_id);
      each.at = ++at_;
      if (value == refused) {
        each.state = ids::Reservation::State::refused;
        each.code = 53;
        each.error = "The '_id' value cannot be of type array";
        continue;
      }
      const auto [found, is_new] = all.emplace(value, shown(each.parent_id));
      const bool is_own = found->second == shown(each.parent_id);
      each.state = is_new   ? ids::Reservation::State::made
                   : is_own ? ids::Reservation::State::own
                            : ids::Reservation::State::taken;
    }
    calls += "; ";
    batch_.reset();
  }

  std::map<std::string, std::string> all;  ///< documents' _ids by value
  std::string calls;                       ///< "reserve 1=100 2=101; release 2; …"
  std::string refused;                     ///< this value cannot be reserved

 private:
  static std::string shown(const ids::TypedValue& value) {
    switch (value.type) {
      case bson::Type::int32:
        return std::to_string(load_i32(as_bytes(value.bytes).data()));
      case bson::Type::int64:
        return std::to_string(load_i64(as_bytes(value.bytes).data()));
      case bson::Type::string:
        return value.bytes.substr(4, value.bytes.size() - 5);
      default:
        return "of type " + std::to_string(static_cast<int>(value.type));
    }
  }
  std::shared_ptr<ids::ReservationBatch> batch_;
  std::int64_t at_ = 0;
};

/// A store that has these reservations.
class ReservingStore final : public FakeStore {
 public:
  explicit ReservingStore(std::shared_ptr<FakeReservations> reservations)
      : reservations_(std::move(reservations)) {}
  std::shared_ptr<ids::Reservations> reservations(const ids::ReserveSpec& /*spec*/) override {
    return reservations_;
  }

 private:
  std::shared_ptr<FakeReservations> reservations_;
};

}  // namespace idproxy::test
