#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "idproxy/base/bytes.hpp"

namespace idproxy::net {

/// The transactions that clients have begun and not ended, as far as their messages say. One
/// belongs to the client connection that its last statement came on: drivers of replica sets may
/// send each statement on another one. A transaction that the server ends by itself counts until
/// its session begins the next one, or the connection is closed. Thread-safe.
class OpenTransactions {
 public:
  /// Those of more sessions are not counted: clients can invent any number.
  static constexpr std::size_t kMost = 100'000;

  /// Event: a statement, or the end, of the transaction of `session`, which is lsid.id; others than
  /// those of 16 bytes are ignored.
  void note(Bytes session, std::uint64_t client, bool ends);
  /// Event: the connection was closed.
  void left(std::uint64_t client);

  [[nodiscard]] std::size_t of(std::uint64_t client) const;
  [[nodiscard]] std::size_t size() const;

 private:
  using Session = std::array<std::uint8_t, 16>;
  struct Hash {
    std::size_t operator()(const Session& session) const;
  };

  void remove(std::uint64_t client);

  mutable std::mutex mutex_;  // guards the others
  std::unordered_map<Session, std::uint64_t, Hash> client_of_;
  std::unordered_map<std::uint64_t, std::size_t> number_of_;  // by client; none is 0
};

}  // namespace idproxy::net
