#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/jobs/backfill_commands.hpp"
#include "app/jobs/jobs.hpp"
#include "app/jobs/rule_session.hpp"
#include "app/jobs/stop_signals.hpp"
#include "idproxy/config/config.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app::jobs {

/// Returns an error in the options themselves, for people; empty: there is none.
[[nodiscard]] std::string fault_of(const BackfillRequest& request);

/// Returns why the options do not fit this rule, for people; empty: they do.
[[nodiscard]] std::string fault_for(const BackfillRequest& request, const rewrite::Rule& rule);

/// Only for a request without fault, and its rule in the collection.
[[nodiscard]] BackfillTarget target_of(const BackfillRequest& request,
                                       const rewrite::Assignment& assignment);
[[nodiscard]] BackfillOrder order_of(const BackfillRequest& request);

/// The rule of a backfill, with an id store and the other rules, with which it may share a counter.
class BackfillRule {
 public:
  /// `index`: of the rule in `config`. A dry run makes no index and reads no whole collection.
  BackfillRule(config::Config config, std::size_t index, const BackfillRequest& request);

  /// Waits until the rule has been checked. Returns why it gives no values in the collection, for
  /// people, with the command to type if one helps; empty: it does.
  [[nodiscard]] std::string await_ready(const StopSignals& stop);
  /// The one assignment, after await_ready(). Valid as long as this object.
  [[nodiscard]] const rewrite::Plan& plan() const { return plan_; }
  [[nodiscard]] const rewrite::Rule& rule() const { return session_.rule(index_); }
  /// A warning about a rule that is ready, after await_ready(): no unique index guards the field,
  /// with the command that creates one. Empty: there is none.
  [[nodiscard]] std::string note() const;
  /// The first and the last of `count` values, without using them up.
  [[nodiscard]] std::string samples(std::uint64_t count) const;

  /// Appends them all, or as many as are left. Returns why they are not known; empty: they are.
  [[nodiscard]] std::string next_values(std::size_t count, ids::Values& out) const;

  /// As RuleSession::end().
  [[nodiscard]] ExitCode end(ExitCode code) { return session_.end(code, kGiveBackWithin); }

 private:
  [[nodiscard]] std::optional<ids::Error> why_not_ready();
  [[nodiscard]] std::string why_no_values() const;
  [[nodiscard]] std::string reason_of(const ids::Error& error) const;

  static constexpr std::chrono::seconds kGiveBackWithin{10};

  const std::string ns_;
  const std::size_t index_;
  const bool needs_more_;  // a unique index, without which a proxy only warns
  RuleSession session_;
  rewrite::Plan plan_;
  std::optional<ids::Ticket> asks_;  // for the index, as a write that waits does
};

}  // namespace idproxy::app::jobs
