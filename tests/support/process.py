"""Child processes and conditions with deadlines."""

from __future__ import annotations

import functools
import os
import pathlib
import random
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

T = TypeVar("T")


class StoppedOrKilled:
    """Stopped at the end of a with statement, or killed if an exception ends that."""

    def stop(self) -> Any:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()


class Closing:
    """Closed at the end of a with statement, however that ends."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start(args: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Starts a child that is killed when the thread that starts it ends, whatever way it ends.

    Call it from the main thread: the kernel ties the child to the calling thread. The child is
    the leader of a session of its own, so that a Ctrl-C on the terminal reaches only the parent.
    """
    # Not with preexec_fn: Python would fork, which takes a tenth of a second once it is large.
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *args], stdin=subprocess.DEVNULL,
        start_new_session=True, **options)


# The kernel gives no port of these to anybody for port 0. They are divided into shares, so that test
# processes that run side by side never choose the same one.
_FIRST_PORT, _SHARE, _SHARES = 20_000, 500, 24


@functools.cache
def _share() -> int:
    """The first port of a share that belongs to this process alone, until it ends."""
    for number in range(_SHARES):
        # An abstract socket of Linux: a name, no file, which goes with its process.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0idproxy-tests-ports-{number}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return _FIRST_PORT + number * _SHARE
    raise RuntimeError(f"more than {_SHARES} processes want ports for tests")


_claims: list[socket.socket] = []


def free_port(host: str = "127.0.0.1") -> int:
    """A port of this host that nothing listened on a moment ago."""
    return free_ports(1, host)[0]


def free_ports(count: int, *hosts: str) -> list[int]:
    """Ports one after the other that nothing used a moment ago, on any of these hosts (none named:
    127.0.0.1); only this process chooses among them."""
    for _ in range(200):
        first = random.randrange(_share(), _share() + _SHARE - count)
        try:
            for port in range(first, first + count):
                for host in hosts or ("127.0.0.1",):
                    _bound(host, port).close()
        except OSError:
            continue
        return list(range(first, first + count))
    raise RuntimeError(f"no {count} free ports one after the other")


def _bound(host: str, port: int) -> socket.socket:
    probe = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        probe.bind((host, port))
    except OSError:
        probe.close()
        raise
    return probe


def has_ipv6() -> bool:
    """This host has an address of it."""
    try:
        _bound("::1", 0).close()
    except OSError:
        return False
    return True


def eventually(condition: Callable[[], T], timeout: float = 10.0, what: str = "") -> T:
    """Calls condition until it returns something true, and returns that."""
    deadline = time.monotonic() + timeout
    pause = 0.0005
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout} s: {what or condition}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


LITTLE_QUARANTINE = {"ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=4"}
"""The environment of a process whose memory is looked at: AddressSanitizer keeps what was freed for
a while."""


def memory(pid: int, field: str) -> int:
    """Bytes that it has: VmRSS now, VmHWM at most."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    found = next(line.split() for line in lines if line.startswith(field + ":"))
    return int(found[1]) * 1024


def processor_time(pid: int) -> float:
    """Seconds that it has used, of user and system."""
    # The name, the second field, may have spaces in it.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
