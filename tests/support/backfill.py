"""mongo-idproxy backfill, as a process."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymongo

from .mongod import Mongod
from .process import eventually, start
from .proxy import binary


@dataclass
class Done:
    """One that has ended."""

    code: int
    report: str
    errors: str  # and progress

    def number(self, label: str) -> int:
        """Of the report's line that begins like this; 0 if there is none."""
        found = re.search(rf"(?m)^  {label} +([\d,]+)\b", self.report)
        return int(found[1].replace(",", "")) if found else 0

    def __str__(self) -> str:
        return f"{self.code}\n{self.report}\n{self.errors}"


class Backfill:
    """Runs from construction on."""

    def __init__(self, directory: pathlib.Path, config: dict[str, Any], ns: str, field: str,
                 *options: str, errors: int = subprocess.PIPE):
        file = directory / "backfill.yaml"
        file.write_text(json.dumps({"admin": {"listen": None}, **config}))
        file.chmod(0o600)
        self.process = start(
            [binary(), "backfill", "--config", str(file), "--ns", ns, "--field", field, *options],
            stdout=subprocess.PIPE, stderr=errors, env=dict(os.environ))

    def end(self, timeout: float = 120) -> Done:
        report, errors = self.process.communicate(timeout=timeout)
        return Done(self.process.returncode, report.decode(), (errors or b"").decode())

    def kill(self) -> None:
        """As kill -9 does."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> Done:
        """As Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def await_given(self, collection: pymongo.collection.Collection, field: str, count: int,
                    timeout: float = 120, **among: Any) -> None:
        """Until so many documents have a value, of those that match; it must not have ended."""
        matching = {field: {"$exists": True}, **among}

        def given() -> bool:
            assert self.process.poll() is None, str(self.end())
            return collection.count_documents(matching) >= count
        eventually(given, timeout, f"{count} documents have a value")


def updated_twice(client: pymongo.MongoClient, ns: str) -> list[Any]:
    """The _ids of documents that were changed more than once, by the log of the replica set."""
    changes = client.local["oplog.rs"].find({"op": "u", "ns": ns}, {"o2": 1})
    counts = Counter(str(change["o2"]["_id"]) for change in changes)
    return [each for each, count in counts.items() if count > 1]


@contextmanager
def failing(mongod: Mongod, commands: list[str], mode: Any,
            **data: Any) -> Iterator[Callable[[int], None]]:
    """Commands of the program fail; what tests send does not. The context's value waits until so
    many have failed."""
    def configure(mode: Any) -> int:
        return mongod.client.admin.command("configureFailPoint", "failCommand", mode=mode, data={
            "failCommands": commands, "appName": "mongo-idproxy", **data})["count"]

    before = configure(mode)
    try:
        yield lambda times: mongod.client.admin.command(
            "waitForFailPoint", "failCommand", timesEntered=before + times, maxTimeMS=60_000)
    finally:
        after = configure("off")
    assert after > before, "nothing failed"
