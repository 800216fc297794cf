"""One violation of each kind, planted: the judge must see each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from support import elements as el
from support.chaos import Ledger
from support.elements import document, int32, int64
from support.increments import Increments

from load import Audit, Publisher, Saver, Upserter, drafts_violations, gaps_in, kept_violations, upserts_violations


def _ledger(stored: list[bytes], scope: str | None = None) -> list[str]:
    ledger = Ledger("n", scope=scope)
    for k, outcome in {1: "ok", 2: "ok", 3: "refused", 4: "unknown"}.items():
        ledger.add(k, document(int32("k", k), int32("tenant", 1)))
        ledger.sent[k].outcome = outcome
    return ledger.violations(stored)


def _stored(k: int, n: int, tenant: int = 1, *more: el.Element) -> bytes:
    return document(int32("k", k), int32("tenant", tenant), *more, int64("n", n))


def _drafts(*stored: dict[str, Any]) -> list[str]:
    publisher = Publisher.__new__(Publisher)
    publisher.status, publisher.tried = {1: "published", 2: "draft"}, {1, 2, 3}
    return drafts_violations([publisher], stored)


def _kept(*stored: dict[str, Any]) -> list[str]:
    saver = Saver({"soak": _Nothing()}, "s", random.Random(1))  # type: ignore[arg-type]
    saver.acknowledged, saver.number = {"a": 3, "b": 1}, {"a": 7}
    return kept_violations([saver], stored)


class _Nothing:
    def get_collection(self, *_: Any, **__: Any) -> None:
        return None


def _upserts(*stored: dict[str, Any]) -> list[str]:
    upserter = Upserter.__new__(Upserter)
    upserter._first, upserter.book = 0, Increments()
    upserter.book.acknowledged[1] = 2
    upserter.book.inserted(1, {})
    return upserts_violations([upserter], stored)


def _audit(*seen: tuple[Any, Any]) -> list[str]:
    audit = Audit.__new__(Audit)
    audit.keys, audit.violations = {"c": {}}, []  # type: ignore[assignment]
    for value, key in seen:
        audit.saw("c", [None, value], key)
    return audit.violations


GOOD = [_stored(1, 10), _stored(2, 20)]
DRAFTS = [{"k": 1, "status": "published", "n": 1}, {"k": 2, "status": "draft"}]
KEPT = [{"_id": "a", "seq": 3, "n": 7}, {"_id": "b", "seq": 1, "n": 8}]
UPSERTS = [{"k": 1, "n": 2, "number": 5}]

PLANTED: dict[str, tuple[Callable[[], list[str]], str]] = {
    "acknowledged and missing": (lambda: _ledger(GOOD[:1]), "k=2: ok, missing"),
    "stored twice": (lambda: _ledger([*GOOD, _stored(1, 30)]), "k=1: ok, stored 2 times"),
    "unknown and stored twice": (lambda: _ledger([*GOOD, _stored(4, 30), _stored(4, 31)]),
                                 "k=4: unknown, stored 2 times"),
    "refused and stored": (lambda: _ledger([*GOOD, _stored(3, 30)]), "k=3: refused, stored"),
    "bytes changed": (lambda: _ledger([GOOD[0], _stored(2, 20, 1, int32("x", 1))]), "k=2: not what was sent"),
    "nobody's document": (lambda: _ledger([*GOOD, _stored(9, 30)]), "k=9: nobody sent it"),
    "one value for two": (lambda: _ledger([GOOD[0], _stored(2, 10)]), "k=2: has the value of k=1"),
    "one value for two of a tenant": (lambda: _ledger([GOOD[0], _stored(2, 10)], "tenant"),
                                      "k=2: has the value of k=1"),
    "no value": (lambda: _ledger([GOOD[0], document(int32("k", 2), int32("tenant", 1))]), "k=2: without a value"),
    "one value for two, one deleted": (lambda: _audit((1, "a"), (2, "b"), (1, "c")), "c: 1 went to a and to c"),
    "a gap": (lambda: gaps_in([1, 2, 4]), "4 stands where 3 should"),
    "published without a number": (lambda: _drafts({"k": 1, "status": "published"}, DRAFTS[1]),
                                   "k=1: published, n=None"),
    "a draft with a number": (lambda: _drafts(DRAFTS[0], {"k": 2, "status": "draft", "n": 2}), "k=2: draft, n=2"),
    "an abort that did not happen": (lambda: _drafts(DRAFTS[0], {"k": 2, "status": "published", "n": 2}),
                                     "k=2: published in place of draft"),
    "a number that moved": (lambda: _kept({**KEPT[0], "n": 9}, KEPT[1]), "a: 9 in place of 7"),
    "a change that was lost": (lambda: _kept({**KEPT[0], "seq": 2}, KEPT[1]), "a: change 2 in place of 3"),
    "a number taken away": (lambda: _kept(KEPT[0], {"_id": "b", "seq": 1}), "b: without a number"),
    "an upsert done twice": (lambda: _upserts({**UPSERTS[0], "n": 3}), "k=1: 2 acknowledged and 0 unknown"),
    "an upsert's document twice": (lambda: _upserts(*UPSERTS, {**UPSERTS[0], "number": 6}), "k=1: stored 2 times"),
}


def check_planted() -> None:
    """Nothing is wrong with what is right, and each violation is seen."""
    assert not _ledger(GOOD) + _drafts(*DRAFTS) + _kept(*KEPT) + _upserts(*UPSERTS) + gaps_in([1, 2, 3])
    assert not _ledger([GOOD[0], _stored(2, 10, 1)][:1] + [GOOD[1]], "tenant")
    for name, (violations, expected) in PLANTED.items():
        found = violations()
        assert any(each.startswith(expected) for each in found), (name, found)
