#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "asio.hpp"
#include "idproxy/base/buffer.hpp"
#include "idproxy/net/server.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "lookups.hpp"

namespace idproxy::net {

class ConnectionPair;
class Upstreams;

/// What all io threads share. Thread-safe: atomics, and what does not change.
struct Shared {
  Shared(Options server_options, std::shared_ptr<const rewrite::RuleSet> rule_set,
         const Clock& wall_clock)
      : options(std::move(server_options)),
        rules(std::move(rule_set)),
        clock(wall_clock),
        outcomes(rules->rules().size()),
        driver_ids_reported(rules->rules().size()) {}

  const Options options;
  const std::shared_ptr<const rewrite::RuleSet> rules;
  const Clock& clock;
  Counters counters;
  rewrite::Outcomes outcomes;
  Upstreams* upstreams = nullptr;  // set before the first thread runs
  Lookups lookups;
  std::atomic<std::uint32_t> open_connections{0};
  std::atomic<std::uint64_t> last_connection_id{0};
  std::atomic<bool> bypass_reported{false};
  /// When a connection last sent a second request: its driver has stayed (see report_bypass).
  std::atomic<std::chrono::steady_clock::time_point> last_stayed{};
  std::vector<std::atomic<bool>> driver_ids_reported;  // by rule
};

/// One thread's event loop and what its connections share, none of which any other thread touches.
class IoThread {
 public:
  static constexpr std::size_t kReadSize = std::size_t{256} * 1024;

  explicit IoThread(Shared& shared_state)
      : shared(shared_state),
        io(1),
        read_buffer(std::make_unique_for_overwrite<std::uint8_t[]>(kReadSize)),
        workspace(shared_state.rules, shared_state.clock, system_random(), shared_state.outcomes) {}

  /// A buffer to collect a message in; most often one that served before.
  Buffer take_buffer() {
    if (spare_.empty()) return {};
    Buffer buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }
  void give_back(Buffer buffer) {
    constexpr std::size_t kSpareBuffers = 8;
    constexpr std::size_t kSpareSize = std::size_t{512} * 1024;
    if (buffer.capacity() == 0 || buffer.capacity() > kSpareSize) return;
    buffer.clear();
    if (spare_.size() < kSpareBuffers) spare_.push_back(std::move(buffer));
  }

  Shared& shared;
  // Before `io`: handlers that it still holds at its end own pairs, and these take themselves out.
  std::unordered_set<ConnectionPair*> pairs;
  asio::io_context io;
  const std::unique_ptr<std::uint8_t[]> read_buffer;
  rewrite::Workspace workspace;

 private:
  std::vector<Buffer> spare_;
};

}  // namespace idproxy::net
