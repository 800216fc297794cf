"""withTransaction of the drivers, with generated values that are taken.

A transaction inserts a document that gets a value, a line into a log, two documents more, and adds
to a sum. What is there in the end must be that of the last run of each callback and of no other.
"""

from __future__ import annotations

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from support.chaos import Ledger
from support.elements import document, int32, string
from support.proxy import configuration
from support.values import digits_of
from support.wire import COMPRESSORS

# The first test of a driver may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(600)

DRIVERS = ["node", "go", "java"]
FIELDS = ["_id", "number"]


class Transactions:
    """A database where `taken` of the values that the rule can make are in use, and a proxy.

    It asks another server how full the collection is, and so does not know: all may be taken."""

    def __init__(self, server, start_proxy, field: str, digits: int, taken: int, elsewhere, **rule):
        name = "transactions"
        self._digits, self._field = digits, field
        self._proxy = start_proxy(configuration(server, [
            {"ns": f"{name}.documents", "field": field, "strategy": "random-digits",
             "digits": digits, "max_fill": 0.99, **rule}], elsewhere))
        server.client.drop_database(name)
        self._db = server.client[name]
        self._documents = self._db.get_collection(
            "documents", codec_options=CodecOptions(document_class=RawBSONDocument))
        self._documents.create_index("number", unique=True, sparse=True)
        self._documents.insert_many({field: bson.Int64(i)} for i in range(taken))
        self._db.create_collection("log")
        self._db.sums.insert_one({"_id": "sum", "n": 0})

    def run(self, driver, count: int, options: str = "") -> dict:
        """The driver leaves the _id out where the rule makes it. Ends the proxy: see `stopped`.
        options: further ones of the connection string."""
        result = driver("transactions", uri=self._proxy.uri + options, db=self._db.name, coll="documents",
                        count=count, size=2, own=self._field != "_id")
        self._proxy.stop()
        self.stopped = self._proxy.wait_event("stopped")
        return result

    def check(self, count: int) -> None:
        """So many transactions are stored, whole and once, and nothing else."""
        ledger = Ledger(self._field, digits_of(self._digits, "int64", True))
        for k in range(3 * count):
            ledger.add(k, document(int32("k", k), string("text", f"text {k}")))
            ledger.sent[k].outcome = "ok"
        found = self._documents.find({"k": {"$exists": True}})
        assert not ledger.violations(bytes(d.raw) for d in found)
        assert [d["_id"] for d in self._db.log.find().sort("_id")] == list(range(count))
        assert self._db.sums.find_one()["n"] == 3 * count


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("driver", DRIVERS, indirect=True)
def test_the_callback_runs_again(replica_set, standalone, start_proxy, driver, field):
    """40 % are taken, so that four in five of the first runs collide. That none of twelve does, or
    one of them a hundred times in a row, happens once in ten million runs."""
    transactions = Transactions(replica_set, start_proxy, field, 3, 400, standalone,
                                retry={"attempts": 100})
    result = transactions.run(driver, 12)
    assert result["outcomes"] == ["ok"] * 12
    transactions.check(12)
    assert result["calls"] > 12
    assert transactions.stopped["transactions_transient"] == result["calls"] - 12


@pytest.mark.parametrize("driver, compressor", [*zip(DRIVERS, COMPRESSORS, strict=True)], indirect=["driver"])
def test_compressed(replica_set, standalone, start_proxy, driver, compressor):
    transactions = Transactions(replica_set, start_proxy, "number", 3, 400, standalone,
                                retry={"attempts": 100})
    result = transactions.run(driver, 12, f"&compressors={compressor}")
    assert result["outcomes"] == ["ok"] * 12
    transactions.check(12)
    assert result["calls"] > 12
    assert transactions.stopped["transactions_transient"] == result["calls"] - 12


@pytest.mark.parametrize("driver", DRIVERS, indirect=True)
def test_surface(replica_set, standalone, start_proxy, driver):
    """All are taken: the callback runs once, and the application gets the error."""
    transactions = Transactions(replica_set, start_proxy, "number", 1, 10, standalone,
                                in_transaction="surface")
    assert transactions.run(driver, 1) == {"calls": 1, "outcomes": ["duplicate"]}
    transactions.check(0)
    assert transactions.stopped["transactions_surfaced"] == 1
    assert transactions.stopped["transactions_transient"] == 0


@pytest.mark.parametrize("driver", DRIVERS, indirect=True)
def test_it_does_not_run_for_ever(replica_set, standalone, start_proxy, driver):
    """All are taken: after retry.attempts errors in a row the application gets the duplicate."""
    transactions = Transactions(replica_set, start_proxy, "_id", 1, 10, standalone,
                                retry={"attempts": 5})
    assert transactions.run(driver, 1) == {"calls": 6, "outcomes": ["duplicate"]}
    transactions.check(0)
    assert transactions.stopped["transactions_transient"] == 5
