#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/commands/command.hpp"
#include "app/config_file.hpp"
#include "app/jobs/counter_text.hpp"
#include "app/jobs/rule_session.hpp"
#include "app/json_view.hpp"
#include "app/system_clock.hpp"
#include "app/views/terminal.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/id_store/stored_counters.hpp"

namespace idproxy::app::commands {
namespace {

/// What to do with the counters of the configuration's rules.
struct CountersRequest {
  std::string file{};
  std::string action{};                 ///< list, get, set or sync
  std::string name{};                   ///< as `list` prints it; not of list
  std::optional<std::int64_t> value{};  ///< set: the next number
  bool force = false;                   ///< set: although numbers beyond it are stored
  bool as_json = false;
};

/// Throws CLI::ParseError if the arguments do not suit the action.
void require(const CountersRequest& request) {
  constexpr std::string_view kActions[] = {"list", "get", "set", "sync"};
  const bool is_known = std::ranges::find(kActions, request.action) != std::end(kActions);
  if (!is_known) throw CLI::RequiredError("list, get, set or sync");
  const bool takes_name = request.action != "list";
  const bool takes_value = request.action == "set";
  if (takes_name && request.name.empty()) throw CLI::RequiredError("NAME");
  if (!takes_name && !request.name.empty()) throw CLI::ExtrasError({request.name});
  if (takes_value && !request.value) throw CLI::RequiredError("VALUE");
  if (!takes_value && request.value) throw CLI::ExtrasError({std::to_string(*request.value)});
  if (!takes_value && request.force) throw CLI::ExcludesError("--force", "set");
}

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
    if (request_.action == "list") return list();
    const auto index = find_named();
    if (!index) return ExitCode::findings;
    const auto view = look_at(*index);
    if (!view) return ExitCode::unavailable;
    return request_.action == "get" ? get(*view) : change(counters_[*index], *view);
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

  /// Where the request wants the counter to be.
  [[nodiscard]] jobs::SyncTarget target(const jobs::CounterView& view) const {
    if (request_.action == "sync") return jobs::sync_target(view);
    const jobs::Force force = request_.force ? jobs::Force::yes : jobs::Force::no;
    return {request_.value, jobs::refusal_to_set(view, *request_.value, force)};
  }

  [[nodiscard]] ExitCode change(StoredCounter& counter, const jobs::CounterView& view) {
    const bool is_sync = request_.action == "sync";
    for (int i = 0; i < kMostTries; ++i) {
      const jobs::SyncTarget to = target(view);
      if (!to.refusal.empty()) return end_with(ExitCode::findings, to.refusal);
      const auto was = counter.next;
      if (!to.next) return report(view, was, "");
      std::vector<std::string> dangers;
      if (!is_sync) dangers = jobs::dangers_of(view, *to.next);
      const auto done = store_.set_next(counter, *to.next);
      if (!done) return end_with(ExitCode::unavailable, done.error().reason);
      if (!*done) continue;
      for (const std::string& danger : dangers) tell("warning: " + danger);
      if (dangers.empty()) tell_when(counter);
      return report(view, was, is_sync ? ", past the largest number that is stored" : "");
    }
    return end_with(ExitCode::unavailable, view.name + " is being changed all the time: try again");
  }

  static void tell_when(const StoredCounter& counter) {
    const bool is_auto = !counter.spec.block.size;
    tell(is_auto ? "running proxies go on from there within about 20 seconds"
                 : "running proxies go on from there with their next block");
  }

  /// "shop.orders.number: the next number is 5000 (it was 1100)"
  [[nodiscard]] ExitCode report(const jobs::CounterView& view, std::optional<std::int64_t> was,
                                const std::string& how) const {
    if (request_.as_json) {
      boost::json::object json = jobs::counter_json(view);
      json["was"] = or_null(was);
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

ExitCode counters(const CountersRequest& request) {
  auto file = ConfigFile::open(request.file, ConfigFile::Print::faults);
  if (!file) return file.error();
  if (const ExitCode code = jobs::find_store(*file); code != ExitCode::ok) return code;
  const ExitCode code = CountersCommand(request, file->loaded.config).run();
  std::cout << std::flush;
  return code;
}

}  // namespace

const Command kCounters{
    "counters",
    "List, show and set counters",
    R"(`list` shows the counters and the sequences without gaps that the rules use: the
next number of each, and the largest that is stored; `get NAME` shows one.
`set NAME VALUE` has a counter's next number be VALUE, which must be beyond what
is stored, but with --force. `sync NAME` sets a counter that is behind the data
past it. Running proxies follow. NAME is as `list` prints it.

Examples:   mongo-idproxy counters list
            mongo-idproxy counters set shop.orders.number 5000)",
    {{0, "done"},
     {1, "there is no such counter, or it must not be set so"},
     {69, "a server does not answer or refuses"}},
    nullptr,
    [](CLI::App& options, std::string& config) -> Run {
      const auto request = std::make_shared<CountersRequest>();
      add_value(options, "action", request->action, "list|get|set|sync", "What to do")->required();
      add_value(options, "name", request->name, "NAME", "As `list` prints it");
      const auto read = [request](const std::string& text) {
        std::int64_t value = 0;
        const auto done = std::from_chars(text.data(), text.data() + text.size(), value);
        if (done.ec != std::errc{} || done.ptr != text.data() + text.size()) {
          throw CLI::ValidationError("VALUE", "must be an integer of at most 64 bits");
        }
        request->value = value;
      };
      options.add_option_function<std::string>("value", read, "set: the next number")
          ->option_text("VALUE");
      options.add_flag("--force", request->force,
                       "set: although numbers that are stored would be\ngiven out a second time");
      options.add_flag("--json", request->as_json, "Print JSON");
      add_config(options, config);
      return on_file(request, counters);
    }};

}  // namespace idproxy::app::commands
