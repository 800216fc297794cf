#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "document.hpp"
#include "fd.hpp"
#include "server.hpp"

namespace idproxy::bench {

/// An OP_MSG with `body` and, if `documents` is not empty, those as a sequence of that name; its
/// requestID is still to be put in.
std::string make_message(const std::string& body, std::string_view documents = {});

/// A standalone mongod, as quick as it gets: without a set's oplog, and with no checkpoints in
/// between that would fall into one measurement and not into the other.
/// Throws std::runtime_error with the end of its log when it does not come up.
Server start_mongod(const std::string& program, const TemporaryDirectory& directory, int core);

/// Likewise, with the configuration `text`, in which "PORT" stands for the port to listen on.
Server start_idproxy(const std::string& program, std::string text,
                     const TemporaryDirectory& directory, int core);

/// A blocking connection for commands.
class Database {
 public:
  /// Throws std::system_error when nobody listens.
  Database(std::uint16_t port, std::string name);

  /// The body of the reply. Throws std::runtime_error unless it says ok: 1 and no writeErrors.
  std::string run(Document command, std::string_view documents = {});
  std::string run_on(std::string_view database, Document command, std::string_view documents = {});

 private:
  Fd fd_;
  std::string name_;
  std::int32_t request_id_ = 0;
};

}  // namespace idproxy::bench
