"""Whether scripts/test full runs: with all products of parameters, and with the long runs."""

from __future__ import annotations

import os

FULL = os.environ.get("IDPROXY_FULL") == "1"
