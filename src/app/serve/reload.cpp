#include "app/serve/reload.hpp"

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iterator>
#include <utility>

#include "app/config_file.hpp"
#include "app/state/findings.hpp"
#include "app/state/readiness.hpp"
#include "app/system_clock.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/secret_file.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::serve {
namespace {

using Rules = std::vector<rewrite::Rule>;
using Names = std::vector<std::string>;

constexpr std::size_t kMostRulesNamed = 20;  // of those changed, added or removed
constexpr std::size_t kMostKeysNamed = 8;
constexpr std::size_t kMostNameBytes = 2000;  // of all names of a kind

/// "a, b and 3 more"
std::string listed(const Names& names, std::size_t most) {
  std::string text;
  std::size_t count = 0;
  while (count < std::min(names.size(), most) &&
         text.size() + names[count].size() <= kMostNameBytes) {
    text += (count == 0 ? "" : ", ") + names[count];
    ++count;
  }
  const std::size_t left = names.size() - count;
  if (left == 0) return text;
  return count == 0 ? std::to_string(left) : text + ' ' + and_more(left);
}

std::string name_of(const rewrite::Rule& rule) {
  return rule.ns + "." + rule.field;
}

/// The keys that only one of them has, or that have other values.
Names changed_keys(const rewrite::Rule& a, const rewrite::Rule& b) {
  std::vector<std::pair<std::string, std::string>> different;
  std::ranges::set_symmetric_difference(a.definition, b.definition, std::back_inserter(different));
  Names keys;
  for (const auto& [key, value] : different) {
    if (keys.empty() || keys.back() != key) keys.push_back(key);
  }
  return keys;
}

/// Pairs rules of the same namespace and field, in their order.
struct Difference {
  Names changed, added, removed;
  bool reordered = false;

  Difference(const Rules& before, const Rules& after) {
    std::vector<bool> paired(before.size());
    std::size_t last = 0;
    for (const rewrite::Rule& rule : after) {
      const std::size_t its = partner_of(rule, before, paired);
      if (its == before.size()) {
        added.push_back(name_of(rule));
        continue;
      }
      paired[its] = true;
      reordered = reordered || its < last;
      last = its;
      const Names keys = changed_keys(before[its], rule);
      if (!keys.empty()) {
        changed.push_back(name_of(rule) + " (" + listed(keys, kMostKeysNamed) + ")");
      }
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!paired[i]) removed.push_back(name_of(before[i]));
    }
  }

 private:
  static std::size_t partner_of(const rewrite::Rule& rule, const Rules& before,
                                const std::vector<bool>& paired) {
    std::size_t i = 0;
    while (i < before.size() && (paired[i] || name_of(before[i]) != name_of(rule))) ++i;
    return i;
  }
};

using Keys = std::vector<std::string>;
using Tls = std::shared_ptr<const net::tls::Context>;

