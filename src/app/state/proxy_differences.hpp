#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "idproxy/base/finding.hpp"
#include "idproxy/id_store/known_proxy.hpp"

namespace idproxy::app::state {

/// Notices proxies of the same id store that have other rules than this one for the same
/// collections, or another version: they may give one field values of two kinds. Logs each change
/// (proxies_differ). One thread.
class ProxyDifferences {
 public:
  /// How long a difference has to last: while a new configuration, or a new version, goes from host
  /// to host, there is one for a moment.
  static constexpr std::chrono::minutes kLasts{2};

  /// The names of the proxies that differ.
  struct Found {
    std::vector<std::string> rules{};
    std::vector<std::string> versions{};
    friend bool operator==(const Found&, const Found&) = default;
  };

  /// To be called about once a second. `now`: monotonic.
  void update(const std::vector<id_store::KnownProxy>& proxies, std::chrono::nanoseconds now);
  [[nodiscard]] const Found& current() const { return current_; }

 private:
  using Since = std::map<std::string, std::chrono::nanoseconds>;  // by the proxies' names
  Since rules_;
  Since versions_;
  Found current_;
};

// Of these proxies.
[[nodiscard]] Finding proxies_disagree(const std::vector<std::string>& names,
                                       const std::string& than = "this proxy");
/// `its`: the version of the one proxy, if there is one.
[[nodiscard]] Finding proxy_versions_differ(const std::vector<std::string>& names,
                                            const std::string& its = "",
                                            const std::string& than = "this proxy");

/// True unless the rules for these namespaces, globs, are known to have no collection in common.
[[nodiscard]] bool share_collections(const std::vector<std::string>& a,
                                     const std::vector<std::string>& b);

/// "app2, app3 and 5 more"
[[nodiscard]] std::string in_words(const std::vector<std::string>& proxies);

}  // namespace idproxy::app::state
