"""What happens to servers, proxies and connections during a soak, drawn by its seed."""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import json
import os
import pathlib
import random
import resource
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from pymongo.errors import PyMongoError

from support.middleman import deafen
from support.own_clock import OwnClock
from support.process import Closing, free_ports
from support.proxy import Proxy
from support.replica_set import Member, ReplicaSet

_PIDFD_GETFD = 438
_SO_DETACH_FILTER = 27
_libc = ctypes.CDLL(None, use_errno=True)


class Sidecar(Closing):
    """A proxy that comes back on the ports it had, with a configuration that can be changed.

    Its wall clock can be set: clock() is how far it is ahead, in seconds.
    """

    def __init__(self, directory: pathlib.Path, number: int, members: int, config: dict[str, Any],
                 environment: dict[str, str], **options: Any):
        self.number = number
        self._path = directory / f"proxy{number}.yaml"
        self._clock = OwnClock(directory, f"clock{number}")
        self._log = directory / f"proxy{number}.log"
        self._options = options
        self._environment = {**environment, **self._clock.environment}
        self._config = {**config, "listen": {"address": "127.0.0.1", **config.get("listen", {}),
                                             "port": free_ports(members + 2)[0]},
                        "admin": {"listen": None}, "log": {"level": "info", "format": "json"}, "threads": 2,
                        "limits": {"drain": "3s", **config.get("limits", {})}}
        self.change({})
        self.starts = 0
        self.start()

    def clock(self, seconds: int) -> None:
        self._clock.set_ahead(seconds)

    def change(self, more: dict[str, Any]) -> None:
        """Takes effect with a reload, or with the next start."""
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({**self._config, **more}, indent=1))
        beside.chmod(0o600)
        beside.rename(self._path)

    def start(self) -> None:
        self.proxy = Proxy(self._path, environment=self._environment, ready_timeout=60, **self._options)
        self.starts += 1

    def kill(self) -> None:
        self.proxy.kill()
        self._keep_log()

    def stop(self) -> None:
        try:
            self.proxy.stop()
        finally:
            self._keep_log()

    def _keep_log(self) -> None:
        with self._log.open("a") as file:
            file.write(self.proxy.log() + "\n")

    def close(self) -> None:
        self.kill()


class Sockets:
    """Connected TCP sockets of a process, borrowed from it: what is done to them is done to its own."""

    def __init__(self, pid: int):
        self._pid = pid

    def borrow(self, which: Callable[[int, int], bool]) -> Iterator[socket.socket]:
        """which: of the local and the remote port. Each is to be closed by the caller."""
        inodes = {inode for inode, local, remote in connections() if which(local, remote)}
        try:
            process = os.pidfd_open(self._pid)
        except ProcessLookupError:
            return
        try:
            for name in os.listdir(f"/proc/{self._pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{self._pid}/fd/{name}")
                    if target.startswith("socket:[") and target[8:-1] in inodes:
                        number = _libc.syscall(_PIDFD_GETFD, process, int(name), 0)
                        if number >= 0:
                            yield socket.socket(fileno=number)
        except FileNotFoundError:
            pass  # the process is gone
        finally:
            os.close(process)


def connections() -> Iterator[tuple[str, int, int]]:
    """Inode, local and remote port."""
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "01":
            yield fields[9], int(fields[1].rpartition(":")[2], 16), int(fields[2].rpartition(":")[2], 16)


