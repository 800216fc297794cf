#include "net/passed_sockets.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>

#include "idproxy/base/words.hpp"
#include "net/sockets.hpp"

namespace idproxy::net {
namespace {

/// What sockets of this server are called: a name in $LISTEN_FDNAMES cannot contain a colon.
std::string socket_name(const Endpoint& server) {
  std::string name = server.text();
  std::ranges::replace(name, ':', '_');
  return name;
}

/// Whether the name was made by systemd: that of the unit, or of what has none.
bool is_default_name(const std::string& name) {
  return name.ends_with(".socket") || name == "unknown" || name == "stored";
}

bool accepts_connections(int fd) {
  int listens = 0;
  int type = 0;
  socklen_t size = sizeof listens;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
         ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/// Returns why there is no route for the socket, or "".
std::string hand_out(const PassedSocket& socket, std::vector<Route>& routes) {
  std::string what = "the socket " + shown(socket.name) + " of the socket unit ";
  if (!accepts_connections(socket.fd)) {
    return what + "takes no connections: make it with ListenStream= and Accept=no";
  }
  const Endpoint at = own_endpoint(socket.fd);
  std::string places;
  for (Route& route : routes) {
    places += (places.empty() ? "" : ", ") + route.listen.text();
    if (route.listen.key() != at.key()) continue;
    const std::string name = socket_name(route.upstream);
    if (!is_default_name(socket.name) && socket.name != name) {
      what += "is at " + at.text() + ", the address of the listener for ";
      return what.append(route.upstream.text())
          .append(": write FileDescriptorName=")
          .append(name)
          .append(", or none");
    }
    if (route.socket >= 0) return what + "is the second one at " + at.text();
    route.socket = socket.fd;
    return {};
  }
  return what + "is at " + at.text() + ", but by listen.address, listen.port and listen.members " +
         "the listeners are at " + places + ": make ListenStream= one of these";
}

}  // namespace

std::string hand_out_sockets(Options& options) {
  for (const PassedSocket& socket : options.sockets) {
    // Whoever made it may not have made it so.
    ::fcntl(socket.fd, F_SETFL, ::fcntl(socket.fd, F_GETFL) | O_NONBLOCK);
    std::string error = hand_out(socket, options.routes);
    if (!error.empty()) return "listen: " + error;
  }
  return {};
}

}  // namespace idproxy::net
