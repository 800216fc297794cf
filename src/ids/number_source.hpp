#pragma once

#include <memory>

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/number_stock.hpp"
#include "idproxy/ids/source.hpp"

namespace idproxy::ids {

/// Numbers of a stock, written in one format. The state is in the stock, which several sources may
/// share.
[[nodiscard]] std::shared_ptr<Source> number_source(std::shared_ptr<NumberStock> stock,
                                                    const NumberFormat& format,
                                                    const CounterSpec::OnStoreDown& on_store_down);

}  // namespace idproxy::ids
