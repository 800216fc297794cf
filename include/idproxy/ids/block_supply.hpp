#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/held_numbers.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/ids/refill_pace.hpp"

namespace idproxy::ids {

/// When an event happens, and who waits.
struct Moment {
  std::chrono::nanoseconds now;  ///< monotonic
  std::uint64_t needed = 0;      ///< numbers that waiting requests need; 0: none waits
};

/// The caller's tasks after an event; by default none.
struct SupplyAction {
  std::vector<Range> lost{};        ///< unused numbers that the counter has passed: for the log
  bool wake = false;                ///< wake the store, so that it calls begin() soon
  std::optional<CounterJob> job{};  ///< to be done by the store
  /// If set, answer every waiting request: with numbers if enough are held, else with this error.
  std::optional<Error> refusal{};
  BlockOutcome outcome = BlockOutcome::used;  ///< what finish() returns
};

/// A process's knowledge of a counter when it sends a command that reads it.
struct WatchMark {
  Int128 end;                ///< the number after the last that the store gave
  std::uint64_t gives_back;  ///< how often numbers were about to be given back
};

/// Decides when to ask the store for numbers of one counter, and what its answers mean for the
/// numbers that the process holds. For each event it returns what the caller must do for the
/// waiting requests and the store. It has no clock and no lock: the time is in the Moment. Not
/// thread-safe.
///
/// At most one job is under way:
///
///            wanted, ran_low, queued, …            begin: a job
///     idle ─────────────────────────────▶ woken ────────────────▶ asking
///      ▲ ▲                                  │ begin: none            │
///      │ └──────────────────────────────────┘                        │
///      └─────────────────────────────── finish ──────────────────────┘
///
/// In `idle`, begin() may also come because due() has passed; it then leads to `asking` or back to
/// `idle`. In addition, the supply remembers how the store last answered:
///
///     answers ── failed while requests wait ──▶ down ── any other answer ──▶ as the answer says
///        ├────── exhausted ──▶ exhausted ── after 60 s, or a reload: asked again
///        └──────── pending ──▶ prepares ── any other answer ──▶ as the answer says
///
/// After a failure the supply asks again every 250 ms, as long as there is demand. While the store
/// prepares the counter, it asks every 100 ms, and requests wait. A heal is due
/// after duplicates, after the counter went back, or from the start (heal.at_start). Until it is
/// done, every job is a heal.
///
/// Only jobs move the counter or learn where it stands: what watched() is told may be old, so it
/// leads to a job that confirms it, and nothing else.
class BlockSupply {
 public:
  using Time = std::chrono::nanoseconds;

  /// How long to wait after a refused heal before the next one.
  static constexpr std::chrono::seconds kNoHealFor{60};
  /// How long to wait before asking the store about an exhausted counter again.
  static constexpr std::chrono::seconds kExhaustedFor{60};
  /// How soon to ask the store again after a failure, while there is demand.
  static constexpr std::chrono::milliseconds kRetryAfter{250};
  /// How soon to ask again while the store prepares the counter.
  static constexpr std::chrono::milliseconds kNotYetFor{100};
  /// How long a counter is watched after the last request for numbers.
  static constexpr std::chrono::seconds kWatchedFor{60};
  /// How long there is demand after the last request for numbers.
  static constexpr std::chrono::seconds kDemandLasts{10};
  /// For this long after a failure, requests are refused at once with its reason. Later, the store
  /// may have recovered without anybody having asked it: a request then asks it and waits for the
  /// answer.
  static constexpr std::chrono::seconds kFailureLasts{1};

  /// Borrows `stock`, with the numbers that the process holds, and changes it.
  BlockSupply(const CounterSpec& spec, HeldNumbers& stock);

  // ---- events of the stock

  /// A request wants more numbers than are held. Returns a refusal if it is useless to wait.
  [[nodiscard]] SupplyAction wanted(const Moment& at);
  /// A request has joined the queue.
  [[nodiscard]] SupplyAction queued(const Moment& at);
  /// Fewer numbers than threshold() are held, and the caller wakes the store.
  void ran_low() { state_ = State::woken; }
  /// Numbers have been put back.
  [[nodiscard]] SupplyAction put_back(const Moment& at);
  /// The caller has done what finish() returned.
  [[nodiscard]] SupplyAction settled(const Moment& at);

  // ---- events of inserts

  /// The server has reported `numbers` duplicates, none from before a heal. Starts a heal after as
  /// many in a row as the rule says, or at once.
  [[nodiscard]] SupplyAction collided(std::uint64_t numbers, bool heal_at_once, const Moment& at);
  /// An insert succeeded: ends the row of collisions.
  void went_well() { collisions_in_a_row_ = 0; }
  /// Nobody needs numbers for a while.
  [[nodiscard]] SupplyAction let_go(const Moment& at);

  // ---- events of the store: begin() and finish() alternate

  [[nodiscard]] SupplyAction begin(const Moment& at);
  /// settled() must follow.
  [[nodiscard]] SupplyAction finish(CounterReply reply, const Moment& at);

  // ---- watching: the store reads the counter now and then, beside the jobs

