"""What a driver said of upserts, and whether the server holds just that."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]


@dataclass
class Increments:
    """One test writer's upserts, each of which adds 1 to n of the document with its key k.

    acknowledged, unknown: by key; one that was refused is in neither. reported: by key, what the
    driver said of the document as it was after one of them: n, and other fields.
    """

    acknowledged: Counter[int] = field(default_factory=Counter)
    unknown: Counter[int] = field(default_factory=Counter)
    reported: dict[int, list[Document]] = field(default_factory=lambda: defaultdict(list))

    def inserted(self, k: int, fields: Document) -> None:
        """The driver said that one of them inserted a document with these fields."""
        self.reported[k].append({**fields, "n": 1})

    def violations(self, stored: Iterable[Document], assigned: str,
                   is_value: Callable[[Any], bool]) -> list[str]:
        """What is wrong with the server's documents; empty if each key has one document, whose n
        counts what was acknowledged and perhaps what nobody knows of, and which is as reported."""
        found: dict[int, list[Document]] = defaultdict(list)
        for each in stored:
            found[each["k"]].append(each)
        every = [each for same in found.values() for each in same]
        values = Counter(each.get(assigned) for each in every)
        wrong = [f"k={each['k']}: has {each.get(assigned)!r}" for each in every
                 if not is_value(each.get(assigned))]
        wrong += [f"k={k}: stored {len(same)} times" for k, same in found.items() if len(same) > 1]
        wrong += [f"{value!r} is stored {count} times" for value, count in values.items()
                  if count > 1]
        for k in sorted({*found, *self.acknowledged, *self.unknown, *self.reported}):
            wrong += [f"k={k}: {what}" for what in self._of(k, found[k])]
        return wrong

    def _of(self, k: int, stored: list[Document]) -> Iterator[str]:
        """What is wrong with these documents, all those with this key."""
        least, executed = self.acknowledged[k], sum(each["n"] for each in stored)
        if not least <= executed <= least + self.unknown[k]:
            yield (f"{least} acknowledged and {self.unknown[k]} unknown, "
                   f"executed {executed} times")
        for each in self.reported[k]:
            if not any(each.items() - {("n", each["n"])} <= one.items() and each["n"] <= one["n"]
                       for one in stored):
                yield f"reported {each}, stored {stored}"
        counts = Counter(each["n"] for each in self.reported[k])
        for n, count in counts.items():
            if count > 1:
                yield f"n={n} is reported {count} times"
        if stored and not counts[1] and not self.unknown[k]:
            yield "no upsert is reported to have inserted it"
