#pragma once

#include <chrono>
#include <future>
#include <string>
#include <utility>

#include "database.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/ids/grant.hpp"

namespace idproxy::id_store::test {

/// Of a store that is kept at `with`.
inline Options options(std::string with = uri()) {
  Options options;
  options.uri = std::move(with);
  return options;
}

/// What somebody who waits is told.
using Answer = std::future<ids::Result<ids::Grant>>;

class Promise final : public ids::Waiter {
 public:
  explicit Promise(Answer& answer) { answer = promise_.get_future(); }
  void answered(ids::Result<ids::Grant> grant) override { promise_.set_value(std::move(grant)); }

 private:
  std::promise<ids::Result<ids::Grant>> promise_;
};

/// An error if there is none in time.
inline ids::Result<ids::Grant> get(Answer& answer, std::chrono::seconds limit) {
  if (answer.wait_for(limit) == std::future_status::ready) return answer.get();
  return ids::Error{ids::Errc::unavailable, "no answer in time"};
}

}  // namespace idproxy::id_store::test
