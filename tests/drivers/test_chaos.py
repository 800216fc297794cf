"""Connections that break at any step of an insert, with ids that collide: nothing lost or doubled.

Each driver writes with retryable writes, as it comes. What it said of each batch is held against
what the server has in the end (support.chaos.Ledger): stored once if it was acknowledged, at most
once if the driver gave up.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.read_concern import ReadConcern

from program import available
from support.chaos import Chain, Ledger, StepRelay, quiet
from support.elements import document, int32, string
from support.full import FULL
from support.mongod import Mongod
from support.process import eventually
from support.values import digits_of

# Patient enough for a space of which three quarters are taken, and for a machine that is busy.
RETRY = {"attempts": 100, "deadline": "60s"}
# assign: driver also fills in what is missing, so one rule serves drivers that leave the _id out
# and drivers that cannot.
RULES = [{"ns": f"{db}{digits}.*", "field": field, "strategy": "random-digits", "digits": digits,
          "max_fill": 0.99, "assign": assign, "retry": RETRY}
         for db, field, assign in [("id", "_id", "driver"), ("field", "number", "missing")]
         for digits in (3, 4)]

# Who makes an _id itself: a driver that cannot leave it out of a retryable write.
OWN = {"node": False, "go": True, "java": False, "libmongoc": True}
# How many programs share one collection's batches. libmongoc sleeps after each lost connection, for
# half a second since it last looked for its server.
PROGRAMS = {"node": 1, "go": 2, "java": 1, "libmongoc": 5}

# In full, 10,000 batches of each driver.
BATCHES, BATCH = 150 if FULL else 60, 5
ROUNDS = 9 if FULL else 1
DROPPED = 0.12

pytestmark = pytest.mark.timeout(3600 if FULL else 600)

_collections = (f"c{i}" for i in itertools.count())


class Writer:
    """Programs of a driver that fill a collection, half full if its numbers have four digits."""

    def __init__(self, server: Mongod, name: str, driver, db: str, digits: int):
        self.db, self._name, self._driver = f"{db}{digits}", name, driver
        field = "_id" if db == "id" else "number"
        self.collection = server.client[self.db].get_collection(
            next(_collections), codec_options=CodecOptions(document_class=RawBSONDocument),
            read_concern=ReadConcern("majority"))
        self.collection.create_index("number", unique=True, sparse=True)
        if digits == 4:
            self.collection.insert_many({field: bson.Int64(i)} for i in range(0, 10_000, 2))
        self.ledger = Ledger(field, digits_of(digits, "int64", True))
        for k in range(BATCHES * BATCH):
            self.ledger.add(k, document(int32("k", k), string("text", f"text {k}")))

    def write(self, uri: str) -> None:
        """Inserts all batches and writes down what became of each."""
        count = BATCHES // PROGRAMS[self._name]

        def part(first: int) -> None:
            outcomes = self._driver(
                "batches", uri=uri, db=self.db, coll=self.collection.name, first=first,
                count=count, size=BATCH, own=OWN[self._name])["outcomes"]
            assert len(outcomes) == count
            for k in range(first * BATCH, (first + count) * BATCH):
                self.ledger.sent[k].outcome = outcomes[k // BATCH - first]

        with ThreadPoolExecutor(PROGRAMS[self._name]) as pool:
            list(pool.map(part, range(0, BATCHES, count)))

    def check(self) -> None:
        told = self.ledger.outcomes()
        assert {*told} <= {"ok", "unknown"} and told["ok"] > BATCHES * BATCH / 3, (self.db, told)
        stored = [bytes(d.raw) for d in self.collection.find({"k": {"$exists": True}})]
        assert (self.db, self.ledger.violations(stored)) == (self.db, [])


@dataclass
class Run:
    """What was written through one chain, by each driver."""

    chain: Chain
    dropping: StepRelay
    writers: dict[str, list[Writer]]


SIDES = ["downstream", "upstream"]


@pytest.fixture(scope="module")
def runs(request, replica_set) -> dict[str, list[Run]]:
    """For each side, what was written with faults there: by each driver on each side BATCHES of
    BATCH documents into each of four collections. All at the same time, because most of it is waiting."""
    drivers = available(request, OWN)
    done: dict[str, list[Run]] = {side: [] for side in SIDES}
    for number in range(ROUNDS):
        for side in SIDES:
            chain = Chain(replica_set, RULES, {side: DROPPED}, f"{side}/{number}")
            request.addfinalizer(chain.kill)
            done[side].append(Run(chain, getattr(chain, side), {
                name: [Writer(replica_set, name, driver, db, digits)
                       for db in ("id", "field") for digits in (3, 4)]
                for name, driver in drivers.items()}))
        newest = [of_side[-1] for of_side in done.values()]
        writers = [(writer, run.chain.uri) for run in newest
                   for of_driver in run.writers.values() for writer in of_driver]
        with ThreadPoolExecutor(len(writers)) as pool:
            list(pool.map(lambda both: both[0].write(both[1]), writers))
        for run in newest:
            run.chain.stop()
    databases = [rule["ns"].removesuffix(".*") for rule in RULES]
    eventually(lambda: quiet(replica_set, *databases), 60,
               "the server is done with what was cut off")
    return done


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("driver", OWN)
def test_nothing_is_lost_or_doubled(runs, driver, side, request):
    request.getfixturevalue(driver)
    for run in runs[side]:
        for writer in run.writers[driver]:
            writer.check()


@pytest.mark.parametrize("side", SIDES)
def test_there_were_faults_and_collisions(runs, side):
    """What was to be tested did happen."""
    for run in runs[side]:
        writers = 4 * len(run.writers)
        relay = run.dropping
        assert relay.steps > 2 * BATCHES * writers
        assert 0.7 * DROPPED < sum(relay.dropped.values()) / relay.steps < 1.3 * DROPPED
        assert all(relay.dropped[direction, fate] for direction in ("to_server", "to_client")
                   for fate in ("drop_before", "drop_after"))
        assert run.chain.stopped["duplicates_cured"] > BATCHES * BATCH / 10 * writers
