"""What scripts/quickstart shows, once it has built the program."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack, suppress

import pytest
from test_package import ROOT, run


@pytest.mark.parametrize("taken", [(), (27117, 27216)])
def test_the_demonstration(taken: tuple[int, ...]) -> None:
    """It checks itself what it shows."""
    with ExitStack() as stack:
        for port in taken:
            with suppress(OSError):  # taken by somebody else
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        shown = run(sys.executable, ROOT / "scripts/quickstart_demo.py", "--once",
                    environment={"PYTHONPATH": str(ROOT / "tests"),
                                 "IDPROXY_BINARY": os.environ["IDPROXY_BINARY"]})
    assert "number: 1004" in shown
    for port in taken:
        assert f"port {port}" in shown
