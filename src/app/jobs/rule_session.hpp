#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/config_file.hpp"
#include "app/jobs/jobs.hpp"
#include "app/state/rules_in_force.hpp"
#include "idproxy/config/config.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/rewrite/rule.hpp"

/// What a command does with the rules of a configuration, beside the proxies.
namespace idproxy::app::jobs {

/// Looks up the servers of the file's id store, in about ten seconds at most. Prints why they are
/// not known, and returns the exit code; `ok`: libmongoc can find them.
[[nodiscard]] ExitCode find_store(ConfigFile& file);

/// Returns what is wrong with the collection that a command is given, for people; empty: nothing.
[[nodiscard]] std::string fault_of_ns(const std::string& ns);

/// The position of the rule that fills the field, or why none does, for people. `file`: of the
/// configuration.
[[nodiscard]] boost::system::result<std::size_t, std::string> find_rule(
    const std::string& file, const std::string& ns, const std::string& field,
    const std::vector<rewrite::Rule>& rules);

/// A configuration, and a rule of it.
struct OpenedRule {
  ConfigFile file;
  std::size_t index;

  [[nodiscard]] config::Config& config() { return file.loaded.config; }
  [[nodiscard]] const rewrite::Rule& rule() const { return file.loaded.config.rules[index]; }
};

/// The rule that a command is for. Prints why there is none, and returns the exit code.
[[nodiscard]] boost::system::result<OpenedRule, ExitCode> open_rule(const RuleOptions& options,
                                                                    ConfigFile::Print print);

/// Inserts a copy of the rule at `index` for this collection alone in front of a rule with
/// wildcards, so that the rule's state is that of this collection.
void add_rule_of(const std::string& ns, std::vector<rewrite::Rule>& rules, std::size_t index);

/// Rules, and an id store of their own that looks after their collections. One thread.
class RuleSession {
 public:
  /// The store looks until this is destroyed, and does what config says: see only_looking().
  explicit RuleSession(config::Config config);

  /// Waits until each rule has been looked at once or cannot be now, at most for `limit`.
  void await_first_inspection(std::chrono::milliseconds limit) {
    rules_.watch->await_first_inspection(limit);
  }
  [[nodiscard]] const rewrite::RuleSet& set() const { return *rules_.set; }
  [[nodiscard]] const rewrite::Rule& rule(std::size_t index) const { return set().rules()[index]; }
  [[nodiscard]] id_store::Watch& watch() const { return *rules_.watch; }
  /// As Watch::lack_index() has it of this rule.
  [[nodiscard]] std::optional<id_store::MissingIndex> lacks_index(std::size_t index) const;
  /// "the id store (id_store.uri) does not answer: …"; empty: the last reading reached a server.
  [[nodiscard]] std::string why_down() const;

  /// Ends the inspections, and gives back unused numbers. False: a thread still waits for a server,
  /// which keeps what it uses, and the process must end by _Exit.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit = kStopWithin);
  /// The same for a command: returns its exit code, or ends the process with it.
  [[nodiscard]] ExitCode end(ExitCode code, std::chrono::milliseconds limit = kStopWithin);

 private:
  static constexpr std::chrono::seconds kStopWithin{2};

  const std::string uri_key_;
  std::unique_ptr<id_store::Store> store_;
  const state::RulesInForce rules_;
};

/// Ends the process with what has been printed, although a thread still waits for a server or the
/// name service.
[[noreturn]] void leave(ExitCode code);

}  // namespace idproxy::app::jobs
