#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/held_numbers.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/ids/refill_pace.hpp"

namespace idproxy::ids {

/// The stock of one counter's numbers when an event comes.
struct StockLevel {
  std::chrono::nanoseconds now;       ///< monotonic
  std::uint64_t held = 0;             ///< numbers for the next who ask
  std::uint64_t taken = 0;            ///< numbers that ever left
  std::uint64_t needed = 0;           ///< by all who wait; 0: nobody waits
  std::optional<Int128> end{};        ///< behind all numbers that this process was given
  std::optional<Range> unused_end{};  ///< up to `end`, and in nobody's hands
};

/// What is to be done after an event; by default nothing.
struct SupplyAction {
  enum class Stock {
    keep,             ///< it stays as it is
    add,              ///< `range` is handed out
    replace,          ///< `range` is handed out, and no number of before any more
    skip,             ///< nothing of `range` is handed out: it was allocated before a heal
    set_aside,        ///< nothing that is held is handed out before the heal has come to its end
    restore,          ///< there is no heal: what was set aside is handed out
    drop,             ///< nothing that is held is handed out any more
    drop_and_heal,    ///< the same, and nothing is put in before the heal has come to its end
    take_unused_end,  ///< it is given back
    put_unused_end,   ///< `range`: it was not given back
    cut,              ///< `range`: it was, or may have been
  };
  Stock stock = Stock::keep;
  Range range{};
  bool wake = false;                ///< the store is to call begin() soon
  std::optional<CounterJob> job{};  ///< for the store
  /// Those who wait for more than there is are answered with it; nobody is left waiting.
  std::optional<Error> refusal{};
  BlockOutcome outcome = BlockOutcome::used;  ///< of finish()
};

/// Does what `action` says to the stock.
void change_stock(HeldNumbers& stock, const SupplyAction& action);

/// Decides when the store is asked for numbers of one counter, and what its answers mean. Every
/// event returns what the stock, those who wait and the store have to do. No clock, no lock: the
/// time is in the StockLevel. Not thread-safe.
///
/// At most one job is out:
///
///            wanted, ran_low, queued, …            begin: a job
///     idle ─────────────────────────────▶ woken ────────────────▶ asking
///      ▲ ▲                                  │ begin: none            │
///      │ └──────────────────────────────────┘                        │
///      └─────────────────────────────── finish ──────────────────────┘
///
/// begin() may come in `idle` too, when due() has passed, and then leads to `asking` or nowhere.
/// Beside that, the supply remembers how the store has answered:
///
///     answers ── failed, and somebody waits ──▶ down ── any other answer ──▶ as the answer says
///        └────── exhausted ──▶ exhausted ── after 60 s, or a reload: asked again
///
/// `down` and every failure are tried again every 250 ms, as long as there is demand. A heal is due
/// after duplicates, or because the counter went back; until it is done, every job is a heal.
class BlockSupply {
 public:
  using Time = std::chrono::nanoseconds;

  /// A heal that was refused is not tried again for so long.
  static constexpr std::chrono::seconds kNoHealFor{60};
  /// An exhausted counter is not asked again for so long.
  static constexpr std::chrono::seconds kExhaustedFor{60};
  /// After a failure the store is asked again so soon, while there is demand ...
  static constexpr std::chrono::milliseconds kRetryAfter{250};
  /// ... which there is if numbers were wanted within this time.
  static constexpr std::chrono::seconds kDemandLasts{10};
  /// So long after a failure whoever wants numbers gets it as the answer at once. Later the store
  /// may be back, and nobody may have asked: it is asked then, and its answer waited for.
  static constexpr std::chrono::seconds kFailureLasts{1};

  explicit BlockSupply(const CounterSpec& spec);

  // ---- events of the stock

  /// More numbers are wanted than are held. Refused, or it is worth while to wait.
  [[nodiscard]] SupplyAction wanted(const StockLevel& level);
  /// Somebody waits now.
  [[nodiscard]] SupplyAction queued(const StockLevel& level);
  /// Fewer numbers than threshold() are held, and the store is being woken.
  void ran_low() { state_ = State::woken; }
  /// Numbers have been put back.
  [[nodiscard]] SupplyAction put_back(const StockLevel& level);
  /// The stock and those who wait have got what finish() returned.
  [[nodiscard]] SupplyAction settled(const StockLevel& level);

  // ---- events of inserts

