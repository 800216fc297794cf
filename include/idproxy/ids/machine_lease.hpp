#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "idproxy/ids/error.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

/// The parts of a snowflake, from the highest bits on: its time in units since the epoch, machine
/// number, sequence; with `machine_last`, the sequence before the machine number. Time and sequence
/// together are a position: ids of one machine number ascend as their positions do.
struct SnowflakeLayout {
  std::int64_t epoch = 1'704'067'200'000;  ///< milliseconds since 1970
  std::int64_t unit = 1;                   ///< milliseconds
  unsigned time_bits = 41;
  unsigned machine_bits = 10;
  unsigned sequence_bits = 12;
  bool machine_last = false;
  /// In a unit that the clock begins, the sequence starts at random in its lower half, not at 0.
  bool random_start = false;
  /// Of what an id consists of: how long time lasts and where a sequence starts makes no other ids.
  friend std::weak_ordering operator<=>(const SnowflakeLayout& a, const SnowflakeLayout& b) {
    const auto parts = [](const SnowflakeLayout& its) {
      return std::tie(its.epoch, its.unit, its.machine_bits, its.sequence_bits, its.machine_last);
    };
    return parts(a) <=> parts(b);
  }

  [[nodiscard]] std::int64_t unit_at(std::int64_t milliseconds) const {
    const std::int64_t since = milliseconds - epoch;
    return since / unit - (since % unit < 0 ? 1 : 0);
  }
  [[nodiscard]] std::int64_t time_of(std::int64_t unit_number) const {
    return epoch + unit_number * unit;
  }
  [[nodiscard]] std::int64_t last_unit() const { return (std::int64_t{1} << time_bits) - 1; }
  [[nodiscard]] std::int64_t sequence_mask() const {
    return (std::int64_t{1} << sequence_bits) - 1;
  }
  [[nodiscard]] std::int64_t id(std::int64_t position, std::int64_t machine) const {
    if (machine_last) return position << machine_bits | machine;
    return position >> sequence_bits << (machine_bits + sequence_bits) | machine << sequence_bits |
           (position & sequence_mask());
  }
  [[nodiscard]] std::int64_t machine_in(std::int64_t id) const {
    return id >> (machine_last ? 0 : sequence_bits) & ((std::int64_t{1} << machine_bits) - 1);
  }
  [[nodiscard]] std::int64_t position_in(std::int64_t id) const {
    if (machine_last) return id >> machine_bits;
    return id >> (machine_bits + sequence_bits) << sequence_bits | (id & sequence_mask());
  }
};

/// What the rules say of the machine number that they share.
struct LeaseSpec {
  std::string name{};      ///< empty: none; nobody else knows of `id`
  std::string store_db{};  ///< the id store's database
  std::chrono::milliseconds ttl{30'000};
  std::optional<std::int32_t> id{};  ///< this number and no other
  std::int32_t numbers = 1;          ///< 0 to below this
  friend bool operator==(const LeaseSpec&, const LeaseSpec&) = default;
  [[nodiscard]] bool may_have(std::int32_t number) const {
    return number >= 0 && number < numbers && id.value_or(number) == number;
  }
  /// Identifies it among all of a process.
  [[nodiscard]] std::string key() const { return id ? name + "/" + std::to_string(*id) : name; }
};

/// A task for the store. Times of the wall clock are in milliseconds since 1970.
struct LeaseJob {
  enum class Kind {
    claim,    ///< a number whose lease has ended, and whose ceiling is not above `most_ceiling`
    renew,    ///< the lease on `number`, if nobody has claimed it
    release,  ///< the same; ids have times up to `ceiling`
  };
  Kind kind;
  LeaseSpec spec;
  std::int32_t number = 0;
  std::int64_t ceiling = 0;  ///< to raise the stored one to, or, of `release`, to set it to
  std::int64_t most_ceiling = 0;
  std::chrono::nanoseconds begun{};  ///< monotonic
};

struct LeaseReply {
  enum class Kind {
    held,  ///< claim, renew: `number`, `ceiling`; of a claim, `floor`: the ceiling found
    gone,  ///< renew: another owner has the number, or its document is gone
    none,  ///< claim: no number is free, for `error`
    failed,
    released,
  };
  Kind kind;
  std::int32_t number = 0;
  std::int64_t floor = 0;
  std::int64_t ceiling = 0;
  Error error{};
};

/// This process's machine number under one lease, and the positions of its ids, a sequence for each
/// layout, so that rules with the same layout, also those before and after a reload, never make an
/// id twice. Knows no store: begin() says what that should do next. Thread-safe; answers requests
/// and wakes the store after it has released its lock.
///
/// An id's time lies above the ceiling that was found with the claim, and not above the one that
/// this process has stored: whoever holds the number later, no clock can repeat an id.
class MachineLease final : public Queue, public std::enable_shared_from_this<MachineLease> {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic

