#pragma once

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>

namespace idproxy::net {

namespace asio = boost::asio;
using boost::system::error_code;

// For TCP and Unix sockets. The executor type is the io_context's own, because the default,
// type-erased one costs an allocation and a virtual call per wait.
using Protocol = asio::generic::stream_protocol;
using Socket = asio::basic_stream_socket<Protocol, asio::io_context::executor_type>;
using Acceptor = asio::basic_socket_acceptor<Protocol, asio::io_context::executor_type>;

}  // namespace idproxy::net
