#pragma once

#include <cstddef>

#include "idproxy/ids/error.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::app {

/// Appends `n` values of the strategy to `out`. Waits for the id store if the strategy needs it, at
/// most as long as an insert does (StoreBacked::patience). After an error the caller must not use
/// `out`; with Errc::unavailable another attempt may succeed.
[[nodiscard]] ids::Result<void> await_values(ids::Strategy& strategy, std::size_t n,
                                             ids::Values& out);

}  // namespace idproxy::app
