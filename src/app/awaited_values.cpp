#include "awaited_values.hpp"

#include <future>
#include <memory>
#include <utility>

namespace idproxy::app {
namespace {

/// Owns its promise, so that an answer that comes too late is dropped, and its numbers return.
class FutureGrant final : public ids::Waiter {
 public:
  [[nodiscard]] std::future<ids::Result<ids::Grant>> future() { return promise_.get_future(); }
  void answered(ids::Result<ids::Grant> grant) override { promise_.set_value(std::move(grant)); }

 private:
  std::promise<ids::Result<ids::Grant>> promise_;
};

ids::Error no_answer_in_time(const ids::StoreBacked& store_backed) {
  std::string reason = store_backed.why_waiting();
  if (reason.empty()) reason = "the id store does not answer";
  return {ids::Errc::unavailable, std::move(reason)};
}

}  // namespace

ids::Result<void> await_values(ids::Strategy& strategy, std::size_t n, ids::Values& out) {
  const auto drawn = strategy.next(n, out);
  if (drawn) return {};
  if (!drawn.needs_store()) return drawn.error();
  ids::StoreBacked& store_backed = *strategy.store_backed();
  auto waiter = std::make_unique<FutureGrant>();
  auto answer = waiter->future();
  const ids::Ticket ticket = store_backed.ask(n, std::move(waiter));
  if (answer.wait_for(store_backed.patience()) != std::future_status::ready) {
    return no_answer_in_time(store_backed);
  }
  auto grant = answer.get();
  if (!grant) return grant.error();
  store_backed.accept(*std::move(grant), out);
  return {};
}

}  // namespace idproxy::app
