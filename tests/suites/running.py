"""Runs a suite's programs, and watches where they connect to."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time
from dataclasses import dataclass, field

from support.process import start


@dataclass
class Command:
    arguments: list[str | os.PathLike]
    directory: pathlib.Path
    output: pathlib.Path
    limit: float  # seconds; then it is killed, and what it has not reported is missing
    environment: dict[str, str] = field(default_factory=dict)


def run(command: Command, members: set[int]) -> int:
    """Returns in how many looks, four a second, it or a child of it was connected to a port of
    `members`."""
    seen = 0
    deadline = time.monotonic() + command.limit
    with open(command.output, "wb") as output:
        process = start(
            ["nice", "-n", "5", *command.arguments], cwd=command.directory, stdout=output,
            stderr=subprocess.STDOUT, env={**os.environ, **command.environment})
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                print(f"  {command.output.name}: killed after {command.limit:.0f} s", flush=True)
                break
            seen += bool(members and members & _ports(process.pid))
            time.sleep(0.25)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with what it started
        process.wait()
    return seen


def _ports(session: int) -> set[int]:
    """Of the servers that processes of the session are connected to."""
    mine = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = pathlib.Path(f"/proc/{name}/stat").read_text()
            if int(stat.rpartition(")")[2].split()[3]) == session:
                mine |= {os.readlink(each.path) for each in os.scandir(f"/proc/{name}/fd")}
        except OSError:
            pass  # ended, or closed meanwhile
    found = set()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if f"socket:[{fields[9]}]" in mine:
            found.add(int(fields[2].rpartition(":")[2], 16))
    return found
