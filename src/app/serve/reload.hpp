#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "app/state/reload_statistics.hpp"
#include "app/state/rules_in_force.hpp"
#include "idproxy/config/config.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/net/server.hpp"
#include "idproxy/rewrite/rule.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app::serve {

/// How two lists of rules differ, for the log, without values:
///
///   changed shop.orders.number (block.size, start); added shop.bills.n; removed shop.old.n; order
///
/// Empty if they do not. Names at most 20 rules and 8 keys of each, and counts the others.
[[nodiscard]] std::string rule_changes(const std::vector<rewrite::Rule>& before,
                                       const std::vector<rewrite::Rule>& after);

/// Brings a changed configuration into force while the proxy serves: all of it or nothing, except
/// that keys which need a restart are named in the log and the rest is applied. One thread, which
/// may wait for the id store for kFirstInspection, and for files as long as they take.
class Reload {
 public:
  /// How long to wait for new rules to become ready before all rules come into force.
  static constexpr std::chrono::seconds kFirstInspection{2};

  /// The configuration at the start of the process.
  struct Start {
    std::string file;
    config::Config config;  ///< the rules are not used
    std::string seed_list;  ///< found for a mongodb+srv string; not looked up again
    std::map<std::string, std::string> files;  ///< as config::Loaded has them, with `file`
    state::RulesInForce rules;
  };
  enum class Result { applied, refused };
  /// What has come of the file so far.
  struct InForce {
    state::RulesInForce rules;
    /// Null: that side has no TLS.
    std::shared_ptr<const net::tls::Context> client_tls;
    std::shared_ptr<const net::tls::Context> server_tls;
    state::ReloadStatistics statistics;
  };

  /// The references must outlive it.
  Reload(Start start, id_store::Store& store, net::Server& server);

  /// Reads the file again. If it cannot be applied, logs why and keeps the old configuration.
  Result reload() noexcept;
  /// With `reload: watch`: true if the files are not what the last reload, or the start, has read,
  /// and are the same as at the last call, so that nobody is writing them just now. Never true
  /// twice for the same contents once reload() has read them, applied or not.
  [[nodiscard]] bool sees_change();

  // Any thread:

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] InForce in_force() const;

 private:
  /// Why nothing was changed, or "".
  [[nodiscard]] std::string attempt();
  void keep_what_takes_a_restart(config::Config& next) const;
  void bring_into_force(config::Config& next);
  [[nodiscard]] std::string changes_of(const config::Config& next) const;
  void note_success();
  void note_end(std::string_view text);
  void refuse(std::string_view fault) noexcept;

  std::string file_;
  config::Config running_;  // keys that need a restart as at the start; the rest as in force
  std::string seed_list_;
  id_store::Store& store_;
  net::Server& server_;
  mutable std::mutex mutex_;  // for others than the thread that reloads; guards what they see
  state::RulesInForce rules_;
  std::map<std::string, std::string> read_;    // states of the files, by path, as last read
  std::map<std::string, std::string> looked_;  // the same at the last look
  state::ReloadStatistics statistics_;
  std::vector<std::string> findings_;  // of the reload under way
  std::string changed_;                // by the last reload
};

}  // namespace idproxy::app::serve