class Faults:
    """Begins faults one after the other; some last a while, and end meanwhile or at the end.

    All of it is done by the thread that made it. trace: a file that gets a line of JSON for each.
    """

    LONGEST = 6.0  # seconds

    def __init__(self, seed: str, three: ReplicaSet, sidecars: list[Sidecar], trace: pathlib.Path,
                 rules: list[dict[str, Any]], more: dict[str, Callable[[], object]], clocks: bool):
        """more: further faults by name, which are over when they return. clocks: these are set, too."""
        self._chance = random.Random(seed)
        self._three, self._sidecars, self._rules = three, sidecars, rules
        self._trace = trace.open("w")
        self._began = time.monotonic()
        self._ends: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._busy: set[Any] = set()
        self.count: Counter[str] = Counter()
        steady = {name: method for name, method in [
            ("cut", self._cut), ("reset", self._reset), ("one-way partition", self._one_way),
            ("partition", self._partition), ("proxy stopped for a while", self._freeze_proxy),
            ("reload", self._reload), ("descriptors", self._descriptors), ("connect and leave", self._storm)]}
        # The first proxy is never started anew, so that what it holds can be told.
        self._kinds: dict[str, tuple[int, Callable[[], str | None]]] = {
            **{name: (4, method) for name, method in steady.items()},
            "proxy killed": (4, self._kill_proxy), "proxy restarted": (2, self._restart_proxy),
            "member killed": (1, self._kill_member), "member stopped for a while": (2, self._freeze_member),
            "primary steps down": (1, self._step_down),
            **({"clock": (3, self._set_clock)} if clocks else {}),
            **{name: (1, self._plain(action)) for name, action in more.items()}}

    def draw(self) -> None:
        """One fault, of those that are possible now; and what is due ends."""
        self._end_due(time.monotonic())
        names = list(self._kinds)
        name = self._chance.choices(names, [self._kinds[each][0] for each in names])[0]
        detail = self._kinds[name][1]()
        if detail is not None:
            self.count[name] += 1
            self.note(name, detail)

    def pause(self) -> float:
        """Seconds until the next one."""
        return self._chance.uniform(0.1, 1.5)

    def end(self) -> None:
        """All is as it was."""
        self._end_due(float("inf"))
        self._three.heal()

    def note(self, name: str, detail: str) -> None:
        print(json.dumps({"at": round(time.monotonic() - self._began, 3), "fault": name, "detail": detail}),
              file=self._trace, flush=True)

    def _end_due(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            heapq.heappop(self._ends)[2]()

    def _later(self, action: Callable[[], None], busy: Any = None, longest: float = LONGEST) -> float:
        seconds = self._chance.uniform(0.1, longest)
        self._busy.add(busy)

        def done() -> None:
            action()
            self._busy.discard(busy)
        heapq.heappush(self._ends, (time.monotonic() + seconds, next(self._order), done))
        return seconds

    @staticmethod
    def _plain(action: Callable[[], object]) -> Callable[[], str | None]:
        def run() -> str | None:
            try:
                return str(action())
            except PyMongoError as error:
                return f"failed: {type(error).__name__}"
        return run

    # Proxies.

    def _proxy(self, restarted: bool = False) -> Sidecar | None:
        """One to which nothing else happens now."""
        free = [each for each in self._sidecars[restarted:] if each not in self._busy]
        return self._chance.choice(free) if free else None

    def _kill_proxy(self) -> str | None:
        if not (each := self._proxy(restarted=True)):
            return None
        status = each.proxy.process.poll()
        assert status is None, f"proxy {each.number} has ended by itself with status {status}"
        each.kill()
        return f"proxy {each.number} for {self._later(each.start, each, 3.0):.1f} s"

    def _restart_proxy(self) -> str | None:
        if not (each := self._proxy(restarted=True)):
            return None
        each.stop()
        each.start()
        return f"proxy {each.number}"

    def _freeze_proxy(self) -> str | None:
        if not (each := self._proxy()):
            return None
        each.proxy.process.send_signal(signal.SIGSTOP)
        # Longer than the lease of a machine number, now and then.
        longest = 12.0 if self._chance.random() < 0.2 else 2.0
        seconds = self._later(lambda: each.proxy.process.send_signal(signal.SIGCONT), each, longest)
        return f"proxy {each.number} for {seconds:.1f} s"

    def _reload(self) -> str | None:
        if not (each := self._proxy()):
            return None
        size = self._chance.choice([1, 7, 50, 200])
        rules = [{**rule, "block": {"size": size}} if "block" in rule and "ranges" not in rule else rule
                 for rule in self._rules]
        more = {"ns": f"other.c{self._chance.randrange(5)}", "field": "_id", "strategy": "uuid", "version": 4}
        each.change({"rules": [more, *rules] if self._chance.random() < 0.5 else rules})
        each.proxy.process.send_signal(signal.SIGHUP)
        return f"proxy {each.number}, blocks of {size}"

    def _descriptors(self) -> str | None:
        """No more than it has by now, so that it cannot accept or connect."""
        if not (each := self._proxy()):
            return None
        pid = each.proxy.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        few = len(os.listdir(f"/proc/{pid}/fd")) + self._chance.randrange(3)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, hard))
        seconds = self._later(lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard)), each, 3.0)
        return f"proxy {each.number} with {few} for {seconds:.1f} s"

    def _storm(self) -> str | None:
        if not (each := self._proxy()):
            return None
        host, _, port = each.proxy.address.rpartition(":")
        for number in range(200):
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 2) as client:
                if number % 3 == 0:
                    client.sendall(struct.pack("<iiii", self._chance.choice([-1, 40, 10**6]), 1, 0, 2013))
        return f"proxy {each.number}"

    def _set_clock(self) -> str | None:
        if not (each := self._proxy()):
            return None
        ahead = self._chance.choice([-3600, -60, -1, 1, 60, 3600])
        each.clock(ahead)
        return f"proxy {each.number} by {ahead} s for {self._later(lambda: each.clock(0), each):.1f} s"

    # Connections.

    def _some(self, pid: int, which: Callable[[int, int], bool], share: float) -> Iterator[socket.socket]:
        for each in Sockets(pid).borrow(which):
            if self._chance.random() < share:
                yield each
            else:
                each.close()

    def _side(self, each: Sidecar) -> tuple[str, Callable[[int, int], bool]]:
        """Connections of clients, or to members."""
        own = {int(address.rpartition(":")[2]) for address, _ in each.proxy.listeners}
        members = {member.port for member in self._three.members}
        if self._chance.random() < 0.5:
            return "clients", lambda local, remote: local in own
        return "members", lambda local, remote: remote in members

    def _cut(self) -> str | None:
        return self._end_some(lambda each: each.shutdown(socket.SHUT_RDWR))

    def _reset(self) -> str | None:
        def reset(each: socket.socket) -> None:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.shutdown(socket.SHUT_RD)
        return self._end_some(reset)

    def _end_some(self, end: Callable[[socket.socket], None]) -> str | None:
        if not (each := self._proxy()):
            return None
        side, which = self._side(each)
        count = 0
        for one in self._some(each.proxy.pid, which, self._chance.choice([0.1, 0.5, 1.0])):
            with one, contextlib.suppress(OSError):
                end(one)
                count += 1
        return f"{count} of proxy {each.number} to {side}"

    def _deafened(self, pid: int, which: Callable[[int, int], bool]) -> list[socket.socket]:
        deaf = []
        for each in Sockets(pid).borrow(which):
            with contextlib.suppress(OSError):
                deafen(each)
                deaf.append(each)
        return deaf

    @staticmethod
    def _hear(deaf: list[socket.socket]) -> None:
        for each in deaf:
            with each, contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def _one_way(self) -> str | None:
        """What members, or clients, say does not arrive at a proxy, on the connections that there are."""
        if not (each := self._proxy()):
            return None
        side, which = self._side(each)
        deaf = self._deafened(each.proxy.pid, which)
        seconds = self._later(lambda: self._hear(deaf), each, 3.0)
        return f"{len(deaf)} of proxy {each.number} from {side} for {seconds:.1f} s"

    def _partition(self) -> str | None:
        """A proxy and a member, both ways, on the connections that there are."""
        if not (each := self._proxy()):
            return None
        member = self._chance.choice(self._three.members)
        ports = {local for inode, local, remote in connections() if remote == member.port}
        deaf = self._deafened(each.proxy.pid, lambda local, remote: remote == member.port)
        own = {one.getsockname()[1] for one in deaf} & ports
        if member.process.poll() is None:
            deaf += self._deafened(member.process.pid, lambda local, remote: remote in own)
        seconds = self._later(lambda: self._hear(deaf), each)
        return f"{len(deaf)} sockets of proxy {each.number} and member {member.port} for {seconds:.1f} s"

    # Members: one at a time.

    def _member(self) -> Member | None:
        return None if "member" in self._busy else self._chance.choice(self._three.members)

    def _kill_member(self) -> str | None:
        if not (each := self._member()):
            return None
        each.kill()
        return f"{each.port} for {self._later(each.restart, 'member'):.1f} s"

    def _freeze_member(self) -> str | None:
        if not (each := self._member()):
            return None
        each.process.send_signal(signal.SIGSTOP)
        seconds = self._later(lambda: each.process.send_signal(signal.SIGCONT), "member")
        return f"{each.port} for {seconds:.1f} s"

    def _step_down(self) -> str | None:
        if "member" in self._busy:
            return None
        try:
            self._three.members[0].client.admin.command("ping")
            primary = self._three._primary()
            if primary:
                primary.client.admin.command("replSetStepDown", 3, secondaryCatchUpPeriodSecs=2)
        except PyMongoError:
            pass  # it is done, and the reply was lost, or nobody had caught up
        return "" if primary else None
