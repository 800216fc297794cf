#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/ids/refill_pace.hpp"

namespace idproxy::ids {

/// What the store is to do for one counter.
struct CounterJob {
  enum class Kind {
    allocate,   ///< move the counter on by `count` numbers; create it if it is not there
    heal,       ///< raise it past all that is stored, then as allocate
    give_back,  ///< if nobody has allocated since, set it back to `unused.first`
  };
  Kind kind;
  std::uint64_t count = 0;  ///< > 0
  /// Every new number must lie beyond this one: the last that this process was ever given.
  std::optional<std::int64_t> beyond{};
  /// heal: the counter has gone back, or its document had vanished, while this process (and perhaps
  /// others) held numbers of it.
  bool lost = false;
  Range unused{};  ///< give_back: the numbers that nobody was given, up to the counter's value
};

/// What came of a job.
struct CounterReply {
  enum class Kind {
    allocated,   ///< `range`; allocate and heal
    given_back,  ///< the counter has been set back
    kept,        ///< give_back: others have allocated since; the numbers are still ours
    not_sent,    ///< give_back: no server was there; the numbers are still ours
    not_healed,  ///< heal, unless it is `lost`: `reason`; the counter goes on where it stands
    exhausted,   ///< `reason`; nothing more is asked for 60 s
    failed,      ///< `reason`: the store could not be asked, or what it did may be undone
  };
  Kind kind;
  Range range{};
  std::string reason{};
};

/// What became of the numbers of a reply.
enum class Outcome {
  used,
  dropped,    ///< nobody gets them: the counter is about to be healed, or the reply made no sense
  went_back,  ///< dropped: they lie behind what this process got before; a heal follows, if allowed
};

/// Why a counter that has come to its end gives nothing, whoever finds out.
[[nodiscard]] std::string handed_out_up_to(std::int64_t max);

/// The numbers of one counter that this process holds, and who waits for more. Thread-safe: one
/// lock, held for a handful of instructions per insert command. Shared ownership: strategies of
/// several rules, grants under way and the store refer to it.
///
/// Numbers leave in their order. Whoever finds too few queues up; the store is woken when the rest
/// falls below a threshold (docs/strategies.md#block-size), so that in steady state nobody queues.
/// At most one job is out. Askers are answered, and the store is woken, outside the lock.
class BlockCache final : public Lender, public std::enable_shared_from_this<BlockCache> {
 public:
  static constexpr std::size_t kMostWaiting = 65'536;
  /// A heal that was refused is not tried again for so long.
  static constexpr std::chrono::seconds kNoHealFor{60};
  /// An exhausted counter is not asked again for so long.
  static constexpr std::chrono::seconds kExhaustedFor{60};
  /// After a failure the store is asked again so soon, while there is demand ...
  static constexpr std::chrono::milliseconds kRetryAfter{250};
  /// ... which there is if numbers were wanted within this time.
  static constexpr std::chrono::seconds kDemandLasts{10};
  /// So long after a failure whoever wants numbers is told of it at once. Later the store may be
  /// back, and nobody may have asked: it is asked then, and its answer waited for.
  static constexpr std::chrono::seconds kFailureLasts{1};

  /// `wake`: makes the store call begin() soon; callable from any thread, never blocks. `clock`
  /// outlives the cache.
  BlockCache(CounterSpec spec, const Clock& clock, std::function<void()> wake);

  /// What the rule says from now on; place and step are those of before. Numbers that are held
  /// stay, but for those beyond a new max. Another block size counts from the next block on;
  /// `start` and heal.at_start count for a counter that is new. One that was exhausted is asked
  /// again. Does not wake the store, which should call begin() soon.
  void change(const CounterSpec& spec);
  /// If it was exhausted, the next who wants numbers makes the store be asked.
  void ask_again();

  // ---- for strategies

  [[nodiscard]] std::int64_t step() const { return steps_.step(); }
  /// heal.after of the rule.
  [[nodiscard]] std::uint32_t heals_after() const;

  /// Takes `n` numbers, as up to a few ranges in their order, appended to `out`. Errc::pending:
  /// ask() waits for them; nothing has been appended then.
  [[nodiscard]] Result<void> take(std::uint64_t n, std::vector<Range>& out);
  /// First come, first served, at most kMostWaiting. Answered at once if the numbers have come
  /// meanwhile.
  [[nodiscard]] Ticket ask(std::uint64_t n, std::unique_ptr<Asker> asker);
  void cancel(std::uint64_t ticket) override;
  /// Numbers that are used nowhere go to the front. Numbers from before a heal are dropped.
  void take_back(const std::vector<Range>& ranges) override;
  /// Each of `numbers` turned out to be taken already. Heals after as many in a row as the rule
  /// says, or at once; until that is done, take() is pending. Numbers from before the last heal do
  /// not count.
  void collided(const std::vector<std::int64_t>& numbers, bool heal_at_once);
  /// Ends the row of collisions.
  void went_well();

  // ---- for the store: begin() and finish() alternate

