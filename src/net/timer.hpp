#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>

#include "asio.hpp"

namespace idproxy::net {

using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>,
                                         asio::io_context::executor_type>;

}  // namespace idproxy::net
