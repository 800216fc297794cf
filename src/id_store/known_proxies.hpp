#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/id_store/known_proxy.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {

/// The _id of a proxy's document: "app1 127.0.0.1:27117". A restart of the same proxy has the same
/// one, and two that run on one host at the same time cannot have the same address.
[[nodiscard]] std::string proxy_id(const ProxyDescription& proxy);

/// The proxies of an id store, as one read of their collection found them:
///
///   proxies: {_id: <proxy_id()>, process: ObjectId, host: "app1", version: "0.1.0",
///             listeners: ["127.0.0.1:27117", …], rules_hash: "0123456789ab",
///             namespaces: ["shop.*", …], since: <date>, seen: <date>}
///
/// Dates are of the server's clock, and are compared with each other only, so that hosts whose
/// clocks are wrong agree. A value.
class KnownProxies {
 public:
  /// How long after it was last seen a proxy is listed: two of its rounds may fail.
  static constexpr std::chrono::seconds kListedFor{90};
  static constexpr std::int32_t kMost = 200;
  static constexpr std::size_t kMostListeners = 16;
  static constexpr std::size_t kMostTextBytes = 255;  // of a host's name
  static constexpr std::size_t kMostNamespaces = 100;

  /// None.
  KnownProxies() = default;
  /// `own_id`: that of this proxy. `read_at`: monotonic. `server_time`: the server's clock then, in
  /// milliseconds since 1970.
  KnownProxies(std::string own_id, std::chrono::nanoseconds read_at, std::int64_t server_time)
      : own_id_(std::move(own_id)), read_at_(read_at), server_time_(server_time) {}

  /// Adds the proxy that a document of the collection describes. Ignores documents that lack
  /// something or have other types, and dates in the future; cuts off texts that are too long.
  void add(Bytes document);

  /// Those that have been seen lately, by the names of their hosts.
  [[nodiscard]] std::vector<KnownProxy> at(std::chrono::nanoseconds now) const;

 private:
  std::string own_id_;
  std::chrono::nanoseconds read_at_{};
  std::int64_t server_time_ = 0;
  std::vector<KnownProxy> proxies_;  // as they were at read_at_
};

}  // namespace idproxy::id_store
