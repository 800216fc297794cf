#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/config/config.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/net/server.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app {

/// Rules and what the id store knows for them, by the same rule_index. The rules are kept, and what
/// they need is looked at, as long as somebody holds this: the start's belong to Reload alone.
struct RulesInForce {
  std::shared_ptr<const rewrite::RuleSet> set;
  std::shared_ptr<id_store::Watch> watch;
};

/// `before`: those that are in force; null at the start.
[[nodiscard]] RulesInForce make_rules(std::vector<rewrite::Rule> rules, const std::string& store_db,
                                      id_store::Store& store,
                                      const rewrite::RuleSet* before = nullptr);

/// Brings a changed configuration into force while the proxy works, all of it or nothing; but what
/// takes a restart is named in the log, and the rest applied. One thread, which may wait for the id
/// store for kFirstLook.
class Reload {
 public:
  /// How long a rule that is new may take to become ready before all of them come into force.
  static constexpr std::chrono::seconds kFirstLook{2};

  /// What the process was started with.
  struct Start {
    std::string file;
    config::Config config;  ///< the rules are not used
    std::string seed_list;  ///< that a mongodb+srv string stood for; it is not looked up again
    RulesInForce rules;
  };
  struct Figures {
    std::uint64_t succeeded = 0;
    std::uint64_t failed = 0;
    std::chrono::seconds last_success{};  ///< since 1970; the start is one
  };
  enum class Result { applied, refused };

  /// All outlive it.
  Reload(Start start, id_store::Store& store, net::Server& server, ids::Sources sources);

  /// Reads the file again. Never throws: what cannot be applied is logged, and the old stays.
  Result reload() noexcept;

  [[nodiscard]] const Figures& figures() const { return figures_; }
  [[nodiscard]] const RulesInForce& rules() const { return rules_; }
  /// Certificates of the sides that have TLS; null: that side has none.
  [[nodiscard]] const std::shared_ptr<const net::tls::Context>& client_tls() const {
    return running_.net.client_tls;
  }
  [[nodiscard]] const std::shared_ptr<const net::tls::Context>& server_tls() const {
    return running_.net.server_tls;
  }

 private:
  /// Why nothing has been changed; empty: all is in force.
  [[nodiscard]] std::string attempt();
  void keep_what_takes_a_restart(config::Config& next) const;
  void bring_into_force(config::Config& next);
  [[nodiscard]] std::string changes_of(const config::Config& next) const;
  void note_success();
  void refuse(std::string_view fault) noexcept;

  std::string file_;
  config::Config running_;  // what takes a restart is that of the start; the rest is in force
  std::string seed_list_;
  id_store::Store& store_;
  net::Server& server_;
  ids::Sources sources_;
  RulesInForce rules_;
  Figures figures_;
};

}  // namespace idproxy::app
