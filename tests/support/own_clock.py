"""A wall clock of its own for a process that the tests start."""

from __future__ import annotations

import pathlib
import subprocess

_SOURCE = pathlib.Path(__file__).with_name("set_clock.c")


class OwnClock:
    """environment: what the process needs to have it. Clocks in one directory differ in their names."""

    def __init__(self, directory: pathlib.Path, name: str = "clock"):
        library, self._file = directory / "set_clock.so", directory / name
        if not library.exists():
            subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, _SOURCE], check=True)
        self.environment = {"LD_PRELOAD": str(library), "SET_CLOCK_FILE": str(self._file)}
        self.set_ahead(0)

    def set_ahead(self, seconds: int) -> None:
        # At once: whoever reads a file that is being written sees an empty one.
        beside = self._file.with_suffix(".new")
        beside.write_text(str(seconds))
        beside.rename(self._file)
