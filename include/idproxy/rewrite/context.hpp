#pragma once

#include <functional>
#include <memory>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/members.hpp"
#include "idproxy/wire/compression.hpp"

namespace idproxy::rewrite {

/// A document that is being made: null as long as it is not there.
using StatusDocument = std::function<std::shared_ptr<const Buffer>()>;

/// The parts of an io thread that an exchange uses while it handles an event. Each io thread has
/// one Context; the objects that it refers to must outlive the thread's exchanges.
struct Context {
  const Clock& clock;
  RandomSource& random;  ///< for jitter
  X509 x509 = X509::allowed;
  bool maps_hello = true;  ///< replies to hello name the proxy's listeners
  /// Those that a client and its server may agree on.
  wire::Compressors compressors = wire::Compressors::all();
  /// Has the answer to {idproxy: "status"} on a connection to `asked` made elsewhere, a document.
  /// What it returns has it as soon as it is there. If empty, the client gets the server's reply to
  /// the command that checks its rights.
  std::function<StatusDocument(ServerId asked)> status{};
  /// The current Members when a reply to hello arrives. If null, replies to hello stay unchanged.
  std::shared_ptr<const Members> members{};
};

}  // namespace idproxy::rewrite
