"""Host names that only one process knows, and a DNS server for it."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from .listening import Datagrams
from .process import Closing

# A process with file systems of its own, in which $1 stands at $2, and so on until --.
_MOUNT = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" && shift 2 || exit; done; shift; exec "$@"'
_UNSHARE = [["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]]
_HOSTS, _RESOLVER = pathlib.Path("/etc/hosts"), pathlib.Path("/etc/resolv.conf")


def _command(unshare: list[str], mounts: dict[pathlib.Path, pathlib.Path]) -> list[str]:
    pairs = [str(each) for at, what in mounts.items() for each in (what, at)]
    return [*unshare, "sh", "-c", _MOUNT, "sh", *pairs, "--"]


@functools.cache
def _permitted() -> list[str] | None:
    """The way to file systems of one's own that is open to us."""
    for unshare in _UNSHARE:
        try:
            command = _command(unshare, {_HOSTS: _HOSTS})
            if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
                return unshare
        except FileNotFoundError:
            pass
    return None


def permitted() -> bool:
    return _permitted() is not None


def mounted(mounts: dict[pathlib.Path, pathlib.Path]) -> list[str]:
    """A command that runs the one that is given to it where, at these paths, others stand."""
    unshare = _permitted()
    assert unshare, "no file systems of one's own are permitted"
    return _command(unshare, mounts)


def dns_permitted() -> bool:
    """A resolver only asks port 53."""
    if not permitted():
        return False
    try:
        with DnsServer():
            return True
    except PermissionError:
        return False


class OwnNames(Closing):
    """What /etc/hosts has for the process that `command` starts; all other names go to the DNS
    server at `resolver`. Exists from construction until close()."""

    def __init__(self, resolver: str = "127.0.0.1"):
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="idproxy-names-"))
        self._hosts = self._directory / "hosts"
        resolv_conf = self._directory / "resolv.conf"
        resolv_conf.write_text(f"nameserver {resolver}\noptions timeout:1 attempts:1\n")
        self.set({})
        self.command = mounted({_HOSTS: self._hosts, _RESOLVER: resolv_conf})

    def set(self, names: dict[str, str]) -> None:
        """Name -> address. Takes effect at once: the file stays the same one."""
        self.set_all(names.items())

    def set_all(self, names: Iterable[tuple[str, str]]) -> None:
        """The same where a name may have several."""
        lines = [f"{address} {name}\n" for name, address in names]
        self._hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))

    def close(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


@contextlib.contextmanager
def silent(address: str, port: int) -> Iterator[None]:
    """Nobody who connects there hears anything: what a listener's backlog has no room for is
    dropped (Linux)."""
    with contextlib.ExitStack() as open_sockets:
        listener = open_sockets.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(0)
        while True:
            waiting = open_sockets.enter_context(socket.socket())
            waiting.settimeout(2)
            try:
                waiting.connect((address, port))
            except TimeoutError:
                break
        yield


class DnsServer(Datagrams):
    """Answers from `records` at port 53 of `address`, some address of this host, from construction
    until close(). `records` is zone text, a record a line ("a.test. 0 A 127.0.0.1"); the answer
    has them in this order. `broken`: every question is answered with SERVFAIL. Thread-safety:
    the attributes may be replaced at any time."""

    def __init__(self) -> None:
        self.records: list[str] = []
        self.broken = False
        self.asked: list[str] = []  # "SRV _mongodb._tcp.a.test."
        self.address = "127.%d.%d.%d" % tuple(random.randrange(1, 255) for _ in range(3))
        receiving = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            receiving.bind((self.address, 53))
        except OSError:
            receiving.close()
            raise
        super().__init__(receiving)

    def _came(self, data: bytes, sender: Any) -> None:
        self._socket.sendto(self._answer(dns.message.from_wire(data)).to_wire(), sender)

    def _answer(self, query: dns.message.Message) -> dns.message.Message:
        response = dns.message.make_response(query)
        response.flags |= dns.flags.RA
        if self.broken:
            response.set_rcode(dns.rcode.SERVFAIL)
            return response
        (question,) = query.question
        self.asked.append(f"{question.rdtype.name} {question.name}")
        records = [line.split(None, 3) for line in self.records]
        ours = [(kind, data) for name, _, kind, data in records
                if name.lower() == str(question.name).lower()]
        found = [data for kind, data in ours if kind == question.rdtype.name]
        if found:
            response.answer.append(dns.rrset.from_text(
                question.name, 0, "IN", question.rdtype.name, *found))
        elif not ours:
            response.set_rcode(dns.rcode.NXDOMAIN)
        return response
