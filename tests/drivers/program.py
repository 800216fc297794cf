"""The drivers' programs: tasks and their results, or step after step while the client lives.

A step is a line of JSON, and so is what came of it. If the driver raised an error, there is its
text as error, and the codes that the server gave, none if a connection was lost.

insert        {coll, first, count}                      {inserted}
everyday      {coll, first}: documents k: first, first + 1, …, inserted and upserted in every way that
              the driver has                             {stored}: how many
find          {coll, times, secondaryPreferred, comment}  {found}: how many, each time
life          {coll, k}                                 {modified, n, inserted, deleted, document}
upsert        {coll, op, keys}                          {matched, upserted}: the _id by the position
                                                        in keys; or {document}, as it is then
bulk          {namespaces, count, ordered, verbose, transaction}: one bulkWrite of the client: documents k
              into these by turns, then the upsert of a further one into the first; in a transaction,
              if it is to be                            {inserted, upserted, results: how many the driver
                                                        has, calls: of the callback}
transactions  {coll, count, size, own}                  {calls, outcomes}, as the task
watch         {coll}: opens a change stream             {}
events        {count}: waits for so many                {events}: their fullDocument
unwatch       {}                                        {}
firsts        {coll, dbs, tasks, sleep}: a document into each of these databases, so many of them at a
              time. All have a connection by then: each keeps one from the others, so many ms long
                                                        {errors, milliseconds: of each insert}
topology      {}: what the driver knows of the servers  {servers: {address: type}, ever: [address]}

op: updateOne, updateMany, findOneAndUpdate or bulkWrite (of updateOne; ordered: true | false) adds
1 to n of the documents whose k is one of keys; replaceOne puts `replacement` there. All with upsert.
"""

from __future__ import annotations

import json
import os
import pathlib
import queue
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from bson import json_util

from stored import run


class StepFailed(AssertionError):
    """codes: the server's; empty if it was not the server that said no."""

    def __init__(self, text: str, codes: list[int]):
        super().__init__(text)
        self.codes = {*codes}


class Program:
    """A program that is given its tasks as JSON. Options are those of subprocess."""

    def __init__(self, command: list[str | os.PathLike], **options: Any):
        self._command, self._options = command, options

    def __call__(self, task: str, **argument: Any) -> dict:
        """Has it do a task; returns what it prints."""
        (result,) = self.each([{"task": task, **argument}])
        return result

    def each(self, tasks: Iterable[dict[str, Any]]) -> list[dict]:
        """The same for several, one after the other: the program may take longer to start than a
        task does."""
        printed = run([*self._command, *map(json.dumps, tasks)], **self._options)
        return [json.loads(line) for line in printed.splitlines()]

    def steps(self, watched: bool = True, **argument: Any) -> Steps:
        """watched: `peers` is kept, which takes longer than many a step."""
        command = [*self._command, json.dumps({"task": "steps", **argument})]
        return Steps(command, self._options, watched)


def available(request: pytest.FixtureRequest, names: Iterable[str]) -> dict[str, Program]:
    """The drivers of these names, but for those whose tools are missing: their own tests say so."""
    found = {}
    for name in names:
        try:
            found[name] = request.getfixturevalue(name)
        except pytest.skip.Exception:
            pass
    return found


class Steps:
    """A program with one client, which lives until close()."""

    def __init__(self, command: list[str | os.PathLike], options: dict[str, Any], watched: bool):
        self._watched = watched
        self.peers: set[str] = set()
        """The other ends of its sockets, as they were after each of the steps."""
        self._complaints = tempfile.TemporaryFile()
        self._results: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        # It ends when its standard input does, and so does not outlive its parent.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints,
            start_new_session=True, **options)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._results.put(line)
        self._results.put(b"")

    def __call__(self, step: str, timeout: float = 60, **argument: Any) -> dict:
        """Does a step; StepFailed if the driver raised an error."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"step": step, **argument}).encode() + b"\n")
        self._process.stdin.flush()
        try:
            line = self._results.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            raise TimeoutError(f"{step} {argument} goes on; {self._said()}") from None
        assert line, f"the program ended; {self._said()}"
        if self._watched:
            self.peers |= self.connected()
        result = json_util.loads(line)
        if "error" in result:
            raise StepFailed(f"{step} {argument}: {result['error']}\n{self._said()}",
                             result["codes"])
        return result

    def connected(self) -> set[str]:
        """The other ends of the TCP sockets that it has got now."""
        return peers(self._process.pid)

    def _said(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")[-4000:]

    def close(self) -> None:
        """Ends it, and insists that it ends well."""
        try:
            assert self._process.stdin
            self._process.stdin.close()
            status = self._process.wait(30)
        finally:
            self.kill()
        assert status == 0, f"status {status}; {self._said()}"

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(10)

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()


def peers(pid: int) -> set[str]:
    """The other ends, host:port, of the process's TCP sockets, connected ones and others."""
    own = set()
    for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(descriptor))
        except FileNotFoundError:
            pass  # closed meanwhile
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in own:
                found.add(_address(fields[2]))
    return found


def _address(text: str) -> str:
    """As the kernel writes it, in hex: the address in words of the machine's order, the port."""
    host, _, port = text.partition(":")
    words = struct.iter_unpack(">I", bytes.fromhex(host))
    packed = b"".join(struct.pack("=I", word) for word, in words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    # Java's sockets are of IPv6, for IPv4 too.
    return f"{socket.inet_ntop(family, packed).removeprefix('::ffff:')}:{int(port, 16)}"
