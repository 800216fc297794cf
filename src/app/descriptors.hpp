#pragma once

#include <cstdint>

#include "idproxy/net/options.hpp"

namespace idproxy::app {

/// Opens /dev/null in place of standard input, output and error where they are closed. Otherwise
/// the next socket would be standard error, and a server would get the lines of our log. To be
/// called before anything is opened.
void reserve_standard_descriptors();

/// How many file descriptors may be open when so many clients are there: two for each, and what the
/// proxy itself needs.
[[nodiscard]] std::uint64_t needed_descriptors(const net::Options& options);
/// How many clients there may be, at least 1, if `limit` descriptors may be open.
[[nodiscard]] std::uint32_t connections_within(std::uint64_t limit, const net::Options& options);

/// As many clients as there are descriptors for (RLIMIT_NOFILE), which is raised as far as it may
/// be; fewer than options.max_connections only with a warning in the log.
[[nodiscard]] std::uint32_t permitted_connections(const net::Options& options);

}  // namespace idproxy::app