  /// So many numbers, none from before a heal, turned out to be taken already. Heals after as many
  /// in a row as the rule says, or at once.
  [[nodiscard]] SupplyAction collided(std::uint64_t numbers, bool heal_at_once,
                                      const StockLevel& level);
  /// Ends the row of collisions.
  void went_well() { collisions_in_a_row_ = 0; }

  // ---- events of the store: begin() and finish() alternate

  [[nodiscard]] SupplyAction begin(const StockLevel& level);
  /// settled() must follow.
  [[nodiscard]] SupplyAction finish(CounterReply reply, const StockLevel& level);

  // ---- events of the process

  [[nodiscard]] SupplyAction stop();
  /// Place and step are those of before.
  void change(const CounterSpec& spec);
  /// If it was exhausted, it is asked again.
  void ask_again();

  // ---- what holds between events

  /// Fewer numbers than this make the store be woken; 0 if it comes anyway, or has no use for that.
  [[nodiscard]] std::uint64_t threshold() const;
  /// When begin() is due though nobody wakes the store; nothing: never.
  [[nodiscard]] std::optional<Time> due() const;
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] bool asking() const { return state_ == State::asking; }
  /// Nothing is under way or left to be done.
  [[nodiscard]] bool idle() const { return state_ == State::idle && heal_ == Heal::none; }
  [[nodiscard]] bool exhausted() const { return store_ == Store::exhausted; }
  /// Why the store is down, or the counter exhausted.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// True if somebody was refused since the counter was found exhausted.
  [[nodiscard]] bool refused() const { return refused_; }
  /// heal.after of the rule.
  [[nodiscard]] std::uint32_t heals_after() const { return spec_.heal.after; }
  /// Of the next block.
  [[nodiscard]] std::uint64_t block_size() const { return pace_.size(); }

 private:
  enum class State {
    idle,
    woken,   // begin() has not come yet
    asking,  // job_ is out
  };
  enum class Store {
    answers,
    down,       // the last job failed whoever waited for it: reason_, failed_at_
    exhausted,  // has no numbers: reason_; not asked before exhausted_until_
  };
  enum class Heal {
    none,
    due,
    due_after_loss,  // the counter has gone back: without a heal it gives nothing
  };

  [[nodiscard]] bool refuses(Time now) const;
  [[nodiscard]] bool wants_refill(const StockLevel& level) const;
  [[nodiscard]] bool may_ask(const StockLevel& level) const;
  void request(const StockLevel& level, SupplyAction& action);
  [[nodiscard]] std::optional<CounterJob> next_job(const StockLevel& level);
  [[nodiscard]] CounterJob refill(const StockLevel& level);
  void note_demand(const StockLevel& level);

  [[nodiscard]] std::optional<Range> returnable(const StockLevel& level) const;
  void watch_idle(const StockLevel& level);
  [[nodiscard]] bool lies_idle(const StockLevel& level) const;

  void allocated(Range range, const StockLevel& level, SupplyAction& action);
  void use(Range range, const StockLevel& level, SupplyAction& action);
  void went_back(const StockLevel& level, SupplyAction& action);
  void gave_back(CounterReply::Kind kind, SupplyAction& action);
  void not_healed(std::string reason, const StockLevel& level, SupplyAction& action);
  void failed(std::string reason, const StockLevel& level, SupplyAction& action);
  void exhaust(std::string reason, Time now, bool refuses_somebody, SupplyAction& action);
  void answers_again();
  void decide_to_heal(Heal heal);

  bool stopped_ = false;
  const Steps steps_;
  CounterSpec spec_;
  RefillPace pace_;

  State state_ = State::idle;
  CounterJob job_{};      // with asking
  bool changed_ = false;  // the rule, since the job began

  Store store_ = Store::answers;
  std::string reason_;
  Time failed_at_{};
  Time exhausted_until_{};
  bool refused_ = false;
  bool fetches_ahead_ = true;     // not after a failure, until the store answers
  std::optional<Time> retry_at_;  // after a failure: not before; reset once nobody wants numbers

  Heal heal_;
  std::optional<Time> heal_not_before_;
  std::uint64_t collisions_in_a_row_ = 0;

  std::uint64_t seen_taken_ = 0;
  Time demand_at_{};

  bool resting_ = false;            // given back for idleness: only who waits makes it refill
  bool moved_on_ = false;           // the counter's value is not the stock's end any more
  std::optional<Time> idle_check_;  // when to look whether numbers lie idle
  std::uint64_t idle_taken_ = 0;    // level.taken then
  Time idle_since_{};
};

}  // namespace idproxy::ids
