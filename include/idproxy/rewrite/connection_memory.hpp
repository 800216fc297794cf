#pragma once

#include <cstdint>

#include "idproxy/base/server_release.hpp"
#include "idproxy/rewrite/insert_rights.hpp"

namespace idproxy::rewrite {

/// State that the exchanges of one client's connection share, one after the other. Not thread-safe.
struct ConnectionMemory {
  InsertRights rights;
  /// The server's maxWireVersion, as its last reply to hello had it; 0: it is not known.
  std::int32_t wire_version = 0;

  /// True if replies to a repeated write name what an earlier attempt has executed
  /// (`retriedStmtIds`; MongoDB 6.0 and later).
  [[nodiscard]] bool tells_retried() const { return wire_version >= server_release::k6_0; }
  /// True if an unordered insert that a driver repeats may lose documents without an error
  /// (MongoDB 4.4; not 5.0). Not of a server that has not said what it is.
  [[nodiscard]] bool loses_writes() const {
    return wire_version > 0 && wire_version < server_release::k5_0;
  }
};

}  // namespace idproxy::rewrite
