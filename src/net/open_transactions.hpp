#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "idproxy/rewrite/classify.hpp"

namespace idproxy::net {

/// The transactions that clients have begun and not ended, as far as their messages say. One
/// belongs to the client connection that its last statement came on: drivers of replica sets may
/// send each statement on another one. A transaction that the server ends by itself counts until
/// its session begins the next one, or the connection is closed. Thread-safe: a session's lock is
/// held for the time of a look-up, and is that of a part of the sessions only. Times are monotonic.
class OpenTransactions {
 public:
  using Time = std::chrono::nanoseconds;
  using Session = std::array<std::uint8_t, 16>;

  /// Further ones of a connection are not counted, or stay with that of their last statement:
  /// clients can invent any number.
  static constexpr std::size_t kMostOfClient = 16;

  /// What a connection keeps, on its own thread: its sessions. Some may be of others meanwhile.
  /// Null on most, which begin no transaction.
  using Sessions = std::unique_ptr<std::vector<Session>>;

  struct Open {
    std::size_t count = 0;
    std::optional<Time> since{};  ///< when the oldest has begun

    void add(std::size_t more, Time its_since);
  };

  /// Event: a statement, or the end, of a transaction. Sessions are lsid.id; others than those of
  /// 16 bytes are ignored.
  void note(const rewrite::TransactionStep& step, std::uint64_t client, Sessions& own, Time now);
  /// Event: the connection was closed.
  void left(std::uint64_t client, Sessions& own);

  [[nodiscard]] Open of(std::uint64_t client, const Sessions& own) const;
  [[nodiscard]] Open all() const;

 private:
  static constexpr std::size_t kParts = 16;

  struct Entry {
    std::uint64_t client;
    Time since;
  };
  struct Part {
    std::mutex mutex;                                      // guards the others
    std::list<Entry> entries;                              // in the order in which they have begun
    std::map<Session, std::list<Entry>::iterator> places;  // no hash table: clients choose the keys
  };

  [[nodiscard]] Part& part_of(const Session& session) const {
    return parts_[session.back() % kParts];
  }
  void stated(const Session& session, bool begins, std::uint64_t client, Sessions& own, Time now);
  void ended(const Session& session, Sessions& own);
  void erase(const Session& session, std::optional<std::uint64_t> client);
  [[nodiscard]] bool has_room(std::uint64_t client, std::vector<Session>& own) const;
  [[nodiscard]] std::optional<Time> since(const Session& session, std::uint64_t client) const;

  mutable std::array<Part, kParts> parts_;
};

}  // namespace idproxy::net
