#pragma once

namespace idproxy::net {

/// No delay, keepalive after 30 s idle (every 10 s, 3 times), 30 s for sent bytes to be
/// acknowledged: a peer that is gone without a word is noticed. No effect on Unix sockets.
void set_tcp_options(int fd);

}  // namespace idproxy::net
