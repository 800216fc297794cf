#include "app/awaited_grant.hpp"

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

ids::Error no_answer_in_time(const ids::StoreSource& source) {
  std::string reason = source.why_waiting();
  if (reason.empty()) reason = "the id store does not answer";
  return {ids::Errc::unavailable, std::move(reason)};
}

}  // namespace

ids::Result<ids::Grant> await_grant(ids::StoreSource& source, std::size_t n) {
  auto waiter = std::make_unique<FutureGrant>();
  auto answer = waiter->future();
  const ids::Ticket ticket = source.ask(n, std::move(waiter));
  if (answer.wait_for(source.patience()) != std::future_status::ready) {
    return no_answer_in_time(source);
  }
  return answer.get();
}

}  // namespace idproxy::app
