"""Servers and proxies for the tests that need real ones."""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.full import FULL
from support.long_runs import LongRun
from support.guarded import Guarded
from support.mongod import Mongod
from support.pairs import beyond_pairs, params_of
from support.proxy import Proxy, binary, configuration
from support.secured import Certificates
from support.servers import lacks
from support.shared import Shared
from support.thief import Robbed, Thief, robbing

# libmongoc of a process that is killed leaves a file behind.
os.environ["MONGOC_DISABLE_SHM"] = "1"

TOPOLOGIES = ["standalone", "replica_set"]

LONGEST = [f"test_{name}" for name in (
    "failover", "topology", "replica_set", "verify", "own_index", "duplicates", "counter_store_down", "trial",
    "limits", "permuted", "snowflake", "reload", "transactions", "command_line", "recipes", "doctor",
    "counters_command", "status_page", "secured_set", "tls", "inspection", "time_limits", "store", "gapless",
    "backfill", "guards", "hostile_words", "other_servers", "upsert_differential", "authentication", "incidents",
    "hello", "chaos", "bulk_write", "backfill_sequences", "counter", "first_inserts", "insert", "doctor_running",
    "assign", "full_space", "lying_hello", "reserve", "counter_failover", "change_of_primary", "existing_data",
    "counter_heal", "differential", "sequence_rows", "keep", "named_causes", "ends", "compression")]
"""The files that take longest, as build/test_seconds.txt has them. They come first: what begins last of what
runs side by side is short."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Not there at all, rather than skipped, are long tests and beyond_pairs(), unless
    IDPROXY_FULL=1, tests that need what this mongod does not have, and tests that a binary with UBSan cannot take: it finds out whether an object is
    there by means of a pipe, and reports sound ones for want of descriptors. What is built with
    AddressSanitizer has it too."""
    out = set() if FULL else {"full"}
    if b"__asan_init" in pathlib.Path(binary()).read_bytes():
        out.add("no_ubsan")
    left_out = {item for item in items if any(map(item.get_closest_marker, out)) or any(
        lacks(marker.args) for marker in item.iter_markers("needs")) or only_open(item)}
    if not FULL:
        left_out.update(beyond_pairs([
            item for item in items
            if item.path.parent.name == "integration" and item not in left_out]))
    left_out.update(of_other_pieces(items))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


def of_other_pieces(items: list[pytest.Item]) -> list[pytest.Item]:
    """$IDPROXY_PIECE, "2/6": of `scripts/test full --piece`. Files go to the pieces by turns, the longest first."""
    piece, _, pieces = os.environ.get("IDPROXY_PIECE", "1/1").partition("/")
    places = {name: place for place, name in enumerate(LONGEST)}
    files = sorted({item.path for item in items}, key=lambda path: (places.get(path.stem, len(places)), path))
    own = {*files[int(piece) - 1::int(pieces)]}
    return [item for item in items if item.path not in own]


def only_open(item: pytest.Item) -> bool:
    """It wants a secured set, and is not marked so."""
    if params_of(item).get("secured") != "secured":
        return False
    marker = item.get_closest_marker("secured")
    return not marker or marker.kwargs.get("full", False) and not FULL


def pytest_report_header() -> str:
    return f"mongo-idproxy: {binary()}"


@pytest.fixture(scope="session")
def shared() -> Iterator[Shared]:
    with Shared() as servers:
        yield servers


# Modules share no data: a counter looks at every collection of its rule, whoever made it. A module whose server
# dies, stands still or gets other members starts one of its own.
@pytest.fixture(scope="module")
def standalone(shared: Shared) -> Iterator[Mongod]:
    with shared.lent("standalone", Mongod) as mongod:
        yield mongod


@pytest.fixture(scope="module")
def replica_set(shared: Shared) -> Iterator[Mongod]:
    with shared.lent("replica_set", lambda: Mongod("rs0")) as mongod:
        yield mongod


