#include "net/server_status.hpp"

#include <utility>

namespace idproxy::net {

ServerStatus::ServerStatus(std::span<const std::unique_ptr<IoThread>> threads,
                           std::shared_ptr<const rewrite::RuleSet> rules)
    : threads_(threads), rules_(std::move(rules)) {}

void ServerStatus::set_rules(std::shared_ptr<const rewrite::RuleSet> rules) {
  const std::lock_guard lock(mutex_);
  rules_.swap(rules);
}

std::uint64_t ServerStatus::sum(Counted kind) const {
  std::uint64_t all = 0;
  for (const auto& thread : threads_) all += thread->cells[kind].value();
  return all;
}

rewrite::Status ServerStatus::status(rewrite::ServerId asked) const {
  const Shared& shared = threads_[0]->shared;
  rewrite::Status status;
  status.version = shared.options.version;
  shared.directory.describe(asked, status);
  status.connections = sum(Counted::connections_accepted);
  status.inserts_assigned = sum(Counted::requests_insert);
  status.documents_refused = sum(Counted::documents_refused);
  status.commands_failed = sum(Counted::requests_refused);
  const std::lock_guard lock(mutex_);
  status.rules = rules_;
  return status;
}

}  // namespace idproxy::net
