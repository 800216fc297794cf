"""What long runs leave for docs/reliability.json."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import time
from typing import Any

from .full import FULL

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNS = ROOT / "build/runs"


class LongRun:
    """Called by a test that has passed: of scripts/test full, its object goes to build/runs, from where
    `scripts/reliability add` takes it."""

    def __init__(self, test: str):
        self._file = RUNS / f"{re.sub(r'[^a-zA-Z0-9_]+', '-', test).strip('-')}.json"
        self._began = time.monotonic()
        if FULL:  # what an earlier run has left says nothing about this one
            self._file.unlink(missing_ok=True)

    def __call__(self, kind: str, **more: Any) -> None:
        if not FULL:
            return
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True,
                                text=True).stdout.strip()
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({
            "kind": kind, "commit": commit, "date": time.strftime("%Y-%m-%d"),
            "minutes": round((time.monotonic() - self._began) / 60, 1), "findings": 0, **more}) + "\n")