bool has(const Keys& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

bool same_rules(const std::vector<rewrite::Rule>& a, const std::vector<rewrite::Rule>& b) {
  return std::ranges::equal(a, b, {}, &rewrite::Rule::definition, &rewrite::Rule::definition);
}

/// Ids of two leases, or of two layouts, can be the same. Inserts under way go on with the old
/// ones, and other proxies do not know of the new ones.
std::string fault_of_snowflakes(const Rules& running, const Rules& next) {
  const auto differ = [](const rewrite::Rule& a, const rewrite::Rule& b) {
    const ids::RuleSource::About& one = a.strategy->about();
    const ids::RuleSource::About& other = b.strategy->about();
    return !one.lease || !other.lease || one.lease->name != other.lease->name ||
           one.layout <=> other.layout != 0;
  };
  const auto can_repeat = [&](const rewrite::Rule& a, const rewrite::Rule& b) {
    return a.strategy->about().lease && b.strategy->about().lease && a.field == b.field &&
           globs_overlap(a.ns, a.except, b.ns, b.except) && differ(a, b);
  };
  const auto place = [&](const Rules& in, const rewrite::Rule& of) {
    const auto same = [&](const rewrite::Rule& each) {
      return each.ns == of.ns && each.field == of.field && each.except == of.except &&
             !differ(each, of);
    };
    return std::ranges::find_if(in, same) - in.begin();
  };
  // Of two rules that stand in both files in the same order, each keeps its collections.
  const auto stand = [&](const rewrite::Rule& a, const rewrite::Rule& b) {
    const auto there = place(next, a);
    const auto here = place(running, b);
    return there < std::ssize(next) && here < std::ssize(running) &&
           (place(running, a) < here) == (there < place(next, b));
  };
  for (std::size_t i = 0; i < next.size(); ++i) {
    const auto found = std::ranges::find_if(running, [&](const rewrite::Rule& each) {
      return can_repeat(each, next[i]) && !stand(each, next[i]);
    });
    if (found == running.end()) continue;
    return state::name_of_rule(next[i], i) +
           ": lease, epoch, unit and bits of snowflake change only while all proxies are stopped "
           "that fill the field (docs/snowflake.md#changing-lease-bits-unit-or-epoch)";
  }
  return {};
}

bool same_certificates(const Tls& a, const Tls& b) {
  return a == nullptr || b == nullptr ? a == b : a->is_equivalent_to(*b);
}

std::string fault_of(const config::Loaded& loaded) {
  const auto errors = static_cast<std::uint64_t>(
      std::ranges::count(loaded.findings, FileFinding::Severity::error, &FileFinding::severity));
  return "the configuration has " + count_of(errors, "error") +
         "; mongo-idproxy --check-config shows all";
}

}  // namespace

std::string rule_changes(const Rules& before, const Rules& after) {
  const Difference found(before, after);
  std::string text;
  for (const auto& [what, names] :
       {std::pair<std::string_view, const Names&>{"changed ", found.changed},
        {"added ", found.added},
        {"removed ", found.removed}}) {
    if (names.empty()) continue;
    text.append(text.empty() ? "" : "; ").append(what).append(listed(names, kMostRulesNamed));
  }
  if (found.reordered) text.append(text.empty() ? "" : "; ").append("order");
  return text;
}

Reload::Reload(Start start, id_store::Store& store, net::Server& server)
    : file_(std::move(start.file)),
      running_(std::move(start.config)),
      seed_list_(std::move(start.seed_list)),
      store_(store),
      server_(server),
      rules_(std::move(start.rules)),
      read_(std::move(start.files)) {
  running_.rules.clear();
  statistics_.file = file_;
  note_success();
}

Reload::InForce Reload::in_force() const {
  const std::scoped_lock lock(mutex_);
  return {rules_, running_.net.client_tls, running_.net.server_tls, statistics_};
}

void Reload::note_success() {
  statistics_.last_success =
      std::chrono::duration_cast<std::chrono::seconds>(process_sources().clock.wall());
}

Reload::Result Reload::reload() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    statistics_.under_way = true;
  }
  findings_.clear();
  try {
    const std::string fault = attempt();
    if (fault.empty()) {
      const std::scoped_lock lock(mutex_);
      ++statistics_.succeeded;
      note_success();
      note_end(changed_);
      return Result::applied;
    }
    refuse(fault);
  } catch (const std::exception& error) {
    refuse(std::string_view(error.what()));
  }
  return Result::refused;
}

void Reload::note_end(std::string_view text) {
  statistics_.last_at =
      std::chrono::duration_cast<std::chrono::seconds>(process_sources().clock.wall());
  statistics_.last_text = text;
  statistics_.last_findings = findings_;
  statistics_.under_way = false;
}

void Reload::refuse(std::string_view fault) noexcept {
  try {
    std::unique_lock lock(mutex_);
    const std::uint64_t failed = ++statistics_.failed;
    note_end(fault);
    const Finding found = state::reload_failed(statistics_);
    lock.unlock();
    log::event(found, {{"file", file_}, {"reason", fault}, {"failed", failed}});
  } catch (const std::exception& error) {
    (void)std::fprintf(stderr, "mongo-idproxy: a reload failed: %s\n", error.what());
  }
}