  /// The next job, if there is one to do at this time. Nothing while one is out.
  [[nodiscard]] std::optional<CounterJob> begin();
  /// Wakes the store if there is more to do at once; due() may have changed.
  Outcome finish(CounterReply reply);
  /// When begin() should be called though nobody wakes the store: a retry after a failure, or the
  /// giving back of what is idle. Monotonic; nothing: never. Changes with begin() and finish().
  [[nodiscard]] std::optional<std::chrono::nanoseconds> due() const;
  /// Why whoever wanted numbers was told that the counter has none (Errc::exhausted); nothing:
  /// since numbers were allocated last, nobody was. The store is woken when it begins.
  [[nodiscard]] std::optional<std::string> refusal() const;
  /// The process ends: nobody is served any more, all who wait are told so, and begin() has at most
  /// give_backs left. Does not wake the store.
  void stop();
  /// True if it holds nothing worth remembering: it never got a number, and nobody waits.
  [[nodiscard]] bool forgettable() const;
  /// True if it never got a number.
  [[nodiscard]] bool is_new() const;
  /// True if it holds no number, and nobody waits: forgetting it forgets how far it had come.
  [[nodiscard]] bool is_empty() const;
  struct Figures {
    std::uint64_t held;        ///< numbers for the next who ask
    std::uint64_t block_size;  ///< of the next block
    std::size_t waiting;       ///< who has asked and got none yet
    bool exhausted;
    std::string reason;  ///< why it is exhausted
  };
  [[nodiscard]] Figures figures() const;

 private:
  using Time = std::chrono::nanoseconds;  // monotonic
  struct Waiter {
    std::uint64_t n;
    std::unique_ptr<Asker> asker;
  };
  /// What is done once the lock is free.
  struct After {
    bool wake = false;
    std::vector<std::pair<std::unique_ptr<Asker>, Result<Grant>>> answers;

    void run(const BlockCache& cache) {
      if (wake) cache.wake_();
      for (auto& [asker, grant] : answers) asker->answered(std::move(grant));
    }
  };

  // All of these under the lock.
  [[nodiscard]] bool has(std::uint64_t n) const;
  [[nodiscard]] Error why_not(Time now, After& after);
  void request_job(Time now, After& after);
  void rearm();
  void serve(After& after);
  void serve_or_refuse(const Error& error, After& after);
  [[nodiscard]] Grant grant(std::uint64_t n);

  [[nodiscard]] bool wants_refill() const;
  [[nodiscard]] bool may_ask(Time now) const;
  [[nodiscard]] std::optional<CounterJob> next_job(Time now);
  [[nodiscard]] CounterJob refill(Time now);
  void note_demand(Time now);
  void watch_idle(Time now);
  [[nodiscard]] bool lies_idle(Time now);
  [[nodiscard]] std::optional<Range> returnable() const;
  [[nodiscard]] CounterJob give_back(Range unused);

  [[nodiscard]] Outcome allocated(const CounterJob& job, Range range, Time now, After& after);
  [[nodiscard]] Outcome went_back(Time now, After& after);
  void use(Range range, Time now, After& after);
  void gave_back(const CounterJob& job, CounterReply::Kind kind);
  void exhausted(std::string reason, Time now, After& after);
  void failed(std::string reason, Time now, After& after);
  void answers_again();
  void not_healed(const CounterJob& job, std::string reason, Time now, After& after);
  void decide_to_heal();
  void put_back_aside();
  void clip(NumberRanges& numbers);
  void take_what_was_beyond_max();

  const Steps steps_;
  const Clock& clock_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;  // guards all that follows
  CounterSpec spec_;
  NumberRanges free_;
  std::uint64_t trigger_ = 0;                // fewer numbers than this wake the store
  std::uint64_t taken_ = 0;                  // numbers that ever left
  std::map<std::uint64_t, Waiter> waiting_;  // by ticket
  std::uint64_t tickets_ = 0;
  std::uint64_t needed_ = 0;  // by all who wait
  bool stopped_ = false;

  RefillPace pace_;
  std::optional<CounterJob> out_;
  bool woken_ = false;                // and begin() has not come yet
  bool resting_ = false;              // given back for idleness: only who waits makes it refill
  std::optional<Int128> end_;         // behind all numbers that this process was given
  std::optional<Int128> usable_end_;  // the same, but for those beyond max
  Int128 valid_from_ = 0;             // numbers in front of it are from before a heal; with end_
  bool others_went_on_ = false;       // the counter's value is not end_ any more

  bool heal_;  // before anything else is done
  bool lost_ = false;
  NumberRanges aside_;           // what was held before: of use if there is no heal after all
  Int128 aside_valid_from_ = 0;  // valid_from_ then
  std::optional<Time> heal_not_before_;
  std::uint64_t in_a_row_ = 0;

  bool down_ = false;             // the last job failed whoever waited for it
  bool failed_ = false;           // the last job, whether or not anybody waited
  std::optional<Time> retry_at_;  // not before; reset once nobody wants numbers
  Time failed_at_{};              // with failed_
  std::optional<Time> exhausted_until_;
  bool refused_ = false;  // somebody, for it is exhausted
  std::string reason_;    // why it is down or exhausted
  std::uint64_t seen_taken_ = 0;
  Time demand_at_{};

  std::optional<Time> idle_check_;  // when to look whether numbers lie idle
  std::uint64_t idle_taken_ = 0;    // taken_ then
  Time idle_since_{};
};

}  // namespace idproxy::ids
