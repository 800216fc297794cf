#pragma once

#include "idproxy/base/buffer.hpp"
#include "net/openssl.hpp"

namespace idproxy::net::tls {

/// The buffers that a session reads and writes during one call; both null between calls.
struct Window {
  Bytes* in = nullptr;
  Buffer* out = nullptr;
  bool shut = false;  ///< permanently: reads report the end
};

/// A BIO whose reads consume `window.in` (at its end they ask to retry) and whose writes append to
/// `window.out`. `window` must outlive it. Null if there is no memory.
OwnedBio open_bio(Window& window);

}  // namespace idproxy::net::tls
