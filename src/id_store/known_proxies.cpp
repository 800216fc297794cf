#include "id_store/known_proxies.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

// Other documents may have been read a moment after the own one was written.
constexpr std::chrono::seconds kFuture{10};

/// Empty if it is missing or no text.
std::string text_of(Bytes document, std::string_view field) {
  return std::string(bson::text_in(document, field).substr(0, KnownProxies::kMostTextBytes));
}

std::vector<std::string> texts_of(Bytes document, std::string_view field, std::size_t most) {
  std::vector<std::string> texts;
  const auto array = bson::find(document, field);
  if (!array || array->type != bson::Type::array) return texts;
  bson::Elements each(array->value);
  while (texts.size() < most) {
    const auto element = each.next();
    if (!element) break;
    if (element->type != bson::Type::string) continue;
    texts.emplace_back(element->text().substr(0, KnownProxies::kMostTextBytes));
  }
  return texts;
}

/// The time from a date to `now`; not below 0.
std::optional<std::chrono::nanoseconds> time_since(Bytes document, std::string_view field,
                                                   std::int64_t now) {
  const auto date = bson::find(document, field);
  if (!date || date->type != bson::Type::date) return std::nullopt;
  const std::int64_t at = load_i64(date->value.data());
  // Whoever wrote it may have written any number, also one with which the difference overflows.
  constexpr std::int64_t kFutureMs = std::chrono::milliseconds(kFuture).count();
  constexpr std::int64_t kLatest = 9'000'000'000'000;  // in the year 2255; nanoseconds have room
  if (at < 0 || now > kLatest || at > now + kFutureMs) return std::nullopt;
  return std::chrono::milliseconds(std::max<std::int64_t>(now - at, 0));
}

}  // namespace

std::string proxy_id(const ProxyDescription& proxy) {
  return proxy.listeners.empty() ? proxy.host : proxy.host + " " + proxy.listeners.front();
}

void KnownProxies::add(Bytes document) {
  const std::string_view id = bson::text_in(document, "_id");
  const auto age = time_since(document, "since", server_time_);
  const auto unseen = time_since(document, "seen", server_time_);
  KnownProxy proxy;
  proxy.host = text_of(document, "host");
  proxy.version = text_of(document, "version");
  proxy.rules_hash = text_of(document, "rules_hash");
  const bool lacks_text = proxy.host.empty() || proxy.version.empty() || proxy.rules_hash.empty();
  if (id.empty() || lacks_text || !age || !unseen) return;
  proxy.listeners = texts_of(document, "listeners", kMostListeners);
  proxy.namespaces = texts_of(document, "namespaces", kMostNamespaces);
  proxy.age = *age;
  proxy.unseen = *unseen;
  proxy.self = id == own_id_;
  proxies_.push_back(std::move(proxy));
}

std::vector<KnownProxy> KnownProxies::at(std::chrono::nanoseconds now) const {
  std::vector<KnownProxy> listed;
  for (const KnownProxy& each : proxies_) {
    if (each.unseen + (now - read_at_) > kListedFor) continue;
    listed.push_back(each);
    listed.back().unseen += now - read_at_;
    listed.back().age += now - read_at_;
  }
  std::ranges::sort(listed, {}, [](const KnownProxy& each) {
    return std::tie(each.host, each.listeners, each.rules_hash);
  });
  return listed;
}

}  // namespace idproxy::id_store
