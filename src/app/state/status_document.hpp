#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/state/recent.hpp"
#include "app/state/snapshot.hpp"
#include "idproxy/log/log.hpp"
#include "idproxy/net/client_statistics.hpp"

namespace idproxy::app::state {

/// What a viewer wants to see, from the query of the request: `clients=app:NAME`, `rules=failing`,
/// `rules=all`. Anything else in it is ignored.
struct StatusQuery {
  std::optional<std::string> application{};
  enum class Rules { some, failing, all } rules = Rules::some;

  [[nodiscard]] static StatusQuery parse(std::string_view query);
};

/// Where the status of the process comes from.
struct StatusSources {
  std::string version;
  std::string commit;
  std::string file;  ///< the configuration's
  Phase phase = Phase::starting;
  std::chrono::nanoseconds now{};      ///< since 1970
  std::chrono::nanoseconds started{};  ///< the same
  std::chrono::nanoseconds monotonic{};
  std::vector<log::Line> lines{};
  /// Of {idproxy: "status"}, where the server has checked the client's rights: the listener that it
  /// is connected to. Then rules name their collections.
  std::optional<std::string> asked{};
};

/// The document of /status.json, as docs/status.md describes it. Has no value of a document, no
/// password and no text of a command. Lists no more than 1,000 clients that a query asks for, else
/// 50, and all rules that a query asks for, else 100: those that give no values, those that end
/// first, then the busiest.
/// `snapshot`: null before the proxy serves.
[[nodiscard]] boost::json::object status_document(const StatusSources& sources,
                                                  const Snapshot* snapshot, const Recent& recent,
                                                  const net::ClientList& clients,
                                                  const StatusQuery& query);

/// How many clients to list.
[[nodiscard]] net::ClientQuery clients_for(const StatusQuery& query);

}  // namespace idproxy::app::state
