#include "idproxy/net/server.hpp"

#include <sysexits.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <optional>
#include <thread>
#include <unordered_set>

#include "connection_pair.hpp"
#include "idproxy/observability/log.hpp"
#include "io_thread.hpp"
#include "upstreams.hpp"

namespace idproxy::net {
namespace {

/// What escapes a handler is a fault of ours, and half a proxy is worse than one that is restarted.
void run(asio::io_context& io) {
  try {
    io.run();
  } catch (const std::exception& error) {
    log::event(log::Level::error, "internal_error", "an internal error ends the proxy",
               {{"reason", error.what()}});
    std::_Exit(EX_SOFTWARE);
  }
}

}  // namespace

struct Server::Impl {
  Impl(Options options, std::shared_ptr<const rewrite::RuleSet> rules, const Clock& clock)
      : shared(std::move(options), std::move(rules), clock) {
    for (std::uint32_t i = 0; i < shared.options.threads; ++i) {
      threads.push_back(std::make_unique<IoThread>(shared));
    }
    // From here on: who is told that we are ready may stop us at once.
    signals.emplace(threads[0]->io, SIGTERM, SIGINT);
    signals->async_wait([this](error_code error, int) {
      if (!error) stop();
    });
    upstreams.emplace(threads);
    shared.upstreams = &*upstreams;
    for (const auto& thread : threads) {
      thread->workspace.status = &*upstreams;
      thread->workspace.maps_hello = shared.options.map_members;
    }
  }

  void stop() {
    shared.lookups.stop();
    upstreams->stop();
    for (const auto& thread : threads) {
      asio::post(thread->io, [&thread = *thread] {
        // A copy: closing a pair takes it out of the set.
        const std::vector<ConnectionPair*> open(thread.pairs.begin(), thread.pairs.end());
        for (ConnectionPair* pair : open) pair->close();
      });
    }
    guards.clear();
    if (others == 0) first_guard.reset();
  }

  Shared shared;
  std::vector<std::unique_ptr<IoThread>> threads;
  std::optional<Upstreams> upstreams;
  std::optional<asio::signal_set> signals;
  using Guard = asio::executor_work_guard<asio::io_context::executor_type>;
  std::vector<Guard> guards;         // of the other threads
  std::optional<Guard> first_guard;  // until they have ended: they may still ask the first
  std::size_t others = 0;            // that run
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

boost::system::result<std::unique_ptr<Server>, std::string> Server::open(
    Options options, std::shared_ptr<const rewrite::RuleSet> rules, const Clock& clock) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(rules), clock);
  if (std::string error = impl->upstreams->open(); !error.empty()) return error;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::vector<Endpoint> Server::listening() const {
  return impl_->upstreams->listening();
}

void Server::run() {
  Impl& impl = *impl_;
  asio::io_context& first = impl.threads[0]->io;
  impl.first_guard.emplace(first.get_executor());
  impl.others = impl.threads.size() - 1;
  for (std::size_t i = 1; i < impl.threads.size(); ++i) {
    impl.guards.emplace_back(impl.threads[i]->io.get_executor());
  }
  impl.upstreams->start();
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < impl.threads.size(); ++i) {
    others.emplace_back([&impl, &first, &io = impl.threads[i]->io] {
      net::run(io);
      asio::post(first, [&impl] {
        if (--impl.others == 0) impl.first_guard.reset();
      });
    });
  }
  net::run(first);
}

const Counters& Server::counters() const {
  return impl_->shared.counters;
}

const rewrite::Outcomes& Server::outcomes() const {
  return impl_->shared.outcomes;
}

}  // namespace idproxy::net
