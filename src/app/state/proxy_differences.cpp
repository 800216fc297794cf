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

/// "app2 and app3 have "
std::string have(const std::vector<std::string>& names) {
  return in_words(names) + (names.size() == 1 ? " has " : " have ");
}

}  // namespace

void ProxyDifferences::update(const Proxies& proxies, std::chrono::nanoseconds now) {
  Found found{lasting(different(proxies, have_other_rules), rules_, now),
              lasting(different(proxies, have_other_versions), versions_, now)};
  const auto tell = [&](const Finding& news) {
    log::event(news, {{"rules", in_words(found.rules)}, {"versions", in_words(found.versions)}});
  };
  const auto is_news = [](const auto& names, const auto& before) {
    return !names.empty() && names != before;
  };
  if (is_news(found.rules, current_.rules)) tell(proxies_disagree(found.rules));
  if (is_news(found.versions, current_.versions)) tell(proxy_versions_differ(found.versions));
  current_ = std::move(found);
}

Finding proxies_disagree(const std::vector<std::string>& names, const std::string& than) {
  return {finding::kProxiesDisagree,
          {},
          {have(names) + "other rules than " + than},
          {"give all proxies of this id store the same rules, and reload them"}};
}

Finding proxy_versions_differ(const std::vector<std::string>& names, const std::string& its,
                              const std::string& than) {
  return {
      finding::kProxyVersionsDiffer,
      {},
      {have(names) + "another version" + (its.empty() ? "" : ", " + its + ",") + " than " + than},
      {"install the same version on all hosts"}};
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
