"""What scripts/quickstart shows, once it has built the program."""

from __future__ import annotations

import os
import sys

from test_package import ROOT, run


def test_the_demonstration() -> None:
    """It checks itself what it shows."""
    shown = run(sys.executable, ROOT / "scripts/quickstart_demo.py", "--once",
                environment={"PYTHONPATH": str(ROOT / "tests"),
                             "IDPROXY_BINARY": os.environ["IDPROXY_BINARY"]})
    assert "number: 1004" in shown
