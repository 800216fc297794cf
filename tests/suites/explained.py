"""Tests whose results may differ through the proxy, and why."""

from __future__ import annotations

from fnmatch import fnmatchcase

# (suite, pattern of names, reason)
_EXPLAINED: list[tuple[str, str, str]] = []


def reason(suite: str, name: str) -> str | None:
    for of, pattern, why in _EXPLAINED:
        if of == suite and fnmatchcase(name, pattern):
            return why
    return None
