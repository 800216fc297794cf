#include "idproxy/net/server.hpp"

#include <sysexits.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "idproxy/log/log.hpp"
#include "idproxy/threads/threads.hpp"
#include "net/client_list.hpp"
#include "net/connection_pair.hpp"
#include "net/io_thread.hpp"
#include "net/passed_sockets.hpp"
#include "net/upstreams.hpp"

namespace idproxy::net {
namespace {

/// An exception that escapes a handler is a bug; ends the process, because systemd restarts it,
/// while a proxy without this thread would not serve its clients.
void run(EventLoop& loop) {
  try {
    loop.run();
  } catch (const std::exception& error) {
    log::event(log::Level::error, "internal_error", "an internal error ends the proxy",
               {{"reason", error.what()}});
    log::finish(std::chrono::seconds(1));
    std::_Exit(EX_SOFTWARE);
  }
}

constexpr std::chrono::milliseconds kThreadPause{100};

using Threads = std::vector<std::unique_ptr<IoThread>>;

Threads make_threads(Shared& shared, const std::shared_ptr<const rewrite::RuleSet>& rules) {
  Threads threads;
  for (std::uint32_t i = 0; i < shared.options.threads; ++i) {
    threads.push_back(std::make_unique<IoThread>(shared, rules, i));
  }
  return threads;
}

/// How often something was counted, by all of the threads together.
std::uint64_t sum(const Threads& threads, Counted kind) {
  std::uint64_t all = 0;
  for (const auto& thread : threads) all += thread->cells[kind].value();
  return all;
}

}  // namespace

struct Server::Impl {
  Impl(Options options, const std::shared_ptr<const rewrite::RuleSet>& rules, const Clock& clock)
      : shared(std::move(options), clock),
        threads(make_threads(shared, rules)),
        upstreams(threads),
        start_again(first()),
        drain_limit(first()),
        drivers_know(first()) {
    shared.observer = &upstreams;
    shared.nobody_left = [this] { first().post([this] { end_if_drained(); }); };
    for (const auto& thread : threads) {
      if (!shared.options.status) continue;
      thread->context.status = [this](rewrite::ServerId asked) {
        return shared.options.status(shared.directory.listener_of(asked));
      };
    }
  }

  [[nodiscard]] EventLoop& first() const { return threads[0]->loop; }

  // On the first io thread:

  /// Starts the other threads, and then serves. If the system refuses one, tries again soon: until
  /// then clients wait at the listeners.
  void begin() {
    if (stopped || shared.draining) return;
    while (others.size() + 1 < threads.size()) {
      std::thread thread;
      if (!threads::start(thread, [this, &loop = threads[others.size() + 1]->loop] {
            net::run(loop);
            first().post([this] { ended(); });
          })) {
        return start_again.start(kThreadPause, [this] { begin(); });
      }
      others.push_back(std::move(thread));
    }
    upstreams.start();
    serving();
  }

  void ended() {
    if (++others_ended == others.size()) first_guard.reset();
  }

  void drain() {
    if (stopped || shared.draining.exchange(true)) return;
    if (others.size() + 1 < threads.size()) return stop();  // it has served nobody
    upstreams.stop();
    drain_limit.start(shared.options.limits.drain, [this] {
      log::event(log::Level::warning, "drain_forced",
                 "limits.drain is over: closing the remaining connections",
                 {{"connections", shared.open_connections.load()}});
      stop();
    });
    const auto untold = std::make_shared<std::atomic<std::size_t>>(threads.size());
    const auto monitors = std::make_shared<std::atomic<std::size_t>>(0);
    for (const auto& thread : threads) {
      thread->loop.post([this, &thread = *thread, untold, monitors] {
        for (ConnectionPair* pair : ConnectionPair::all_of(thread)) {
          *monitors += pair->tell_monitor();
        }
        if (--*untold > 0) return;
        first().post(
            [this, some = monitors->load() > 0] { some ? close_soon() : close_what_is_idle(); });
      });
    }
    end_if_drained();
  }

  /// Waits before it closes idle connections. A driver whose monitor hears of one server's shutdown
  /// moves its operations to the other servers at once; they must have heard of all our listeners
  /// first, or they would come back here.
  void close_soon() {
    constexpr std::chrono::milliseconds kUntilDriversKnow{100};
    drivers_know.start(kUntilDriversKnow, [this] { close_what_is_idle(); });
  }

  void close_what_is_idle() {
    if (stopped) return;
    const auto unaware = std::make_shared<std::atomic<std::size_t>>(threads.size());
    for (const auto& thread : threads) {
      thread->loop.post(
          [this, &thread = *thread, unaware, before = shared.open_connections.load()] {
            thread.draining = true;
            // Logged once all threads are draining.
            if (--*unaware == 0) tell_draining(before);
            for (ConnectionPair* pair : ConnectionPair::all_of(thread)) pair->drain();
          });
    }
  }

