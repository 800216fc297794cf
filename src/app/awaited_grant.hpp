#pragma once

#include <cstddef>

#include "idproxy/ids/error.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::app {

/// Asks for `n` values after Draw::need(), and waits for the answer, at most as long as an insert
/// does (StoreSource::patience). After Errc::unavailable another attempt may succeed.
[[nodiscard]] ids::Result<ids::Grant> await_grant(ids::StoreSource& source, std::size_t n);

}  // namespace idproxy::app
