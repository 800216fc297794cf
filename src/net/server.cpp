#include "idproxy/net/server.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <optional>
#include <thread>
#include <unordered_set>

#include "connection_pair.hpp"
#include "io_thread.hpp"
#include "listener.hpp"

namespace idproxy::net {

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
    for (const Route& route : shared.options.routes) {
      listeners.push_back(std::make_unique<Listener>(threads, route));
    }
  }

  void stop() {
    for (const auto& listener : listeners) listener->stop();
    for (const auto& thread : threads) {
      asio::post(thread->io, [&thread = *thread] {
        // A copy: closing a pair takes it out of the set.
        const std::vector<ConnectionPair*> open(thread.pairs.begin(), thread.pairs.end());
        for (ConnectionPair* pair : open) pair->close();
      });
    }
    guards.clear();
  }

  Shared shared;
  std::vector<std::unique_ptr<IoThread>> threads;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::optional<asio::signal_set> signals;
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

boost::system::result<std::unique_ptr<Server>, std::string> Server::open(
    Options options, std::shared_ptr<const rewrite::RuleSet> rules, const Clock& clock) {
  auto impl = std::make_unique<Impl>(std::move(options), std::move(rules), clock);
  for (const auto& listener : impl->listeners) {
    if (std::string error = listener->open(); !error.empty()) return error;
  }
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::vector<Endpoint> Server::listening() const {
  std::vector<Endpoint> endpoints;
  for (const auto& listener : impl_->listeners) endpoints.push_back(listener->route().listen);
  return endpoints;
}

void Server::run() {
  Impl& impl = *impl_;
  for (const auto& thread : impl.threads) {
    impl.guards.emplace_back(thread->io.get_executor());
  }
  for (const auto& listener : impl.listeners) listener->start();
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < impl.threads.size(); ++i) {
    others.emplace_back([&io = impl.threads[i]->io] { io.run(); });
  }
  impl.threads[0]->io.run();
}

const Counters& Server::counters() const {
  return impl_->shared.counters;
}

const rewrite::Outcomes& Server::outcomes() const {
  return impl_->shared.outcomes;
}

}  // namespace idproxy::net
