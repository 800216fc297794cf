#pragma once

#include <chrono>

#include "idproxy/ids/source.hpp"

namespace idproxy::app {

/// The system's clock and the kernel's random bytes. They live as long as the process.
[[nodiscard]] ids::Sources process_sources();
/// What its clock says: monotonic.
[[nodiscard]] std::chrono::nanoseconds monotonic_now();

}  // namespace idproxy::app
