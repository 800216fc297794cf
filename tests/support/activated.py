"""A proxy that is given its listening sockets, as systemd gives those of a socket unit."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from .proxy import Proxy


def listening(address: tuple[str, int] | str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    made = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(address)
    if kind == socket.SOCK_STREAM:
        made.listen(4096)
    return made


def activated(config: dict[str, Any], sockets: Sequence[socket.socket], names: Sequence[str] = (),
              **options: Any) -> Proxy:
    """One that gets the sockets as sd_listen_fds(3) describes it: from descriptor 3 on."""
    descriptors = [each.fileno() for each in sockets]
    moved = " ".join(f"{3 + i}<&{each}" for i, each in enumerate(descriptors))
    environment = {"LISTEN_FDS": str(len(sockets)), **({"LISTEN_FDNAMES": ":".join(names)} if names else {})}
    return Proxy(config, environment, within=["bash", "-c", f'LISTEN_PID=$$ exec "$@" {moved}', "bash"],
                 pass_fds=descriptors, **options)
