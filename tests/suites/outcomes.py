"""What became of tests, and how two runs of them differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "skipped", "missing"]


@dataclass(frozen=True)
class Outcome:
    status: Status
    message: str = ""


MISSING = Outcome("missing")
Outcomes = dict[str, Outcome]


def counts(outcomes: Outcomes) -> Counter[str]:
    return Counter(each.status for each in outcomes.values())


def differing(one: Outcomes, other: Outcomes) -> list[str]:
    """The names of tests that did not end the same way, or ran only once."""
    return sorted(name for name in one.keys() | other.keys()
                  if one.get(name, MISSING).status != other.get(name, MISSING).status)


def bad(runs: Iterable[Outcomes], name: str) -> int:
    """In how many runs the test did not pass."""
    return sum(run.get(name, MISSING).status != "passed" for run in runs)
