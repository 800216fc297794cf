#include "idproxy/net/counted.hpp"

namespace idproxy::net {

std::span<const CountedFamily> counted_families() {
  static const std::vector<CountedFamily> families{
      {"idproxy_connections_accepted_total",
       "Connections of clients that were accepted.",
       {{Counted::connections_accepted, {}}}},
      {"idproxy_connections_closed_total",
       "Connections of clients that the proxy has turned away or ended. max_connections: there "
       "were "
       "as many as may be; descriptors: no file descriptor was left for it, or for its connection "
       "to the server; first_byte, tls_handshake, message: the client took longer than these "
       "limits; connect: no connection to the server could be made; protocol: the client or the "
       "server broke the protocol; drain: cut off at the end of limits.drain, or by a second "
       "SIGTERM.",
       {{Counted::closed_max_connections, {{"reason", "max_connections"}}},
        {Counted::closed_descriptors, {{"reason", "descriptors"}}},
        {Counted::closed_first_byte, {{"reason", "first_byte"}}},
        {Counted::closed_tls_handshake, {{"reason", "tls_handshake"}}},
        {Counted::closed_message, {{"reason", "message"}}},
        {Counted::closed_connect, {{"reason", "connect"}}},
        {Counted::closed_protocol, {{"reason", "protocol"}}},
        {Counted::closed_drain, {{"reason", "drain"}}}}},
      {"idproxy_accept_failures_total",
       "Times that no connection could be accepted though clients were there; the log says why.",
       {{Counted::accept_failures, {}}}},
      {"idproxy_tls_failures_total",
       "TLS handshakes and connections that failed, with clients or with servers; the log says "
       "why.",
       {{Counted::tls_failures_client, {{"peer", "client"}}},
        {Counted::tls_failures_server, {{"peer", "server"}}}}},
      {"idproxy_bytes_total",
       "Bytes of messages, received from and sent to clients and servers; without TLS's own.",
       {{Counted::bytes_from_clients, {{"peer", "client"}, {"direction", "received"}}},
        {Counted::bytes_to_clients, {{"peer", "client"}, {"direction", "sent"}}},
        {Counted::bytes_from_servers, {{"peer", "server"}, {"direction", "received"}}},
        {Counted::bytes_to_servers, {{"peer", "server"}, {"direction", "sent"}}}}},
      {"idproxy_requests_total",
       "Requests of clients. relayed: passed on unchanged; insert: inserts that got values; hello: "
       "questions about the server and its set; status: {idproxy: \"status\"}; refused: answered "
       "with an error of the proxy; shutdown: answered with ShutdownInProgress while draining.",
       {{Counted::requests_relayed, {{"kind", "relayed"}}},
        {Counted::requests_insert, {{"kind", "insert"}}},
        {Counted::requests_hello, {{"kind", "hello"}}},
        {Counted::requests_status, {{"kind", "status"}}},
        {Counted::requests_refused, {{"kind", "refused"}}},
        {Counted::requests_shutdown, {{"kind", "shutdown"}}}}},
      {"idproxy_documents_refused_total",
       "Documents that could not take their value, and were answered with a write error.",
       {{Counted::documents_refused, {}}}},
  };
  return families;
}

}  // namespace idproxy::net
