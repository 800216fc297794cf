#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "idproxy/ids/source.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

/// The identity of a collection, as listCollections has it in info.uuid. A collection that is
/// dropped and made anew, or replaced by a rename, has another one.
using CollectionUuid = std::array<std::uint8_t, 16>;

/// The answer to the question whether a unique index guards a rule's field in one collection.
struct GuardState {
  enum class Kind {
    unknown,     ///< it has not been inspected, or something may have changed since
    guarded,     ///< a unique index is there
    unguarded,   ///< none is, and the proxy does not make it
    left_alone,  ///< it is a view or a time-series collection, to which no rule applies
  };
  Kind kind = Kind::unknown;
  Error error{};  ///< unknown, unguarded: why
  /// guarded: the collection that was inspected, if the server accepts `collectionUUID` in writes
  /// (6.0 and later).
  std::optional<CollectionUuid> uuid{};
};

/// The unique index that a rule demands in one collection, as the id store saw it last. A write
/// with a value of the rule is sent only while the state is `guarded`; if it is `unknown`, the
/// write asks, as for a value, and goes on once it is answered. Thread-safe: one lock, held for a
/// handful of instructions.
class Guard final : public StoreSource, public Waiters, public std::enable_shared_from_this<Guard> {
 public:
  /// How long the result of an inspection is valid, and the age at which a write has it renewed.
  static constexpr std::chrono::seconds kBelieved{10};
  static constexpr std::chrono::seconds kRenewed{8};

  /// A guard's request to the store.
  enum class Need {
    inspect,  ///< the indexes
    anew,     ///< the same, and which collection it is: the one that was inspected has gone
  };
  /// Tells the store. Called on any thread, without the guard's lock; must not block.
  using Tell = std::function<void(const Guard&, Need)>;

  /// `rule`: its index in file order. `tell` may still be empty, and is read at each call.
  Guard(std::size_t rule, std::string db, std::string collection, std::shared_ptr<const Tell> tell);

  [[nodiscard]] std::size_t rule() const { return rule_; }
  [[nodiscard]] const std::string& db() const { return db_; }
  [[nodiscard]] const std::string& collection() const { return collection_; }

  // ---- for writes

  /// `now`: monotonic.
  [[nodiscard]] GuardState state(std::chrono::nanoseconds now);
  /// True if state() is `guarded`; the store is not told to renew that.
  [[nodiscard]] bool is_guarded(std::chrono::nanoseconds now) const {
    return locked(mutex_, [&] {
      return state_.kind == GuardState::Kind::guarded && now - inspected_at_ < kBelieved;
    });
  }
  /// The server says that the collection with this UUID is not, or no longer, there.
  void gone(const CollectionUuid& uuid);
  /// Event: the server does not accept `collectionUUID`, so that state() has no UUID until the next
  /// inspection of the collection itself.
  void takes_no_uuid();

  /// `waiter` gets an empty grant once the state is guarded or left_alone; otherwise the error.
  [[nodiscard]] Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter) override;
  [[nodiscard]] std::string why_waiting() const override {
    return locked(mutex_, [&] { return state_.error.reason; });
  }
  void accept(Grant grant, Values& /*out*/) override { static_cast<void>(grant.take()); }

  // ---- for the store

  /// `inspected_at`: when the inspection began, monotonic. Answers nobody yet.
  void set(GuardState state, std::chrono::nanoseconds inspected_at);
  /// Answers those that wait, unless the state is unknown.
  void answer();

 private:
  void tell(Need need) const;

  const std::size_t rule_;
  const std::string db_;
  const std::string collection_;
  const std::shared_ptr<const Tell> tell_;

  // Under the lock.
  GuardState state_{GuardState::Kind::unknown,
                    {Errc::unavailable, "the collection has not been looked at yet"}};
  std::chrono::nanoseconds inspected_at_{};
  bool is_renewed_ = false;  // the store has been told to
};

}  // namespace idproxy::ids
