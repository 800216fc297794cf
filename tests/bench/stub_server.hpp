#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "outgoing_message.hpp"
#include "request_reader.hpp"
#include "sockets.hpp"
#include "stream.hpp"
#include "transport.hpp"
#include "work.hpp"

namespace idproxy::bench {

/// What the stub server saw; lies in memory that it shares with the process that measures.
struct Findings {
  std::atomic<bool> compare_ids{false};   ///< set by the measuring process
  std::atomic<std::uint64_t> checked{0};  ///< documents that came through the checked port
  std::atomic<std::uint64_t> wrong_ids{0};
  std::atomic<std::uint64_t> changed{0};  ///< documents with another byte than those of the id
  std::atomic<std::uint64_t> repeated_ids{0};
  std::atomic<std::uint64_t> compared_ids{0};
  std::atomic<std::uint64_t> malformed{0};  ///< messages; their connections were closed
};

/// Throws std::runtime_error if anything was wrong; else says what was checked.
std::string require_clean(const Findings& findings);

struct StubPorts {
  std::uint16_t relayed;
  std::uint16_t checked;
};

/// Stands in for mongod: one thread, level-triggered epoll, prebuilt replies, so that its own work
/// stays small. It has two ports: behind the checked one every inserted document must have UUIDs of
/// version 7 where its work says so, and else the very bytes that the client sent.
class StubServer {
 public:
  /// `works`, `transport` and `findings` must outlive it. Listens at once.
  StubServer(const std::vector<Work>& works, const Transport& transport, Findings& findings);

  StubPorts ports() const { return {relayed_.port, checked_.port}; }

  /// Serves what has come in after at most that time; -1 waits without end, 0 not at all.
  void serve(int timeout_ms);

 private:
  struct Connection {
    Stream stream;
    std::uint64_t tag = 0;
    bool checked = false;
    bool full = false;  ///< waits until the socket takes more of `output`
    std::string input;  ///< an incomplete message
    OutgoingMessage output;
  };

  void on_event(std::uint64_t tag, std::uint32_t events);
  void accept_on(const Listener& listener);
  void read(Connection& connection);
  bool take(Connection& connection, std::string_view bytes);
  void close_malformed(Connection& connection);
  bool answer_all(Connection& connection, std::string_view& bytes);
  bool answer(Connection& connection, std::string_view message);
  void send(Connection& connection);
  const Work* work_of(const Request& request, bool checked);
  void check(std::string_view document, const StoredDocument& stored);

  const std::vector<Work>& works_;
  const Transport& transport_;
  Findings& findings_;
  std::string hello_reply_ = make_hello_reply();
  std::vector<std::string_view> documents_;  ///< of the request at hand
  std::unordered_set<std::string> seen_ids_;
  Fd epoll_;
  Listener relayed_ = listen_on_loopback();
  Listener checked_ = listen_on_loopback();
  std::deque<Connection> connections_;  ///< by tag; a deque, so that they stay where they are
  std::vector<std::size_t> free_;
  std::vector<char> buffer_ = std::vector<char>(kReadBytes);
  std::int32_t next_request_id_ = 1;
};

}  // namespace idproxy::bench