  /// A number whose ids' times are further ahead of the clock is left to others.
  static constexpr std::int64_t kMostAhead = 1000;
  /// How soon to try again what has failed.
  static constexpr std::chrono::seconds kClaimAgain{2};
  static constexpr std::chrono::seconds kRenewAgain{1};
  /// For this long after a failure, requests are refused at once.
  static constexpr std::chrono::seconds kFailureLasts{1};

  /// `wake` makes the store call begin() soon; it must be callable from any thread and never block.
  /// `process_used`: the time up to which any lease of this process has made ids.
  MachineLease(LeaseSpec spec, const Sources& sources, std::function<void()> wake,
               std::shared_ptr<std::atomic<std::int64_t>> process_used);

  /// A rule of the same list shares it, and perhaps has fewer numbers or a shorter ttl; or the
  /// first one of a newer list, `anew`, says what holds from now on.
  enum class Rules { more, anew };
  void share(const LeaseSpec& spec, Rules rules);
  /// Another user: claims a number before the first request comes.
  void announce();
  [[nodiscard]] LeaseSpec spec() const {
    return locked(mutex_, [&] { return spec_; });
  }

  // ---- for requests

  /// The first of `n` ids, the others of which follow it, if they can be had now. Nothing: ask().
  [[nodiscard]] std::optional<Result<std::int64_t>> take(const SnowflakeLayout& layout,
                                                         std::uint64_t n);
  /// Queues a request. The grant has one range, of take()'s id and `n`.
  [[nodiscard]] Ticket ask(const SnowflakeLayout& layout, std::uint64_t n,
                           std::unique_ptr<Waiter> waiter);
  void cancel(std::uint64_t ticket) override;
  [[nodiscard]] std::string why_waiting() const;

  // ---- for the store: begin() and finish() alternate

  /// Serves those whose time has come, and returns the next job; nothing: there is none now.
  [[nodiscard]] std::optional<LeaseJob> begin();
  void finish(const LeaseReply& reply);
  /// When to call begin() without being woken; nothing: never.
  [[nodiscard]] std::optional<Time> due() const;
  /// Refuses requests from now on, and has the number released.
  void stop();
  /// A user goes. The last one has the number released, until somebody calls announce().
  void let_go();
  /// The number in use; nothing: there is none now.
  [[nodiscard]] std::optional<std::int32_t> number() const;
  /// Why there is none; nothing if there is, or if nobody has looked yet.
  [[nodiscard]] std::optional<Error> failure() const;
  /// True if there is a number to release, or a job is under way.
  [[nodiscard]] bool is_busy() const {
    return locked(mutex_, [&] { return is_leased() && (number_ || working_); });
  }

 private:
  struct Positions {
    std::int64_t next = 0;   // to use; that is set as the start of the first one that waits
    std::int64_t clock = 0;  // the highest unit that the clock has shown
    bool is_set = false;
    SnowflakeLayout layout{};  // of the newest request that waits
    WaitList waiting{};
  };

  /// Calls event(after) under the lock, and carries out `after` without it.
  template <class Event>
  void handle(const Event& event) {
    locked(mutex_, wake_, event);
  }

  // The caller of all that follows holds the lock.
  [[nodiscard]] bool is_leased() const { return !spec_.name.empty(); }
  [[nodiscard]] bool is_good() const;
  Positions& positions_of(const SnowflakeLayout& layout);
  void begin_behind_used(const SnowflakeLayout& layout, Positions& positions);
  [[nodiscard]] std::optional<Result<std::int64_t>> try_take(const SnowflakeLayout& layout,
                                                             Positions& positions, std::uint64_t n);
  void serve(After& after);
  [[nodiscard]] std::optional<LeaseJob> next_job();

  const Sources sources_;
  const std::function<void()> wake_;
  const std::shared_ptr<std::atomic<std::int64_t>> process_used_;

  mutable std::mutex mutex_;  // guards all that follows
  LeaseSpec spec_;
  std::map<SnowflakeLayout, Positions> positions_;
  std::uint64_t last_ticket_ = 0;
  std::optional<std::int32_t> number_;
  // The times up to which ids of this number may have been made, and, before the first one of this
  // lease, those of others of the process, which may have had the same number.
  std::int64_t used_ = 0;
  std::int64_t others_used_ = 0;
  bool has_made_ids_ = false;
  std::int64_t ceiling_ = std::numeric_limits<std::int64_t>::max();
  Time good_until_ = Time::max();
  Time next_try_{};  // of a claim, or a renewal
  std::optional<LeaseJob> working_;
  std::optional<Error> failure_;  // of the last job
  Time failed_at_{};
  std::string lost_;            // why the last number is gone, until there is another one
  bool is_at_ceiling_ = false;  // a request needs a time above it
  unsigned users_ = 0;
  bool stopping_ = false;
};

}  // namespace idproxy::ids
