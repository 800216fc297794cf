#include "idproxy/net/counted.hpp"

namespace idproxy::net {

std::span<const CountedFamily> counted_families() {
  static const std::vector<CountedFamily> families{
      {"idproxy_connections_accepted_total",
       "Accepted client connections.",
       {{Counted::connections_accepted, {}}}},
      {"idproxy_connections_closed_total",
       "Client connections that the proxy turned away or closed. max_connections: the limit was "
       "reached; descriptors: no file descriptor was left for the client, or for its connection to "
       "the server; first_byte, tls_handshake, message: the client exceeded this limit; connect: "
       "the proxy could not connect to the server; protocol: the client or the server violated the "
       "protocol; drain: closed at the end of limits.drain, or by a second SIGTERM.",
       {{Counted::closed_max_connections, {{"reason", "max_connections"}}},
        {Counted::closed_descriptors, {{"reason", "descriptors"}}},
        {Counted::closed_first_byte, {{"reason", "first_byte"}}},
        {Counted::closed_tls_handshake, {{"reason", "tls_handshake"}}},
        {Counted::closed_message, {{"reason", "message"}}},
        {Counted::closed_connect, {{"reason", "connect"}}},
        {Counted::closed_protocol, {{"reason", "protocol"}}},
        {Counted::closed_drain, {{"reason", "drain"}}}}},
      {"idproxy_accept_failures_total",
       "Failures to accept a waiting client; the log says why.",
       {{Counted::accept_failures, {}}}},
      {"idproxy_tls_failures_total",
       "Failed TLS handshakes and connections with clients or servers; the log says why.",
       {{Counted::tls_failures_client, {{"peer", "client"}}},
        {Counted::tls_failures_server, {{"peer", "server"}}}}},
      {"idproxy_bytes_total",
       "Message bytes received from and sent to clients and servers, without the overhead of TLS.",
       {{Counted::bytes_from_clients, {{"peer", "client"}, {"direction", "received"}}},
        {Counted::bytes_to_clients, {{"peer", "client"}, {"direction", "sent"}}},
        {Counted::bytes_from_servers, {{"peer", "server"}, {"direction", "received"}}},
        {Counted::bytes_to_servers, {{"peer", "server"}, {"direction", "sent"}}}}},
      {"idproxy_requests_total",
       "Client requests. relayed: passed on unchanged; insert, update, findAndModify: commands "
       "that got values; hello: questions about the server and its set; status: {idproxy: "
       "\"status\"}; next: {idproxy: \"next\"}; refused: answered with an error by the proxy; "
       "shutdown: answered with ShutdownInProgress while draining.",
       {{Counted::requests_relayed, {{"kind", "relayed"}}},
        {Counted::requests_insert, {{"kind", "insert"}}},
        {Counted::requests_update, {{"kind", "update"}}},
        {Counted::requests_find_and_modify, {{"kind", "findAndModify"}}},
        {Counted::requests_hello, {{"kind", "hello"}}},
        {Counted::requests_status, {{"kind", "status"}}},
        {Counted::requests_next, {{"kind", "next"}}},
        {Counted::requests_refused, {{"kind", "refused"}}},
        {Counted::requests_shutdown, {{"kind", "shutdown"}}}}},
      {"idproxy_documents_refused_total",
       "Documents that could not take their value and got a write error.",
       {{Counted::documents_refused, {}}}},
  };
  return families;
}

}  // namespace idproxy::net
