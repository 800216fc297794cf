#pragma once

#include <memory>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/members.hpp"
#include "idproxy/rewrite/status.hpp"

namespace idproxy::rewrite {

/// What an exchange needs to know, as it is at the time of an event. An io thread has one; the
/// objects that it refers to outlive the thread's exchanges.
struct Context {
  const Clock& clock;
  RandomSource& random;  ///< for jitter
  X509 x509 = X509::passes;
  bool maps_hello = true;  ///< replies to hello name our listeners
  /// Null: nobody answers {idproxy: "status"}.
  const StatusSource* status = nullptr;
  /// The newest, when a reply to hello comes; null: nobody wants to know of it.
  std::shared_ptr<const Members> members{};
};

}  // namespace idproxy::rewrite
