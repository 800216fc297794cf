#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "idproxy/ids/error.hpp"
#include "idproxy/ids/fill.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/values.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

/// Values of a space that fills up which no document had when the store looked them up. In such a
/// space most values drawn at random are taken; one query tells which of thousands are not, where
/// sending each of them would cost a duplicate. Each is handed out once. It may be stored by
/// somebody else meanwhile, so the server has the last word. Thread-safe: one lock, held for a
/// handful of instructions, and to copy values.
class FreeValues final : public Lender,
                         public Waiters,
                         public std::enable_shared_from_this<FreeValues> {
 public:
  /// As many candidates as one query has at most.
  static constexpr std::size_t kMostCandidates = 16'000;

  /// Draws at most `n` values of the space, all different. Called on the store's threads.
  using Draw = std::function<Values(std::size_t n)>;
  /// Tells the store to look them up. Called on any thread, without a lock of this object; must not
  /// block.
  using Tell = std::function<void(std::shared_ptr<FreeValues>)>;

  /// Empty `tell`: nobody looks them up. It may be set later, before the first call of ask().
  FreeValues(std::string db, std::string collection, std::string field, std::shared_ptr<Fill> fill,
             std::shared_ptr<const Tell> tell);

  [[nodiscard]] const std::string& db() const { return db_; }
  [[nodiscard]] const std::string& collection() const { return collection_; }
  [[nodiscard]] const std::string& field() const { return field_; }

  // ---- for strategies

  void draw_with(Draw draw) {
    locked(mutex_, [&] { draw_ = std::move(draw); });
  }
  /// True if `n` values should come from here, because of that many drawn blindly too many would be
  /// taken.
  [[nodiscard]] bool pays(std::size_t n) const;
  /// Appends `n` values; or none and returns false if there are not enough, or others wait for
  /// them.
  [[nodiscard]] bool take(std::size_t n, Values& out);
  /// Appends at most `n` values.
  void take_some(std::size_t n, Values& out);
  /// `waiter` gets a grant for take_granted(); or an error if no values can be found this way.
  [[nodiscard]] Ticket ask(std::size_t n, std::unique_ptr<Waiter> waiter);
  /// Appends the granted values, or fewer if some have turned out to be taken; returns how many
  /// were granted.
  std::size_t take_granted(Grant grant, Values& out);
  /// The store has not answered in time: pays() is false until it does.
  void give_up() {
    locked(mutex_, [&] { works_ = false; });
  }
  /// A value was taken, and others may be, too: what is held is of no use.
  void drop() {
    locked(mutex_, [&] { compact(granted_); });
  }

  void take_back(const std::vector<Range>& ranges) override;

  // ---- for the store

  /// Values to look up. Empty: none are needed any more.
  [[nodiscard]] Values candidates();
  /// The answer: which of the candidates some document has.
  void found(const Values& candidates, const std::vector<bool>& taken);
  /// There is no answer: pays() is false until works().
  void failed(const Error& error);
  /// Looking may work (again).
  void works() {
    locked(mutex_, [&] { works_ = true; });
  }

 private:
  [[nodiscard]] std::size_t held() const { return free_.size() - used_; }
  void append(std::size_t n, Values& out);
  std::size_t add(const Values& candidates, const std::vector<bool>& taken);
  void compact(std::size_t keep);
  void serve(After& after);
  /// Under the lock, and then carries out the effects without it.
  template <class Event>
  void handle(const Event& event);

  const std::string db_;
  const std::string collection_;
  const std::string field_;
  const std::shared_ptr<Fill> fill_;
  const std::shared_ptr<const Tell> tell_;

  // Under the lock.
  Draw draw_;
  Values free_;
  std::size_t used_ = 0;     // of free_, from the front
  std::size_t granted_ = 0;  // of the others, from the front: take_granted() gets them
  bool is_told_ = false;     // the store has been told, and has not answered
  bool works_ = true;
};

}  // namespace idproxy::ids