bool Reload::sees_change() {
  if (!running_.watch) return false;
  std::map<std::string, std::string> now;
  for (const auto& [path, state] : read_) now.emplace(path, state_of_file(path));
  const bool rests = now == looked_;
  looked_ = std::move(now);
  return rests && looked_ != read_;
}

std::string Reload::attempt() {
  read_ = {{file_, state_of_file(file_)}};
  auto read = ConfigFile::read(file_, seed_list_);
  if (!read) return read.error();
  read_ = read->loaded.files;
  // Probably somebody is writing it just now. An empty configuration would remove all rules.
  if (read->text.find_first_not_of(" \t\r\n") == std::string::npos) return file_ + " is empty";
  read->look_at_mode();
  read->log_findings();
  findings_ = read->first_findings();
  if (!read->loaded.ok()) return fault_of(read->loaded);
  config::Config& next = read->loaded.config;
  keep_what_takes_a_restart(next);
  if (std::string fault = fault_of_snowflakes(rules_.set->rules(), next.rules); !fault.empty()) {
    return fault;
  }
  if (next.net.pins != running_.net.pins) {
    std::string fault = server_.fault_of_pins(next.net.pins);
    if (!fault.empty()) return "listen.members: " + fault;
  }
  bring_into_force(next);
  return {};
}

/// If id_store.db has changed, the rules stay, too: new rules would expect their counters in the
/// new database.
void Reload::keep_what_takes_a_restart(config::Config& next) const {
  Keys keys = config::needs_restart(running_, next);
  if (has(keys, "listen.tls.mode")) next.net.client_tls = running_.net.client_tls;
  if (has(keys, "upstream.uri")) {
    next.net.server_tls = running_.net.server_tls;
    next.net.pins = running_.net.pins;
  }
  if (has(keys, "id_store.db")) {
    if (!same_rules(next.rules, rules_.set->rules())) keys.emplace_back("rules");
    next.rules = rules_.set->rules();
  }
  if (keys.empty()) return;
  const std::string text = boost::algorithm::join(keys, ", ");
  log::event(log::Level::warning, "restart_needed",
             "these changes take effect only with a restart: " + text, {{"keys", text}});
}

void Reload::bring_into_force(config::Config& next) {
  changed_ = changes_of(next);
  state::RulesInForce rules =
      state::make_rules(std::move(next.rules), running_.id_store.db, store_, rules_.set.get());
  rules.watch->await_first_inspection(kFirstInspection);
  net::Options& net = running_.net;
  net.pins = next.net.pins;
  running_.watch = next.watch;
  std::unique_lock lock(mutex_);
  net.client_tls = next.net.client_tls;
  net.server_tls = next.net.server_tls;
  std::swap(rules_, rules);
  lock.unlock();
  server_.apply({rules_.set, net.client_tls, net.server_tls, net.pins});
  // Log the reload at the more verbose of both levels, so that a change of the level is logged.
  log::set_level(std::min(running_.log.level, next.log.level));
  log::event(log::Level::info, "reloaded",
             changed_.empty() ? "reloaded; nothing has changed" : "reloaded; changed: " + changed_,
             {{"rules", rules_.set->rules().size()}, {"changed", changed_}});
  running_.log.level = next.log.level;
  log::set_level(running_.log.level);
}

std::string Reload::changes_of(const config::Config& next) const {
  Keys keys;
  const std::string rules = rule_changes(rules_.set->rules(), next.rules);
  if (!rules.empty()) keys.push_back("rules: " + rules);
  if (!same_certificates(next.net.client_tls, running_.net.client_tls)) {
    keys.emplace_back("certificates of listen.tls");
  }
  if (!same_certificates(next.net.server_tls, running_.net.server_tls)) {
    keys.emplace_back("certificates of upstream.uri");
  }
  if (next.log.level != running_.log.level) keys.emplace_back("log.level");
  if (next.watch != running_.watch) keys.emplace_back("reload");
  if (next.net.pins != running_.net.pins) keys.emplace_back("listen.members");
  return boost::algorithm::join(keys, ", ");
}

}  // namespace idproxy::app::serve
