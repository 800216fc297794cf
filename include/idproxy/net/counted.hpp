#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace idproxy::net {

/// The events that the io threads count; each is its place in a PerCounted. To add a kind, add a
/// line here and one in the table of metrics (app/metrics_table.cpp).
enum Counted : std::uint8_t {
  connections_accepted,
  closed_max_connections,
  closed_descriptors,
  closed_first_byte,
  closed_tls_handshake,
  closed_message,
  closed_memory,
  closed_connect,
  closed_protocol,
  closed_drain,
  accept_failures,
  tls_failures_client,
  tls_failures_server,
  bytes_from_clients,
  bytes_to_clients,
  bytes_from_servers,
  bytes_to_servers,
  requests_relayed,
  requests_insert,
  requests_update,
  requests_find_and_modify,
  requests_bulk_write,
  requests_hello,
  requests_status,
  requests_next,
  requests_assign,
  requests_refused,
  requests_shutdown,
  requests_snappy,
  requests_zlib,
  requests_zstd,
  documents_refused,
};
inline constexpr std::size_t kCountedKinds = documents_refused + 1;

/// One T for each kind.
template <class T>
using PerCounted = std::array<T, kCountedKinds>;

}  // namespace idproxy::net
