#pragma once

#include "idproxy/ids/strategy.hpp"

namespace idproxy::app {

/// The system's clock and the kernel's random bytes. They live as long as the process.
[[nodiscard]] ids::Sources process_sources();

}  // namespace idproxy::app
