#pragma once

#include <atomic>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>
#include <optional>

#include "idproxy/metrics/metrics.hpp"

namespace idproxy::net {

/// What one io thread sends to one server, and how long that takes to answer. The thread calls the
/// functions that are not const; any thread may call the others and read the counts. Times are
/// monotonic.
class alignas(64) ServerLoad {
 public:
  /// One connection to the server, among those that wait for a reply. It leaves with ended().
  class Connection : public boost::intrusive::list_base_hook<
                         boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    /// When the server began to owe the next reply; nothing: it owes none that is timed.
    [[nodiscard]] std::optional<std::chrono::nanoseconds> waits_since() const {
      return is_linked() ? std::optional(since_) : std::nullopt;
    }

   private:
    friend ServerLoad;
    std::chrono::nanoseconds since_{};
    std::uint32_t owed_ = 0;   // replies, timed or not
    std::uint32_t timed_ = 0;  // of these, those that are timed
  };

  /// A request's reply either comes as soon as the server has done the work, or the server may hold
  /// it back until there is news: to an awaitable hello, an exhaust stream, a getMore that waits
  /// for data. Those say nothing about how fast the server is, and are not timed.
  enum class Reply { prompt, may_wait };

  /// Event: a request that expects a reply was sent at `now`.
  void requested(Connection& connection, Reply reply, std::chrono::nanoseconds now);
  /// Event: the last reply to the connection's oldest request has ended. Returns how long the
  /// server took, if that was timed. The time of a request that was sent behind another one begins
  /// with the reply to that: servers execute the requests of one connection in order.
  std::optional<std::chrono::nanoseconds> answered(Connection& connection,
                                                   std::chrono::nanoseconds now);
  /// Event: the connection expects no more replies.
  void ended(Connection& connection);

  /// Timed requests without a reply.
  [[nodiscard]] std::uint64_t in_flight() const;
  /// When the oldest of them was sent; nothing: there is none.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> oldest() const;
  /// Event: the server has answered, here or on a connection that is not a client's.
  void heard(std::chrono::nanoseconds now);
  /// When it last answered; 0: never.
  [[nodiscard]] std::chrono::nanoseconds last_heard() const;
  /// When the first timed request after that was sent, by a client that may have given up since;
  /// nothing: none was.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> silent_since() const;

  metrics::Count requests;  ///< messages sent, also those that expect no reply
  metrics::Count replies;
  metrics::Count bytes_sent;
  metrics::Count bytes_received;
  metrics::OwnHistogram reply_time;  ///< of timed requests, from sending to the reply

 private:
  void stop_timing(Connection& connection);
  void note_oldest();

  using Waiting = boost::intrusive::list<Connection, boost::intrusive::constant_time_size<false>>;

  Waiting waiting_;  // in the order of since_
  metrics::Count timed_begun_;
  metrics::Count timed_ended_;
  std::atomic<std::int64_t> oldest_{0};  // 0: none
  std::atomic<std::int64_t> last_heard_{0};
  std::atomic<std::int64_t> silent_since_{0};  // 0: no
};

}  // namespace idproxy::net
