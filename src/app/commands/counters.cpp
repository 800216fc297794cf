#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/config_file.hpp"
#include "app/jobs/counter_text.hpp"
#include "app/jobs/rule_session.hpp"
#include "app/json_view.hpp"
#include "app/system_clock.hpp"
#include "app/views/terminal.hpp"
#include "idproxy/app/commands/run.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/id_store/stored_counters.hpp"

namespace idproxy::app::commands {
namespace {

using Act = CountersRequest::Act;
using id_store::StoredCounter;
using id_store::StoredCounters;

// Proxies may change a counter between reading and setting it, but not so often in a row.
constexpr int kMostTries = 64;

/// Carries out the request on the counters that the rules use. The error is the exit code, once it
/// has been told why.
class CountersCommand {
 public:
  CountersCommand(const CountersRequest& request, const config::Config& config)
      : request_(request), config_(config), store_(config.id_store, process_sources().clock) {}

  [[nodiscard]] ExitCode run() {
    std::vector<const ids::RuleSource::About*> rules;
    rules.reserve(config_.rules.size());
    for (const rewrite::Rule& rule : config_.rules) rules.push_back(&rule.strategy->about());
    auto found = store_.find(rules);
    if (!found) return end_with(ExitCode::unavailable, found.error().reason);
    counters_ = *std::move(found);
    names_ = jobs::names_of(counters_);
    if (request_.act == Act::list) return list();
    const auto index = find_named();
    if (!index) return ExitCode::findings;
    const auto view = look_at(*index);
    if (!view) return ExitCode::unavailable;
    if (request_.act == Act::get) return get(*view);
    return request_.act == Act::set ? set(counters_[*index], *view)
                                    : sync(counters_[*index], *view);
  }

 private:
  [[nodiscard]] std::optional<jobs::CounterView> look_at(std::size_t index) {
    auto stored = store_.look_at(counters_[index]);
    if (stored) return jobs::CounterView{names_[index], counters_[index], *std::move(stored)};
    tell(stored.error().reason);
    return std::nullopt;
  }

  /// By its key, its full name, or the name that `list` prints.
  [[nodiscard]] std::optional<std::size_t> find_named() const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      const StoredCounter& counter = counters_[i];
      if (names_[i] == request_.name) return i;
      const bool is_it =
          counter.key == request_.name || counter.ns() + " " + counter.key == request_.name;
      if (is_it) found.push_back(i);
    }
    if (found.size() == 1) return found.front();
    if (found.empty()) {
      tell("the rules use no counter " + request_.name + "; `counters list` has their names");
      return std::nullopt;
    }
    std::string all;
    for (const std::size_t i : found) all += (all.empty() ? "'" : ", '") + names_[i] + "'";
    tell(request_.name + " is the name of several counters: " + all);
    return std::nullopt;
  }

  [[nodiscard]] ExitCode list() {
    std::vector<jobs::CounterView> views;
    for (std::size_t i = 0; i < counters_.size(); ++i) {
      auto view = look_at(i);
      if (!view) return ExitCode::unavailable;
      views.push_back(*std::move(view));
    }
    if (request_.as_json) {
      boost::json::array all;
      for (const jobs::CounterView& view : views) all.push_back(jobs::counter_json(view));
      std::cout << json_line(boost::json::object{{"counters", std::move(all)}});
    } else if (views.empty()) {
      tell("the rules use no counter that exists");
    } else {
      std::cout << jobs::counters_text(views, views::Terminal::at(STDOUT_FILENO));
    }
    return ExitCode::ok;
  }

  [[nodiscard]] ExitCode get(const jobs::CounterView& view) const {
    if (!view.counter.exists() && !view.counter.is_gapless) {
      return end_with(ExitCode::findings,
                      "there is no counter " + view.name + " yet: the first insert makes it");
    }
    if (request_.as_json) {
      std::cout << json_line(jobs::counter_json(view));
    } else {
      std::cout << jobs::counter_text(view, views::Terminal::at(STDOUT_FILENO));
    }
    return ExitCode::ok;
  }

  [[nodiscard]] ExitCode set(StoredCounter& counter, const jobs::CounterView& view) {
    const jobs::Force force = request_.force ? jobs::Force::yes : jobs::Force::no;
    for (int i = 0; i < kMostTries; ++i) {
      if (const std::string why = jobs::refusal_to_set(view, request_.value, force); !why.empty()) {
        return end_with(ExitCode::findings, why);
      }
      const auto dangers = jobs::dangers_of(view, request_.value);
      const auto was = counter.next;
      const auto done = store_.set_next(counter, request_.value);
      if (!done) return end_with(ExitCode::unavailable, done.error().reason);
      if (!*done) continue;
      for (const std::string& danger : dangers) tell("warning: " + danger);
      if (dangers.empty()) tell_when(counter);
      return report(view, was, "");
    }
    return changed_all_the_time(view);
  }

  [[nodiscard]] ExitCode sync(StoredCounter& counter, const jobs::CounterView& view) {
    for (int i = 0; i < kMostTries; ++i) {
      const jobs::SyncTarget target = jobs::sync_target(view);
      if (!target.refusal.empty()) return end_with(ExitCode::findings, target.refusal);
      const auto was = counter.next;
      if (!target.next) return report(view, was, "");
      const auto done = store_.set_next(counter, *target.next);
      if (!done) return end_with(ExitCode::unavailable, done.error().reason);
      if (!*done) continue;
      tell_when(counter);
      return report(view, was, ", past the largest number that is stored");
    }
    return changed_all_the_time(view);
  }

  static void tell_when(const StoredCounter& counter) {
    const bool is_auto = !counter.spec.block.size;
    tell(is_auto ? "running proxies go on from there within about 20 seconds"
                 : "running proxies go on from there with their next block");
  }

  [[nodiscard]] static ExitCode changed_all_the_time(const jobs::CounterView& view) {
    return end_with(ExitCode::unavailable, view.name + " is being changed all the time: try again");
  }

  /// "shop.orders.number: the next number is 5000 (it was 1100)"
  [[nodiscard]] ExitCode report(const jobs::CounterView& view, std::optional<std::int64_t> was,
                                const std::string& how) const {
    if (request_.as_json) {
      boost::json::object json = jobs::counter_json(view);
      json["was"] = was ? boost::json::value(*was) : nullptr;
      std::cout << json_line(json);
      return ExitCode::ok;
    }
    std::cout << printable(view.name) << ": the next number is " << *view.counter.next << how;
    if (was == view.counter.next) {
      std::cout << ", as before";
    } else if (was) {
      std::cout << " (it was " << *was << ')';
    }
    std::cout << '\n';
    return ExitCode::ok;
  }

  const CountersRequest& request_;
  const config::Config& config_;
  StoredCounters store_;
  std::vector<StoredCounter> counters_;
  std::vector<std::string> names_;  // of counters_
};

}  // namespace

ExitCode counters(const CountersRequest& request) {
  auto file = ConfigFile::open(request.file, ConfigFile::Print::faults);
  if (!file) return file.error();
  if (const ExitCode code = jobs::find_store(*file); code != ExitCode::ok) return code;
  const ExitCode code = CountersCommand(request, file->loaded.config).run();
  std::cout << std::flush;
  return code;
}

}  // namespace idproxy::app::commands
