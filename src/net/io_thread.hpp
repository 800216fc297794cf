#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "asio.hpp"
#include "budget.hpp"
#include "buffer_pool.hpp"
#include "deadlines.hpp"
#include "directory.hpp"
#include "idproxy/net/counted.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/observability/metrics.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "lookups.hpp"
#include "server_observer.hpp"
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
  ServerObserver* observer = nullptr;  // set before the first thread runs
  std::function<void()> nobody_left;   // the last connection is closed while draining. Any thread
  Lookups lookups;
  Budget budget;
  std::atomic<bool> draining{false};
  std::atomic<std::uint32_t> open_connections{0};
  std::atomic<std::uint64_t> last_connection_id{0};
};

/// What one io thread has counted. Its thread writes, any may read.
struct Cells : PerCounted<metrics::Count> {
  metrics::Histogram insert_added;  ///< as ServerStatistics::insert_added
};

/// One thread's event loop and what its connections share, none of which any other thread touches,
/// but for reading the cells.
class IoThread {
 public:
  IoThread(Shared& shared_state, std::shared_ptr<const rewrite::RuleSet> rules);

  Shared& shared;
  Cells cells;
  // Before `io`: handlers that it still holds at its end own pairs, and these take themselves out.
  std::unordered_map<std::uint64_t, ConnectionPair*> pairs;  // by id
  asio::io_context io;
  Deadlines first_byte;
  Deadlines tls_handshake;
  Deadlines message;
  BufferPool buffers;
  TlsScratch tls;
  std::shared_ptr<const tls::Context> client_tls;  // null: plain
  std::shared_ptr<const tls::Context> server_tls;
  rewrite::Namespaces namespaces;
  rewrite::Context context;
  rewrite::Workspace workspace;
  bool draining = false;
};

}  // namespace idproxy::net
