#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "idproxy/metrics/metrics.hpp"
#include "idproxy/net/counted.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "net/budget.hpp"
#include "net/buffer_pool.hpp"
#include "net/directory.hpp"
#include "net/event_loop.hpp"
#include "net/file_descriptor.hpp"
#include "net/inflation.hpp"
#include "net/lately.hpp"
#include "net/lookups.hpp"
#include "net/open_transactions.hpp"
#include "net/stream.hpp"
#include "net/upstream.hpp"

namespace idproxy::net {

class ConnectionPair;

/// The state that all io threads share. Thread-safe: its members are atomic, constant or
/// thread-safe themselves.
struct Shared {
  Shared(Options server_options, const Clock& wall_clock)
      : options(std::move(server_options)),
        clock(wall_clock),
        budget(options.limits.buffered_messages) {}

  /// A client connection that was counted in open_connections is closed.
  void count_closed() {
    if (--open_connections == 0 && draining) nobody_left();
  }

  const Options options;
  const Clock& clock;
  Directory directory;
  ServerObserver* observer = nullptr;  // set before the first thread runs
  std::function<void()>
      nobody_left;  // called on any thread when draining and no connection is left
  Lookups lookups;
  Budget budget;
  OpenTransactions transactions;
  DescriptorReserve reserve;
  std::atomic<bool> draining{false};
  std::atomic<std::uint32_t> open_connections{0};
  std::atomic<std::uint64_t> last_connection_id{0};
};

/// The counters of one io thread. That thread writes, any thread may read.
struct Cells : PerCounted<metrics::Count> {
  metrics::OwnHistogram insert_added;  ///< as ServerStatistics::insert_added
};

/// One thread's event loop, and the state that its connections share. Other threads may post to the
/// loop and read the cells, nothing else.
class IoThread {
 public:
  /// `place`: among the threads, from 0 on.
  IoThread(Shared& shared_state, std::shared_ptr<const rewrite::RuleSet> rules,
           std::size_t place = 0);

  /// The monotonic time of this turn of the loop. Reads the clock once in a turn: requests and
  /// replies that came together need no times of their own.
  [[nodiscard]] std::chrono::nanoseconds now() {
    if (loop.turns() != now_turn_) {
      now_turn_ = loop.turns();
      now_ = shared.clock.monotonic();
    }
    return now_;
  }

  Shared& shared;
  const std::size_t index;
  Cells cells;
  // Before the loop, which may own closed pairs with what is under way.
  rewrite::Workspace workspace;
  BlockPool exchanges;
  EventLoop loop;
  Deadlines first_byte;
  Deadlines first_request;  // of clients whose server cannot be reached
  Deadlines tls_handshake;
  Deadlines message;
  Deadlines stalled;  // clients that hold memory
  BufferPool buffers;
  TlsScratch tls;
  std::shared_ptr<const tls::Context> client_tls;  // null: plain
  std::shared_ptr<const tls::Context> server_tls;
  rewrite::Namespaces namespaces;
  rewrite::Context context;
  Inflation inflation;
  EndedClients ended;
  bool draining = false;
  // Open ones, by id; shared with the loop. Last: a pair uses all of the above.
  std::unordered_map<std::uint64_t, std::shared_ptr<ConnectionPair>> pairs;

 private:
  std::uint64_t now_turn_ = 0;
  std::chrono::nanoseconds now_{};
};

}  // namespace idproxy::net
