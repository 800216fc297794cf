"""An application that exists already, its documents and its everyday code: what its operator does
and reads, and how long it takes until its documents have numbers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pymongo.database import Database

from program import Program, StepFailed, Steps
from support.access import OPEN, Access
from support.admin import LISTEN, Admin
from support.full import FULL
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.secrets import PASSWORD

# The first test of a driver may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(1800)

DRIVERS = ["pymongo", "node", "mongoose", "go"]

DB, FIELD, START = "shop", "orderNo", 100_000

SIZES = [0, 1_000, 200_000, *([5_000_000] if FULL else [])]

# Arguments of create_index().
INDEXES: dict[str, dict[str, Any]] = {
    "none": {},
    "plain": {"keys": FIELD},
    "sparse": {"keys": FIELD, "unique": True, "sparse": True},
    "partial": {"keys": FIELD, "unique": True,
                "partialFilterExpression": {FIELD: {"$exists": True}}},
    "compound": {"keys": [(FIELD, 1), ("text", 1)]},
}
GUARDED = {"sparse", "partial"}

COLLECTIONS = {f"{kind}_{size}": (kind, size) for size in SIZES for kind in INDEXES}

# As the log and errors print it.
CREATE_INDEX = re.compile(r'db\.getSiblingDB\("[^"]*"\)\.getCollection\("[^"]*"\)'
                     r"\.createIndex\(\{[^}]*\}, \{.*?\}\)")
GRANT = re.compile(r'db\.getSiblingDB\("admin"\)\.grantRolesToUser\(.*?\}\]\)')


def rule(coll: str, **more: Any) -> dict[str, Any]:
    return {"ns": f"{DB}.{coll}", "field": FIELD, "strategy": "counter", "start": START, **more}


def fill(db: Database, coll: str, count: int, index: dict[str, Any]) -> None:
    """Documents from before the rule. The server copies most of them itself."""
    db.create_collection(coll)
    if count:
        some = [{"k": -1 - k, "text": f"order {k} " * 10} for k in range(1_000)]
        db["some"].insert_many(some)
        db["some"].aggregate([
            {"$set": {"copy": {"$range": [0, count // len(some)]}}}, {"$unwind": "$copy"},
            {"$unset": ["_id", "copy"]}, {"$out": coll}])
        db["some"].drop()
    db[coll].create_index("k")  # what upserts look for
    if index:
        db[coll].create_index(**index)


@dataclass
class Shop:
    """users: a program for each driver."""

    db: Database
    mongod: Mongod
    proxy: Proxy
    admin: Admin
    users: dict[str, Steps]

    def states(self) -> list[str]:
        """What /readyz says of each rule."""
        return self.admin.rules()

    def orders(self, coll: str) -> list[dict[str, Any]]:
        """What has been stored through the proxy."""
        return list(self.db[coll].find({"k": {"$gte": 0}}))


@pytest.fixture(scope="module")
def programs(request: pytest.FixtureRequest) -> dict[str, Program]:
    return {name: request.getfixturevalue(name) for name in DRIVERS}


@contextmanager
def opened(programs: dict[str, Program], mongod: Mongod, rules: list[dict[str, Any]],
           access: Access = OPEN, **more: Any) -> Iterator[Shop]:
    with ExitStack() as stack:
        config = configuration(mongod, rules, admin=LISTEN, **more)
        proxy = stack.enter_context(Proxy(config, access=access))
        uri = proxy.set_uri(mongod.replica_set) if mongod.replica_set else proxy.uri
        users = {name: stack.enter_context(program.steps(uri=uri, db=DB))
                 for name, program in programs.items()}
        yield Shop(mongod.client[DB], mongod, proxy, Admin(proxy), users)


@pytest.fixture(scope="module")
def filled(replica_set: Mongod) -> Mongod:
    """With documents in each collection before a proxy comes."""
    for coll, (kind, size) in COLLECTIONS.items():
        fill(replica_set.client[DB], coll, size, INDEXES[kind])
    return replica_set


@pytest.fixture(scope="module")
def shop(filled: Mongod, programs: dict[str, Program]) -> Iterator[Shop]:
    with opened(programs, filled, [rule(coll) for coll in COLLECTIONS]) as shop:
        yield shop


def insert(user: Steps, coll: str, first: int, count: int) -> None:
    assert user("insert", coll=coll, first=first, count=count) == {"inserted": count}


def seconds_until_stored(user: Steps, coll: str) -> float:
    """As somebody has it who tries again while the proxy says that it is not ready yet."""
    began = time.monotonic()

    def stored() -> bool:
        try:
            insert(user, coll, 0, 1)
            return True
        except StepFailed as failure:
            assert failure.codes == {6} and "mongo-idproxy" in str(failure), failure
            return False
    eventually(stored, 120, coll)
    return time.monotonic() - began


def refusal(user: Steps, coll: str, reason: str = "") -> str:
    """What the user reads where trying again does not help, once it has the reason in it."""
    def refused() -> str:
        try:
            insert(user, coll, 0, 1)
        except StepFailed as failure:
            return str(failure) if failure.codes == {96} and reason in str(failure) else ""
        raise AssertionError(f"{coll}: stored")
    return eventually(refused, 20, coll)


# In the order of what happens.

@pytest.mark.parametrize("coll", COLLECTIONS)
def test_the_first_number(filled, programs, record, coll):
    """Comes to an application that goes on as soon as the proxy listens."""
    kind, size = COLLECTIONS[coll]
    driver = DRIVERS[[*COLLECTIONS].index(coll) % len(DRIVERS)]
    with opened({driver: programs[driver]}, filled, [rule(coll)]) as shop:
        seconds = seconds_until_stored(shop.users[driver], coll)
        record(f"seconds to the first number: {size} documents, index {kind}, {driver}", seconds)
        assert [order[FIELD] for order in shop.orders(coll)] == [START]


def everyday(shop: Shop, coll: str, first: int) -> None:
    """Of all drivers, unchanged: what they store has a number, and what they replace keeps its own."""
    before = len(shop.orders(coll))
    stored = sum(user("everyday", coll=coll, first=first + 100 * i)["stored"]
                 for i, user in enumerate(shop.users.values()))
    orders = shop.orders(coll)
    assert len(orders) == before + stored
    assert any(order.get("text") == "replaced" for order in orders)
    numbers = [order[FIELD] for order in orders]
    assert len(numbers) == len({*numbers}) and min(numbers) == START


@pytest.mark.parametrize("coll", COLLECTIONS)
def test_everyday_code(shop, coll):
    everyday(shop, coll, first=1)
    old = shop.db[coll].find({"k": {"$lt": 0}, FIELD: {"$exists": True}})
    assert not [*old.hint([("$natural", 1)]).limit(1)]


def test_identities(shop):
    """What Mongoose made as _id is stored: documents are found by it, saved again, referred to."""
    done = shop.users["mongoose"]("identities", coll="none_0", first=900)
    assert done["text"] == "created and saved again"
    assert done["found"] == done["referred"] > START


def test_ready(shop):
    eventually(lambda: all(state.startswith("ready") for state in shop.states()), 30)
    assert len(shop.states()) == len(COLLECTIONS)


def test_the_advice_works(shop, mongosh):
    """Every command that the log prints, typed as it is."""
    unguarded = {coll for coll, (kind, _) in COLLECTIONS.items() if kind not in GUARDED}

    def advice() -> dict[str, str] | None:
        told = {event["ns"].partition(".")[2]: event["command"]
                for event in shop.proxy.find_events("no_unique_index")}
        return told if told.keys() == unguarded else None
    commands = eventually(advice, 60, "the log names each that has no unique index")
    mongosh(shop.mongod.uri, "\n".join(f"{command};" for command in commands.values()))
    for coll in COLLECTIONS:
        unique = [[*index["key"]] for index in shop.db[coll].index_information().values()
                  if index.get("unique")]
        assert unique == [[(FIELD, -1 if coll in unguarded else 1)]], coll
        everyday(shop, coll, first=1_001)


# Rules that refuse what they would else warn of, each by a collection's name.
STRICT = {"required": {"unique_index": "require"}, "unscanned": {"scan": "off"}}


@pytest.fixture(scope="module")
def strict(replica_set: Mongod, programs: dict[str, Program]) -> Iterator[Shop]:
    """A collection for each of the drivers, and one whose index the proxy makes."""
    rules = [rule(f"{coll}_{driver}", **keys)
             for coll, keys in STRICT.items() for driver in DRIVERS]
    rules.append(rule("created", unique_index="create"))
    for each in rules:
        fill(replica_set.client[DB], each["ns"].removeprefix(f"{DB}."), 1_000, {})
    with opened(programs, replica_set, rules) as shop:
        yield shop


def works(user: Steps, coll: str) -> bool:
    try:
        insert(user, coll, 0, 4)
        return True
    except StepFailed as failure:
        assert failure.codes <= {6, 96}, failure
        return False


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_error_says_what_to_type(strict, mongosh, driver):
    """Which works, and the proxy notices by itself."""
    user = strict.users[driver]
    commands = []
    for coll in STRICT:
        (command,) = {*CREATE_INDEX.findall(refusal(user, f"{coll}_{driver}"))}
        eventually(lambda: any(command in state for state in strict.states()), 20)
        commands.append(command)
    mongosh(strict.mongod.uri, "\n".join(f"{command};" for command in commands))
    for coll in STRICT:
        eventually(lambda: works(user, f"{coll}_{driver}"), 20)


def test_the_index_is_made(strict):
    for user in strict.users.values():
        seconds_until_stored(user, "created")
    (index,) = [each for each in strict.db["created"].index_information().values()
                if each.get("unique")]
    assert [*index["key"]] == [(FIELD, -1)]
    assert index.get("sparse") or index.get("partialFilterExpression")


@pytest.mark.parametrize("coll", [coll for coll, (kind, _) in COLLECTIONS.items()
                                  if coll == "none_1000" or FULL and kind in ("none", "partial")])
def test_privileges(guarded, programs, mongosh, coll):
    """Each one that is missing is named to all, with the command that grants it."""
    kind, size = COLLECTIONS[coll]
    fill(guarded.client[DB], coll, size, INDEXES[kind])
    guarded.add_user(f"store_{coll}", [])
    guarded.add_user(f"application_{coll}", ["readWriteAnyDatabase"])
    application = Access(user=f"application_{coll}", password=PASSWORD)
    store = {"uri": guarded.uri_of(f"store_{coll}")}
    with opened(programs, guarded, [rule(coll)], application, id_store=store) as shop:
        for needed in ("readWrite on idproxy", f"read on {DB}"):
            read = [refusal(user, coll, needed) for user in shop.users.values()]
            (command,) = {GRANT.search(each)[0] for each in read}
            eventually(lambda command=command: command in shop.states()[0])
            mongosh(guarded.uri_of("root"), f"{command};")
        for user in shop.users.values():
            eventually(lambda user=user: works(user, coll), 120)
        assert min(order[FIELD] for order in shop.orders(coll)) == START
