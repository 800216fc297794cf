#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/system/error_code.hpp>

namespace idproxy::net {

namespace asio = boost::asio;
using boost::system::error_code;

// Its endpoints are addresses of TCP and Unix sockets.
using Protocol = asio::generic::stream_protocol;

}  // namespace idproxy::net
