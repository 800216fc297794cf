#include "net/io_thread.hpp"

#include <algorithm>

namespace idproxy::net {
namespace {

// For the first request of a client whose server cannot be reached. Drivers send one at once.
constexpr std::chrono::milliseconds kUntilFirstRequest{1000};

// A client that holds memory which others wait for gives way if it has not moved for so long.
constexpr std::chrono::milliseconds kStalled{1000};

// Spare buffers of all threads together may have this part of limits.buffered_messages.
constexpr std::size_t kSparePart = 8;
constexpr std::chrono::milliseconds kUntilFreed{500};

}  // namespace

IoThread::IoThread(Shared& shared_state, std::shared_ptr<const rewrite::RuleSet> rules,
                   std::size_t place)
    : shared(shared_state),
      index(place),
      first_byte(loop, shared.options.limits.first_byte),
      first_request(loop, std::min(shared.options.limits.first_byte, kUntilFirstRequest)),
      tls_handshake(loop, shared.options.limits.tls_handshake),
      message(loop, shared.options.limits.message),
      stalled(loop, kStalled),
      buffers(loop, shared.options.limits.buffered_messages / kSparePart / shared.options.threads,
              kUntilFreed, [this] { workspace.free_unused(); }),
      client_tls(shared.options.client_tls),
      server_tls(shared.options.server_tls),
      namespaces(std::move(rules)),
      context{shared.clock, system_random()} {
  context.maps_hello = shared.options.map_members;
  context.compressors = shared.options.compressors;
  if (client_tls || server_tls) context.x509 = rewrite::X509::refused;
}

}  // namespace idproxy::net