  /// Logs once. Any thread.
  void tell_draining(std::uint32_t connections) {
    if (told_draining.exchange(true)) return;
    log::event(log::Level::info, "draining", "draining: no more clients are accepted",
               {{"connections", connections}});
  }

  void end_if_drained() {
    if (stopped || !shared.draining || shared.open_connections > 0) return;
    tell_draining(0);
    stop();
  }

  void stop() {
    if (std::exchange(stopped, true)) return;
    shared.lookups.stop();
    upstreams.stop();
    drain_limit.cancel();
    drivers_know.cancel();
    for (const auto& thread : threads) {
      thread->loop.post([&thread = *thread] {
        for (ConnectionPair* pair : ConnectionPair::all_of(thread)) {
          if (thread.draining) thread.cells[Counted::closed_drain].add();
          pair->close();
        }
      });
    }
    start_again.cancel();
    guards.clear();
    if (others.empty()) first_guard.reset();
  }

  Shared shared;
  const Threads threads;
  Upstreams upstreams;
  std::function<void()> serving;  // called once all threads run
  std::vector<std::thread> others;
  std::size_t others_ended = 0;
  Timer start_again;
  Timer drain_limit;
  Timer drivers_know;                    // until drivers have moved to other servers
  std::vector<EventLoop::Guard> guards;  // for the other threads
  // Until the others have ended: they may still post to the first.
  EventLoop::Guard first_guard;
  bool stopped = false;
  std::atomic<bool> told_draining{false};
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

boost::system::result<std::unique_ptr<Server>, ListenFault> Server::open(
    Options options, const std::shared_ptr<const rewrite::RuleSet>& rules, const Clock& clock) {
  if (std::string error = hand_out_sockets(options); !error.empty()) return ListenFault(error);
  auto impl = std::make_unique<Impl>(std::move(options), rules, clock);
  if (ListenFault fault = impl->upstreams.open(); !fault.text.empty()) return fault;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::vector<Endpoint> Server::listening() const {
  return impl_->upstreams.listening();
}

void Server::run(std::function<void()> serving) {
  Impl& impl = *impl_;
  impl.serving = std::move(serving);
  impl.first_guard = impl.first().guard();
  for (std::size_t i = 1; i < impl.threads.size(); ++i) {
    impl.guards.push_back(impl.threads[i]->loop.guard());
  }
  impl.others.reserve(impl.threads.size());
  impl.first().post([&impl] { impl.begin(); });
  net::run(impl.first());
  for (std::thread& each : impl.others) each.join();
}

void Server::drain() {
  impl_->first().post([&impl = *impl_] { impl.drain(); });
}

bool Server::draining() const {
  return impl_->shared.draining;
}

void Server::stop() {
  impl_->first().post([&impl = *impl_] { impl.stop(); });
}

std::string Server::fault_of_pins(const Pins& pins) const {
  return impl_->upstreams.fault_of(pins);
}

void Server::apply(Changes changes) {
  for (const auto& thread : impl_->threads) {
    thread->loop.post([&thread = *thread, rules = changes.rules, client_tls = changes.client_tls,
                       server_tls = changes.server_tls]() mutable {
      thread.namespaces = rewrite::Namespaces(std::move(rules));
      thread.client_tls = std::move(client_tls);
      thread.server_tls = std::move(server_tls);
    });
  }
  impl_->first().post([&upstreams = impl_->upstreams, pins = std::move(changes.pins)] {
    upstreams.set_pins(pins);
  });
}

ServerStatistics Server::statistics() const {
  const Shared& shared = impl_->shared;
  ServerStatistics statistics;
  const auto now = shared.clock.monotonic();
  statistics.listeners = shared.directory.listener_statistics(now);
  statistics.is_direct = !shared.options.map_members;
  statistics.connections_open = shared.open_connections;
  statistics.connections_limit = shared.options.max_connections;
  const OpenTransactions::Open transactions = shared.transactions.all();
  statistics.transactions_open = transactions.count;
  if (transactions.since) statistics.oldest_transaction = now - *transactions.since;
  statistics.buffered_limit = shared.budget.limit();
  statistics.buffered_bytes = shared.budget.used();
  statistics.buffered_waiting = shared.budget.waiting();
  statistics.buffered_waits = shared.budget.waits();
  for (std::size_t kind = 0; kind < kCountedKinds; ++kind) {
    const auto each = static_cast<Counted>(kind);
    statistics.counted[each] = sum(impl_->threads, each);
  }
  for (const auto& thread : impl_->threads) {
    statistics.insert_added += thread->cells.insert_added.values();
  }
  return statistics;
}

ClientList Server::clients(const ClientQuery& query) const {
  return list_clients(impl_->threads, query);
}

std::size_t Server::threads() const {
  return impl_->threads.size();
}

void Server::ask(std::size_t thread, std::function<void()> work) {
  impl_->threads[thread]->loop.post(std::move(work));
}

}  // namespace idproxy::net
