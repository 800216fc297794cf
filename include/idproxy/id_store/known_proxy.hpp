#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "idproxy/id_store/outcome.hpp"

namespace idproxy::id_store {
namespace mongo {
class Client;
}

/// What a proxy tells the others that use the same id store about itself.
struct ProxyDescription {
  std::string host;                       ///< the name of its machine
  std::string version;                    ///< of the program
  std::vector<std::string> listeners;     ///< their addresses; the first one lasts across restarts
  std::string rules_hash;                 ///< equal for equal rules
  std::vector<std::string> namespaces{};  ///< of its rules, globs; empty: too many, or not known
};

/// A proxy that uses the same id store, as it described itself. Texts may be anything: whoever may
/// write to the store can invent proxies.
struct KnownProxy : ProxyDescription {
  std::chrono::nanoseconds age{};     ///< since it was started, by the server's clock
  std::chrono::nanoseconds unseen{};  ///< since it last said that it is there, likewise
  bool self = false;                  ///< this process
};

/// The proxies that an id store with this `db` has seen lately, by the names of their hosts, as a
/// program that is none of them reads them. Blocks. The error's `reason` is for people.
[[nodiscard]] ids::Result<std::vector<KnownProxy>> read_proxies(mongo::Client& client,
                                                                const std::string& db);

}  // namespace idproxy::id_store
