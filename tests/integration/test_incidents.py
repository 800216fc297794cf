"""What page, status, /readyz, log and metrics say of an incident, and how soon: the table of docs/status.md."""

from __future__ import annotations

import html
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import WriteConcern
from pymongo.errors import OperationFailure

from support.admin import LISTEN, Admin
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, binary, configuration

SOON = 5.0
OF_AN_INDEX = 15.0

Start = Callable[..., Proxy]


class Incident:
    """A proxy, and what it says."""

    def __init__(self, proxy: Proxy):
        self.proxy = proxy
        self.admin = Admin(proxy)

    def status(self) -> dict[str, Any]:
        return json.loads(self.admin.get("/status.json").text)

    def wrong(self, part: str) -> list[dict[str, Any]]:
        return [each for each in self.status()["wrong"] if part in each["text"]]

    def readyz(self, part: str) -> str:
        """The first of its lines with this part."""
        lines = self.admin.get("/readyz").text.splitlines()
        return next((line for line in lines if part in line), "")

    def says(self, part: str) -> bool:
        """On the page, and as the command prints it."""
        page = html.unescape(self.admin.get("/").text)
        return part in page and part in " ".join(self.printed().split())

    def printed(self, *options: str) -> str:
        command = [binary(), "status", "--admin", self.admin.address, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout


@pytest.fixture
def incident(replica_set: Mongod, start_proxy: Start) -> Callable[..., Incident]:
    def start(rules: list[dict[str, Any]]) -> Incident:
        return Incident(start_proxy(configuration(replica_set, rules, admin=LISTEN)))
    return start


def within(limit: float, condition: Callable[[], Any], what: str) -> Any:
    begun = time.monotonic()
    found = eventually(condition, 3 * limit, what)
    assert time.monotonic() - begun < limit, what
    return found


NO_INDEX = "no unique index keeps a value from being stored twice"


class TestIndexThatIsGone:
    def test_of_a_rule_that_warns(self, replica_set: Mongod, incident, coll: str):
        db = replica_set.client[coll]
        db.codes.create_index("code", unique=True)
        db.all_1.create_index("n", unique=True)
        its = incident([{"ns": f"{coll}.codes", "field": "code", "strategy": "random-digits", "digits": 9},
                        {"ns": f"{coll}.all*", "field": "n", "strategy": "counter"}])
        with its.proxy.client() as client:
            client[coll].codes.insert_one({})
            client[coll].all_1.insert_one({})
        unguarded = lambda: [its.admin.metrics()("idproxy_rule_collections_unguarded", rule=rule)  # noqa: E731
                             for rule in "01"]
        assert its.status()["wrong"] == [] and unguarded() == [0, 0]
        db.codes.drop_index("code_1")
        db.all_1.drop_index("n_1")
        within(OF_AN_INDEX, lambda: len(its.wrong(NO_INDEX)) == 2, "wrong")
        codes, numbers = its.wrong(NO_INDEX)
        assert codes["level"] == "warning" and codes["subject"] == f"{coll}.codes, code"
        assert codes["text"] == f"rule 0 ({coll}.codes, code): {NO_INDEX}"
        assert f'getCollection("codes").createIndex({{"code": -1}}, {{unique: true' in codes["remedy"]
        assert numbers["text"] == f"rule 1 ({coll}.all*, n): {NO_INDEX} in 1 collection"
        assert numbers["remedy"].startswith(f"make one in {coll}.all_1: db.")
        assert its.readyz("codes") == f"warning: {codes['text']}"
        assert its.readyz("all*") == f"warning: {numbers['text']}"
        assert its.admin.get("/readyz").status == 200 and unguarded() == [1, 1]
        assert its.says(f"rule 0 ({coll}.codes, code): {NO_INDEX}")
        assert "no unique index" in its.printed("--rules")
        assert {each["ns"] for each in its.proxy.find_events("no_unique_index")} == {f"{coll}.codes", f"{coll}.all_1"}
        db.codes.create_index("code", unique=True)
        within(OF_AN_INDEX, lambda: its.proxy.find_events("unique_index_again"), "it is there again")
        assert len(its.wrong(NO_INDEX)) == 1 and unguarded() == [0, 1]

    def test_which_the_proxy_makes_again(self, replica_set: Mongod, incident, coll: str):
        its = incident([{"ns": f"{coll}.made", "field": "n", "strategy": "counter", "unique_index": "create"}])
        made = lambda: its.proxy.find_events("unique_index_made")  # noqa: E731
        with its.proxy.client() as client:
            client[coll].made.insert_one({})
            (first,) = eventually(made, SOON)
            assert (first["ns"], first["field"], first["level"]) == (f"{coll}.made", "n", "info")
            assert first["message"] == "the proxy has made the unique index on the field"
            replica_set.client[coll].made.drop_index("n_idproxy")
            begun = time.monotonic()
            within(OF_AN_INDEX, lambda: len(made()) == 2, "it is made again")
        assert "had gone" in made()[1]["message"] and time.monotonic() - begun < OF_AN_INDEX
        assert "n_idproxy" in replica_set.client[coll].made.index_information()


class TestCounterThatSomebodyRemoved:
    def test_while_nobody_inserts(self, replica_set: Mongod, incident, coll: str):
        ns = f"{coll}.orders"
        replica_set.client[coll].orders.create_index("n", unique=True)
        its = incident([{"ns": ns, "field": "n", "strategy": "counter", "block": 100}])
        with its.proxy.client() as client:
            client[coll].orders.insert_many([{} for _ in range(5)])
            replica_set.client.idproxy.uniqueIdentifierCounter.delete_one({"_id": f"{ns}.n"})
            (said,) = within(SOON, lambda: its.proxy.find_events("counter_backwards"), "it is said")
            assert said["level"] == "warning" and said["counter"].endswith(f"{ns}.n")
            client[coll].orders.insert_one({})
        assert len(its.proxy.find_events("counter_backwards")) == 1
        numbers = sorted(each["n"] for each in replica_set.client[coll].orders.find())
        assert len(set(numbers)) == 6 and numbers[5] > 5

    def test_before_the_start(self, replica_set: Mongod, start_proxy: Start, coll: str):
        """Its mark tells that somebody had numbers of it."""
        ns = f"{coll}.orders"
        rules = [{"ns": ns, "field": "n", "strategy": "counter"}]
        for is_first in (True, False):
            proxy = start_proxy(configuration(replica_set, rules))
            with proxy.client() as client:
                client[coll].orders.insert_one({})
            proxy.stop()
            assert bool(proxy.find_events("counter_backwards")) != is_first
            replica_set.client.idproxy.uniqueIdentifierCounter.delete_one({"_id": f"{ns}.n"})


HELD = "the next number is held by an open transaction of the application hanging-job, which has not ended in time"


class TestRefusedInserts:
    """Each is in the log: one line a minute for each rule, namespace and reason."""

    def test_of_a_transaction_that_holds_a_number(self, replica_set: Mongod, incident, coll: str):
        its = incident([{"ns": f"{coll}.bills", "field": "n", "strategy": "gapless", "unique_index": "create"}])
        with its.proxy.client(appname="shop", retryWrites=False) as client, \
                its.proxy.client(appname="hanging-job") as other:
            bills = client[coll].bills
            bills.insert_one({})
            with other.start_session() as session:
                session.start_transaction()
                other[coll].bills.insert_one({}, session=session)
                begun = time.monotonic()
                # The first gets the number, and waits in the server for the end of the transaction.
                first = threading.Thread(target=bills.insert_one, args=({"first": 1},))
                first.start()
                eventually(lambda: list(replica_set.client.admin.aggregate([
                    {"$currentOp": {}}, {"$match": {"ns": f"{coll}.bills", "op": "insert"}}])), 5)
                errors = []
                for _ in range(2):
                    with pytest.raises(OperationFailure) as refused:
                        bills.insert_one({})
                    errors.append(refused.value)
                (held,) = within(SOON, lambda: its.wrong("inserts refused"), "wrong")
                assert all(each.code == 6 and HELD in str(each) for each in errors), errors
                (who,) = [each for each in its.status()["clients"]["list"]
                          if each["application"] == "hanging-job" and each["transactions"]]
                told = re.fullmatch(
                    rf"rule 0 \({coll}\.bills, n\): 2 inserts refused; the number is held by a transaction of "
                    rf"connection (\d+) \(hanging-job\), for (\d+) s", held["text"])
                assert told and int(told[1]) == who["id"] and held["level"] == "error", held
                assert abs(int(told[2]) - (time.monotonic() - begun)) < 2
                assert its.says(f"transaction of connection {who['id']} (hanging-job)")
                eventually(lambda: time.monotonic() - begun > 6, 10)
                server = [each["text"] for each in its.status()["wrong"] if each["text"].startswith("server ")]
                assert not server and not its.proxy.find_events("server_slow"), "it is healthy"
                session.abort_transaction()
                first.join()
        (said,) = its.proxy.find_events("writes_refused")[:1]
        assert said["level"] == "error" and said["reason"] == HELD and said["ns"] == f"{coll}.bills"
        assert (said["held_by_connection"], said["held_by_application"]) == (who["id"], "hanging-job")
        assert sum(each["writes"] for each in its.proxy.find_events("writes_refused")) <= 2
        assert its.admin.metrics()("idproxy_rule_writes_refused_total", rule="0") == 2

    def test_of_a_transaction_through_another_proxy(
            self, replica_set: Mongod, incident, start_proxy: Start, coll: str):
        """Nobody here knows whose it is: what is said is where to look."""
        rules = [{"ns": f"{coll}.bills", "field": "n", "strategy": "gapless", "unique_index": "create"}]
        its, another = incident(rules), start_proxy(configuration(replica_set, rules))
        with its.proxy.client(retryWrites=False) as client, another.client(appname="hanging-job") as other:
            bills = client[coll].bills
            bills.insert_one({})
            other[coll].bills.insert_one({})
            with other.start_session() as session:
                session.start_transaction()
                other[coll].bills.insert_one({}, session=session)
                first = threading.Thread(target=bills.insert_one, args=({"first": 1},))
                first.start()
                (slow,) = eventually(lambda: its.wrong("has not answered a request"), 30)
                with pytest.raises(OperationFailure, match="an open transaction, through another proxy or past"):
                    bills.insert_one({})
                (refused,) = within(SOON, lambda: its.wrong("1 insert refused"), "wrong")
                assert "the server is slow, or an open transaction, through another proxy" in refused["text"]
                assert "db.adminCommand({currentOp: true, transaction: {$exists: true}})" in slow["remedy"]
                found = replica_set.client.admin.command(
                    {"currentOp": True, "transaction": {"$exists": True}})["inprog"]
                assert [each["appName"] for each in found] == ["hanging-job"]
                session.abort_transaction()
                first.join()
        assert replica_set.client[coll].bills.distinct("n") == [1, 2, 3]

    def test_that_nobody_waits_for(self, replica_set: Mongod, incident, coll: str):
        """With {w: 0}, no client sees the error."""
        its = incident([{"ns": f"{coll}.bills", "field": "n", "strategy": "gapless", "unique_index": "create"}])
        with its.proxy.client() as client:
            client[coll].bills.insert_one({})
            for _ in range(3):
                client[coll].get_collection("bills", write_concern=WriteConcern(w=0)).insert_one({})
            (wrong,) = within(SOON, lambda: its.wrong("3 inserts refused"), "wrong")
            assert "{w: 0} does not tell which numbers are stored" in wrong["text"]
        assert its.proxy.wait_event("writes_refused", 5)["reason"] in wrong["text"]
        its.proxy.stop()
        assert sum(each["writes"] for each in its.proxy.find_events("writes_refused")) == 3
