#pragma once

#include <memory>

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/gapless_queue.hpp"
#include "idproxy/ids/source.hpp"

namespace idproxy::ids {

/// Numbers of a sequence without gaps, written in one format. The state is in the queue.
[[nodiscard]] std::shared_ptr<Source> gapless_source(std::shared_ptr<GaplessQueue> queue,
                                                     const NumberFormat& format);

}  // namespace idproxy::ids
