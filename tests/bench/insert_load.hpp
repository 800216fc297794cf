#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fd.hpp"
#include "outgoing_message.hpp"
#include "sockets.hpp"

namespace idproxy::bench {

/// Who makes the numbers of the documents, and fresh ones for those that are taken.
enum class NumberedBy { client, proxy };
enum class Order { ordered, unordered };

struct InsertWork {
  std::string database;
  std::string collection;
  Order order;
  NumberedBy numbered_by;
  std::size_t batch;     ///< documents of one insert
  std::int64_t numbers;  ///< numbers are 0 to this, exclusively
  std::size_t connections;
};

/// One batch of documents on its way into the collection, with all the commands that it takes.
/// Documents are `{_id: <key>, ...some 190 bytes..., number: <int64>}`, as a driver and the rule of
/// the proxy make them; where the proxy makes the numbers they are sent without.
class Batch {
 public:
  /// `work` must outlive it.
  explicit Batch(const InsertWork& work);

  /// New documents, with keys from `first_key` on.
  void begin(std::int64_t first_key, std::mt19937_64& random);

  /// An insert of those that are not stored yet; valid until the next call.
  std::string_view message();

  /// Takes the reply to that insert; true if all documents are stored by now. Those whose number is
  /// taken get another one. Throws std::runtime_error if the reply says anything else, and, where
  /// the proxy makes the numbers, if it says that.
  bool take_reply(std::string_view body, std::mt19937_64& random);

 private:
  void give_number(std::size_t document, std::mt19937_64& random);
  std::vector<std::size_t> refused(std::string_view write_errors) const;

  const InsertWork& work_;
  std::string body_;
  std::vector<std::string> documents_;
  std::vector<std::size_t> unstored_;  ///< positions in documents_, ascending
  std::string sequence_;
  std::string message_;
};

/// A closed loop: every connection starts its next batch when all of its last one is stored. It
/// sleeps while there is nothing to do: it shares its core with the proxy.
class InsertLoad {
 public:
  /// Opens its connections. Throws std::system_error.
  InsertLoad(std::uint16_t port, InsertWork work);
  InsertLoad(const InsertLoad&) = delete;
  InsertLoad& operator=(const InsertLoad&) = delete;

  /// Number of documents stored. Starts no batch after `duration`, and returns when all that were
  /// started are stored. Throws std::runtime_error when one is not.
  std::uint64_t run(std::chrono::nanoseconds duration);

 private:
  struct Connection {
    Fd fd;
    Batch batch;
    OutgoingMessage request;
    std::int32_t request_id = 0;
    std::string input;
    bool full = false;  ///< waits until the socket takes more of `request`
  };

  void start_batch(std::size_t tag);
  void start_request(std::size_t tag);
  void send(std::size_t tag);
  void receive(std::size_t tag);
  void on_reply(std::size_t tag, std::string_view message);
  void serve();

  InsertWork work_;
  Fd epoll_;
  std::deque<Connection> connections_;
  std::vector<char> buffer_ = std::vector<char>(kReadBytes);
  std::mt19937_64 random_{std::random_device()()};
  std::int64_t next_key_ = 0;
  std::int32_t next_request_id_ = 1;
  std::size_t in_flight_ = 0;
  std::uint64_t stored_ = 0;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace idproxy::bench
