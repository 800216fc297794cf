#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/ids/store.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

/// Room for the indexes of a client's createIndexes that the server has refused because there are
/// others like them. If these are the proxy's own, the store makes others in their place that are
/// not in the way, and then drops them. Thread-safe.
class IndexRoom final : public StoreSource,
                        public Waiters,
                        public std::enable_shared_from_this<IndexRoom> {
 public:
  /// Tells the store. Called on any thread, without the lock; must not block.
  using Tell = std::function<void(std::shared_ptr<IndexRoom>)>;

  /// `indexes`: the array in the command. Empty `tell`: nobody makes room.
  IndexRoom(CatalogChange in, Bytes indexes, Tell tell);

  [[nodiscard]] const CatalogChange& in() const { return in_; }
  [[nodiscard]] Bytes indexes() const { return as_bytes(indexes_); }

  /// `waiter` gets an empty grant once there is room, or an error if no index of the proxy's own is
  /// in the way, or it has to stay. Once.
  [[nodiscard]] Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) override;
  /// An index of a large collection takes long, as that of the client will.
  [[nodiscard]] std::chrono::nanoseconds patience() const override {
    return std::chrono::hours(24);
  }

  // ---- for the store

  void answer(const Result<void>& made);

 private:
  const CatalogChange in_;
  const std::string indexes_;
  const Tell tell_;
};

}  // namespace idproxy::ids
