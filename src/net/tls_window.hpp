#pragma once

#include "idproxy/base/buffer.hpp"
#include "openssl.hpp"

namespace idproxy::net::tls {

/// What a session may read and where it writes during one call; both null between calls.
struct Window {
  Bytes* in = nullptr;
  Buffer* out = nullptr;
  bool shut = false;  ///< for good: nothing is read any more, as at an end
};

/// A BIO whose reads take from `window.in`, which they shorten ("not now" at its end), and whose
/// writes append to `window.out`. `window` outlives it. Null if there is no memory.
OwnedBio open_bio(Window& window);

}  // namespace idproxy::net::tls
