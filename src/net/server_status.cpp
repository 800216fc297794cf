#include "server_status.hpp"

#include <utility>

namespace idproxy::net {

ServerStatus::ServerStatus(std::span<const std::unique_ptr<IoThread>> threads,
                           std::shared_ptr<const rewrite::RuleSet> rules)
    : threads_(threads), rules_(std::move(rules)) {}

void ServerStatus::set_rules(std::shared_ptr<const rewrite::RuleSet> rules) {
  const std::lock_guard lock(mutex_);
  rules_.swap(rules);
}

std::uint64_t ServerStatus::sum(Cells::Count Cells::* count) const {
  std::uint64_t all = 0;
  for (const auto& thread : threads_) all += (thread->cells.*count).value();
  return all;
}

rewrite::Status ServerStatus::status(rewrite::ServerId asked) const {
  const Shared& shared = threads_[0]->shared;
  rewrite::Status status;
  status.version = shared.options.version;
  shared.directory.describe(asked, status);
  status.connections = sum(&Cells::connections);
  status.inserts_assigned = sum(&Cells::inserts_assigned);
  status.documents_refused = sum(&Cells::documents_refused);
  status.commands_failed = sum(&Cells::requests_refused);
  const std::lock_guard lock(mutex_);
  status.rules = rules_;
  return status;
}

}  // namespace idproxy::net