@pytest.fixture(scope="module")
def guarded(shared: Shared) -> Iterator[Guarded]:
    with shared.lent("guarded", Guarded) as mongod:
        yield mongod


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=["open", "secured"])
def secured(request: pytest.FixtureRequest) -> Certificates | None:
    """Tests that are marked so run a second time, where servers and the proxy's clients have TLS and
    users, by these certificates."""
    return request.getfixturevalue("certificates") if request.param == "secured" else None


@pytest.fixture(scope="module", params=TOPOLOGIES)
def server(request: pytest.FixtureRequest) -> Mongod:
    """Each test that asks for it runs against a standalone and a one-member replica set."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def proxy(request: pytest.FixtureRequest, server: Mongod) -> Iterator[Proxy]:
    """One proxy for the module, with the module's RULES, in front of `server`."""
    with Proxy(configuration(server, getattr(request.module, "RULES", []))) as running:
        yield running


@pytest.fixture(scope="module")
def replica_proxy(request: pytest.FixtureRequest, replica_set: Mongod) -> Iterator[Proxy]:
    """As proxy, only in front of the replica set."""
    with Proxy(configuration(replica_set, getattr(request.module, "RULES", []))) as running:
        yield running


@pytest.fixture
def start_proxy() -> Iterator[Callable[..., Proxy]]:
    """Starts proxies of the test's own; each must end cleanly when the test is over."""
    running: list[Proxy] = []

    def start(*args: Any, **options: Any) -> Proxy:
        running.append(Proxy(*args, **options))
        return running[-1]

    yield start
    failures = []
    for each in running:
        try:
            each.stop()
        except AssertionError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


@pytest.fixture(scope="module")
def robbed_standalone(request: pytest.FixtureRequest, standalone: Mongod) -> Iterator[Robbed]:
    """One proxy for the module, with the module's RULES and a thief behind it."""
    with robbing(standalone, request.module.RULES) as running:
        yield running


@pytest.fixture(scope="module")
def robbed_replica_set(request: pytest.FixtureRequest, replica_set: Mongod) -> Iterator[Robbed]:
    """As robbed_standalone, in front of the replica set."""
    with robbing(replica_set, request.module.RULES) as running:
        yield running


@pytest.fixture
def robbed(robbed_replica_set: Robbed) -> Iterator[Robbed]:
    """The same, of which nothing is stolen any more when the test is over."""
    yield robbed_replica_set
    robbed_replica_set.thief.forget()


@pytest.fixture
def start_robbed(start_proxy: Callable[..., Proxy]) -> Iterator[Callable[..., Robbed]]:
    """Starts proxies of the test's own, each with a thief behind it."""
    thieves: list[Thief] = []

    def start(mongod: Mongod, rules: list[dict[str, Any]]) -> Robbed:
        thieves.append(Thief(mongod))
        config = configuration(thieves[-1], rules, mongod)
        return Robbed(mongod, thieves[-1], start_proxy(config))

    yield start
    for each in thieves:
        each.close()


@pytest.fixture
def record(
        record_property: Callable[[str, object], None]) -> Callable[[str, float], None]:
    """record(what, figure): a figure for the report, on which nothing depends."""
    def write(what: str, figure: float) -> None:
        # Properties of the whole suite would get lost where several processes run it.
        record_property(what, round(figure, 4))
    return write


@pytest.fixture
def long_run(request: pytest.FixtureRequest) -> LongRun:
    return LongRun(f"{request.path.stem}-{request.node.name}")


_collections = itertools.count()


@pytest.fixture
def coll(request: pytest.FixtureRequest) -> str:
    """A collection's name that no other test of the module uses, nor one of another module."""
    return f"{request.path.stem}{next(_collections)}"


@pytest.fixture(params=[True, False], ids=["ordered", "unordered"])
def ordered(request: pytest.FixtureRequest) -> bool:
    return request.param
