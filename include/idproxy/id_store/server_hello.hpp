#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace idproxy::id_store {

/// ServerHello::state of a server that waits for rs.initiate().
inline constexpr const char* kWithoutSet = "without a set";

/// A server of a connection string, as it describes itself. The replica set that the string names
/// does not matter.
struct ServerHello {
  std::string address{};  ///< "host:port"
  /// Why it does not answer, or, while it shuts down, says nothing of itself; empty: it does.
  std::string fault{};
  std::string me{};                    ///< its name in its set; empty: none
  bool wants_tls = false;              ///< `fault`: it answers only with TLS
  bool is_silent = false;              ///< `fault`: it accepts a connection, and says nothing
  std::string set_name{};              ///< empty: it is a member of no replica set
  std::vector<std::string> members{};  ///< of the set, in lower case
  std::string process_id{};            ///< 12 bytes; empty before 4.4
  bool is_mongos = false;
  std::int32_t wire_version = 0;  ///< maxWireVersion
  std::string version{};          ///< "6.0.5" by buildInfo; empty: it does not say
  /// "primary", "secondary", "arbiter", "standalone", "mongos"; "without a set": it waits for
  /// rs.initiate(); "between states": it starts up, recovers, or has been removed; empty: it does
  /// not answer.
  std::string state{};
  std::string primary{};  ///< which member it takes for the primary; empty: none
  /// How far its clock is ahead of this host's, at least; 0: it may be the same.
  std::optional<std::chrono::milliseconds> clock_ahead{};
};

/// Sends hello and buildInfo to each server of `uri`, which config has checked, all at the same
/// time and without logging in. `limit`: for a connection; takes half a second more at most,
/// however long the name service does.
[[nodiscard]] std::vector<ServerHello> ask_each(const std::string& uri,
                                                std::chrono::milliseconds limit);
/// The same, and then the members of their sets by all further names: those lead libmongoc to them.
[[nodiscard]] std::vector<ServerHello> ask_each_and_members(const std::string& uri,
                                                            std::chrono::milliseconds limit,
                                                            std::chrono::milliseconds of_members);

/// Waits until the name service has told an address of one of the servers of `uri`, or that there
/// is none. Returns whose it has not told within `limit`, for people, if it has told nothing; else
/// "". The threads that wait for it are left behind then.
[[nodiscard]] std::string names_not_told(const std::string& uri, std::chrono::milliseconds limit);

/// The replica set that the string names; empty: none.
[[nodiscard]] std::string replica_set_of(const std::string& uri);

/// Why the server cannot be used with replicaSet=`expected` in the value of `uri_key`, with what to
/// write there; empty: it can, or it does not answer.
[[nodiscard]] std::string set_name_fault(const ServerHello& server, const std::string& expected,
                                         const std::string& uri_key);

/// True unless the two are known to belong to different deployments. Servers of one set have the
/// same members; a mongos says nothing in hello about the servers behind it.
[[nodiscard]] bool may_be_of_one_deployment(const ServerHello& a, const ServerHello& b);

}  // namespace idproxy::id_store