  /// Call it before the counter is read. Nothing: it need not be read.
  [[nodiscard]] std::optional<WatchMark> watch_mark(const Moment& at);
  /// The counter was read after watch_mark() had returned `mark`: its next number would be `next`.
  [[nodiscard]] SupplyAction watched(std::int64_t next, const WatchMark& mark, const Moment& at);

  // ---- events of the process

  [[nodiscard]] SupplyAction stop();
  /// Adopts a changed rule, whose place and step must be those of the old one.
  void change(const CounterSpec& spec);
  /// If the counter is exhausted, asks the store again at the next request.
  void ask_again();

  // ---- state between events

  /// Below this, the caller must call ran_low() and wake the store; 0 if begin() will come anyway,
  /// or has no use for it.
  [[nodiscard]] std::uint64_t threshold() const;
  /// When to call begin() without being woken; nothing: never.
  [[nodiscard]] std::optional<Time> due() const;
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] bool asking() const { return state_ == State::asking; }
  /// True if nothing is under way or pending.
  [[nodiscard]] bool idle() const { return state_ == State::idle && heal_ == Heal::none; }
  [[nodiscard]] bool exhausted() const { return store_ == Store::exhausted; }
  /// True if it is exhausted because its max is reached, which no index or privilege changes.
  [[nodiscard]] bool at_max() const;
  [[nodiscard]] bool pending() const { return store_ == Store::prepares; }
  /// Why the store is down, the counter exhausted, or the store still prepares it.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// True if a request was refused since the counter was found exhausted.
  [[nodiscard]] bool refused() const { return refused_; }
  /// The rule's heal.after.
  [[nodiscard]] std::uint32_t heals_after() const { return spec_.heal.after; }
  /// Numbers in the next block.
  [[nodiscard]] std::uint64_t block_size() const { return pace_.size(); }

 private:
  enum class State {
    idle,
    woken,   // the store has been told to call begin()
    asking,  // job_ is under way
  };
  enum class Store {
    answers,
    down,       // the last job failed while requests waited: reason_, failed_at_
    prepares,   // the counter has no numbers yet: reason_; requests wait
    exhausted,  // the counter has no numbers: reason_; not asked before exhausted_until_
  };
  enum class Heal {
    none,
    due,
    due_after_loss,  // the counter went back: it gives no numbers until it is healed
  };

  [[nodiscard]] bool refuses(Time now) const;
  [[nodiscard]] bool wants_refill(const Moment& at) const;
  [[nodiscard]] bool may_ask(const Moment& at) const;
  void request(const Moment& at, SupplyAction& action);
  [[nodiscard]] bool has_work(const Moment& at) const;
  [[nodiscard]] std::optional<CounterJob> next_job(const Moment& at, SupplyAction& action);
  [[nodiscard]] CounterJob refill(const Moment& at);
  [[nodiscard]] std::optional<CounterJob> give_back(SupplyAction& action);
  void note_demand(const Moment& at);

  [[nodiscard]] bool is_auto() const { return !spec_.block.size; }
  void schedule_return(const Moment& at);
  void schedule_idle_check(const Moment& at);
  [[nodiscard]] bool is_over(const Moment& at) const;

  void allocated(Range range, const Moment& at, SupplyAction& action);
  void use(Range range, const Moment& at, SupplyAction& action);
  void went_back(const Moment& at, SupplyAction& action);
  void gave_back(CounterReply::Kind kind, SupplyAction& action);
  void confirmed(CounterReply reply, const Moment& at, SupplyAction& action);
  void kept(const std::vector<Range>& taken);
  void not_healed(std::string reason, const Moment& at, SupplyAction& action);
  void failed(std::string reason, const Moment& at, SupplyAction& action);
  void not_yet(std::string reason, const Moment& at);
  void exhaust(std::string reason, Time now, bool refuses_somebody, SupplyAction& action);
  void answers_again();
  void decide_to_heal(Heal heal);

  HeldNumbers& stock_;
  bool stopped_ = false;
  const Steps steps_;
  CounterSpec spec_;
  RefillPace pace_;

  State state_ = State::idle;
  CounterJob job_{};      // of State::asking
  bool changed_ = false;  // the rule has changed since the job began

  Store store_ = Store::answers;
  std::string reason_;
  Time failed_at_{};
  Time exhausted_until_{};
  bool refused_ = false;
  bool fetches_ahead_ = true;     // false from a failure until the store answers
  std::optional<Time> retry_at_;  // after a failure: the next attempt; unset once demand ends

  Heal heal_;
  std::optional<Time> heal_not_before_;
  std::uint64_t collisions_in_a_row_ = 0;

  std::uint64_t seen_taken_ = 0;
  Time demand_at_{};

  bool resting_ = false;  // numbers went back unused: refill only if requests wait
  bool let_go_ = false;   // all that is held goes back at once
  // auto: when the rest of the last block goes back, and of earlier blocks
  std::optional<Time> over_at_;
  std::optional<Time> older_over_at_;
  // fixed sizes: when to check whether numbers lie idle
  std::optional<Time> idle_check_;
  std::uint64_t idle_taken_ = 0;  // numbers handed out at idle_since_
  Time idle_since_{};

  bool suspect_ = false;          // the counter seems to have gone back: to be confirmed
  std::uint64_t gives_back_ = 0;  // see WatchMark
};

}  // namespace idproxy::ids
