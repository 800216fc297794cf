#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "idproxy/base/finding.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/rewrite/rule_outcomes.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app::state {

/// Collects the writes that the proxy has refused: for the status those of the last minute, and for
/// the log one line a minute for each rule, namespace and reason (writes_refused). One thread.
/// Times are monotonic.
class Refusals {
 public:
  using Time = std::chrono::nanoseconds;

  /// For so long after the last one, they are news.
  static constexpr std::chrono::seconds kLately{60};

  struct Refused {
    std::size_t rule_index;
    std::string ns;
    std::string reason;
    std::uint64_t writes;  ///< since there was a minute without any
    /// The transaction that the last one waited for, and how long that had held its number; null:
    /// none.
    std::shared_ptr<const ids::NumberHolder> holder;
    Time held_for{};
    bool is_over = false;  ///< the last one is some seconds old, and the transaction may have ended
    /// "6 inserts refused; the number is held by a transaction of connection 12 (shop), for 6 s"
    [[nodiscard]] std::string text() const;
  };

  /// To be called about once a second.
  void update(const rewrite::RuleSet& rules, Time now);
  /// Event: the proxy ends, or gets other rules. Logs what is left to be said, and forgets all.
  void finish(const rewrite::RuleSet& rules, Time now);
  [[nodiscard]] std::vector<Refused> current(Time now) const;

 private:
  using Key = std::tuple<std::size_t, std::string, std::string>;  // rule, ns, reason
  struct Entry {
    std::uint64_t writes = 0;
    std::shared_ptr<const ids::NumberHolder> holder{};
    Time last{};
    Time logged{};
    std::uint64_t unsaid = 0;
  };

  void collect(const rewrite::RuleSet& rules, Time now);
  static void say(const rewrite::RuleSet& rules, const Key& key, Entry& entry, Time now);
  [[nodiscard]] static Refused refused_of(const Key& key, const Entry& entry, Time now);

  std::map<Key, Entry> entries_;
};

[[nodiscard]] Finding writes_refused(const rewrite::Rule& rule, const Refusals::Refused& refused);

}  // namespace idproxy::app::state
