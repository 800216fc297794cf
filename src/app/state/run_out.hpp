#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "idproxy/ids/store.hpp"
#include "idproxy/rewrite/rule.hpp"

namespace idproxy::app::state {

/// Finds the rules whose numbers run out: a hundredth of them is left, or fewer than a day takes at
/// the rate of the last hour; and when the numbers of the others end. One thread. Times are
/// monotonic.
class RunOut {
 public:
  using Time = std::chrono::nanoseconds;

  /// The limit that is near.
  enum class End {
    max,       ///< the numbers up to `max`
    lowest,    ///< those down to `max`, of a step that is negative
    length,    ///< hidden ones, of the values' length
    ranges,    ///< those of all ranges
    width,     ///< those of a template's width: then values get longer
    max_fill,  ///< of a space of random numbers
  };
  /// Of a counter's own numbers, which a field shows in this format.
  [[nodiscard]] static End end_of(const ids::CounterSpec& counter, const ids::NumberFormat& format);
  struct Warning {
    std::size_t rule_index;
    std::string ns;  ///< "db.collection"
    End end;
    std::uint64_t left;      ///< of the counter that has the fewest, if there are several
    std::uint64_t per_hour;  ///< how many were used within the last hour
    friend bool operator==(const Warning&, const Warning&) = default;
    /// "37 numbers are left up to max; at the rate of the last hour they last 20 minutes"
    [[nodiscard]] std::string text() const;
    /// The remedy, as half a sentence.
    [[nodiscard]] std::string_view way_out() const;
  };

  /// When the numbers of a counter end, if they are used as fast as lately.
  struct Outlook {
    std::uint64_t left;
    std::optional<Time> at_hour_rate{};  ///< from now; nothing: none was used within the hour
    std::optional<Time> at_day_rate{};   ///< the same for the day
    /// The earlier of them.
    [[nodiscard]] Time end() const {
      return std::min(at_hour_rate.value_or(Time::max()), at_day_rate.value_or(Time::max()));
    }
    friend bool operator==(const Outlook&, const Outlook&) = default;
  };

  /// `numbers`: of all collections of the rules; those of periods that have ended do not count. To
  /// be called every few seconds. `wall`: as Clock::wall().
  void update(const std::vector<rewrite::Rule>& rules, const std::vector<ids::RuleNumbers>& numbers,
              Time now, Time wall);
  /// By rule and collection, one for each.
  [[nodiscard]] const std::vector<Warning>& current() const { return current_; }
  /// By rule, of the counter that ends first; nothing for rules without counters.
  [[nodiscard]] const std::vector<std::optional<Outlook>>& outlooks() const { return outlooks_; }
  /// The warnings for the log: new ones, and earlier ones again every hour and whenever half of the
  /// numbers that were left has been used.
  [[nodiscard]] std::vector<Warning> take_news() { return std::exchange(news_, {}); }

 private:
  struct Sample {
    Time at;
    std::uint64_t left;
  };
  /// Some within the last day, the oldest first: close to each other within the last hour.
  using History = std::deque<Sample>;
  struct Told {
    Time at;
    std::uint64_t left;
  };

  /// How many were used within the last hour, and when all are.
  struct Use {
    std::uint64_t in_an_hour = 0;
    Outlook outlook;
  };
  [[nodiscard]] Use note(const std::string& key, std::uint64_t left, Time now);
  void add(Warning warning);
  void tell(const std::vector<rewrite::Rule>& rules, Time now);

  std::unordered_map<std::string, History> histories_;  // by field, collection and sequence
  std::map<std::string, Told> told_;                    // by field, end and collection
  std::vector<Warning> current_;
  std::vector<std::optional<Outlook>> outlooks_;
  std::vector<Warning> news_;
};

}  // namespace idproxy::app::state
