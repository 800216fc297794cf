#pragma once

#include <atomic>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "asio.hpp"
#include "budget.hpp"
#include "deadlines.hpp"
#include "directory.hpp"
#include "idproxy/base/buffer.hpp"
#include "idproxy/net/counted.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/observability/metrics.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "lookups.hpp"
#include "server_news.hpp"
#include "stream.hpp"

namespace idproxy::net {

class ConnectionPair;

/// What all io threads share. Thread-safe: atomics, and what does not change.
struct Shared {
  Shared(Options server_options, const Clock& wall_clock)
      : options(std::move(server_options)),
        clock(wall_clock),
        budget(options.limits.buffered_messages) {}

  /// A connection that was counted as open is not any more.
  void count_closed() {
    if (--open_connections == 0 && draining) nobody_left();
  }

  const Options options;
  const Clock& clock;
  Directory directory;
  ServerNews* news = nullptr;         // set before the first thread runs
  std::function<void()> nobody_left;  // the last connection is closed while draining. Any thread
  Lookups lookups;
  Budget budget;
  std::atomic<bool> draining{false};
  std::atomic<std::uint32_t> open_connections{0};
  std::atomic<std::uint64_t> last_connection_id{0};
};

/// What one io thread has counted. Its thread writes, any may read.
struct Cells : PerCounted<metrics::Count> {
  metrics::Histogram insert_added;  ///< as Figures::insert_added
};

/// One thread's event loop and what its connections share, none of which any other thread touches,
/// but for reading the cells.
class IoThread {
 public:
  static constexpr std::size_t kReadSize = std::size_t{256} * 1024;

  IoThread(Shared& shared_state, std::shared_ptr<const rewrite::RuleSet> rules);

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
  Cells cells;
  // Before `io`: handlers that it still holds at its end own pairs, and these take themselves out.
  std::unordered_map<std::uint64_t, ConnectionPair*> pairs;  // by id
  asio::io_context io;
  Deadlines first_byte;
  Deadlines tls_handshake;
  Deadlines message;
  const std::unique_ptr<std::uint8_t[]> read_buffer;
  TlsScratch tls;
  std::shared_ptr<const tls::Context> client_tls;  // null: plain
  std::shared_ptr<const tls::Context> server_tls;
  rewrite::Workspace workspace;
  bool draining = false;

 private:
  std::vector<Buffer> spare_;
};

}  // namespace idproxy::net
