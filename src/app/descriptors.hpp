#pragma once

#include <cstdint>

#include "idproxy/net/options.hpp"

namespace idproxy::app {

/// Opens /dev/null as standard input, output and error if they are closed. Otherwise a socket could
/// become standard error, and a server would receive log lines. Call it before anything is opened.
void reserve_standard_descriptors();

/// The number of file descriptors that options.max_connections clients need: two for each, plus
/// those of the proxy itself.
[[nodiscard]] std::uint64_t needed_descriptors(const net::Options& options);
/// How many clients `limit` descriptors are enough for, at least 1.
[[nodiscard]] std::uint32_t connections_within(std::uint64_t limit, const net::Options& options);

/// How many clients may connect: options.max_connections, or as many as there are descriptors for.
/// Raises RLIMIT_NOFILE as needed and permitted, and logs a warning if that is not enough.
[[nodiscard]] std::uint32_t permitted_connections(const net::Options& options);

}  // namespace idproxy::app
