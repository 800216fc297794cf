#include "app/state/proxy_differences.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "idproxy/base/glob.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::state {
namespace {

using id_store::KnownProxy;
using Proxies = std::vector<KnownProxy>;

constexpr std::size_t kMostProxiesNamed = 5;

/// The host's, if that is enough.
std::string name_of(const KnownProxy& proxy, const Proxies& all) {
  const bool is_alone = std::ranges::count(all, proxy.host, &KnownProxy::host) == 1;
  if (is_alone || proxy.listeners.empty()) return proxy.host;
  return proxy.host + " (" + proxy.listeners.front() + ")";
}

/// Those of which `differs` from this proxy is true.
template <class Differs>
std::vector<std::string> different(const Proxies& all, const Differs& differs) {
  std::vector<std::string> names;
  const auto self = std::ranges::find(all, true, &KnownProxy::self);
  if (self == all.end()) return names;
  for (const KnownProxy& each : all) {
    if (differs(each, *self)) names.push_back(name_of(each, all));
  }
  return names;
}

bool have_other_rules(const KnownProxy& a, const KnownProxy& b) {
  return a.rules_hash != b.rules_hash && share_collections(a.namespaces, b.namespaces);
}

bool have_other_versions(const KnownProxy& a, const KnownProxy& b) {
  return a.version != b.version;
}

/// Which of the names have been among those that differ for long.
template <class Since>
std::vector<std::string> lasting(const std::vector<std::string>& names, Since& since,
                                 std::chrono::nanoseconds now) {
  std::erase_if(
      since, [&](const auto& each) { return std::ranges::find(names, each.first) == names.end(); });
  std::vector<std::string> last;
  for (const std::string& each : names) {
    if (now - since.emplace(each, now).first->second >= ProxyDifferences::kLasts) {
      last.push_back(each);
    }
  }
  return last;
}

}  // namespace

void ProxyDifferences::update(const Proxies& proxies, std::chrono::nanoseconds now) {
  Found found{lasting(different(proxies, have_other_rules), rules_, now),
              lasting(different(proxies, have_other_versions), versions_, now)};
  if (found == current_) return;
  current_ = std::move(found);
  if (current_ == Found{}) return;
  log::event(log::Level::warning, "proxies_differ",
             "proxies of the same id store have had other rules, or another version, than this one "
             "for two minutes",
             {{"rules", in_words(current_.rules)}, {"versions", in_words(current_.versions)}});
}

bool share_collections(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return a.empty() || b.empty() || std::ranges::any_of(a, [&](const std::string& one) {
           return std::ranges::any_of(
               b, [&](const std::string& other) { return globs_overlap(one, other); });
         });
}

std::string in_words(const std::vector<std::string>& proxies) {
  return list_text(proxies, kMostProxiesNamed, " and ");
}

}  // namespace idproxy::app::state
