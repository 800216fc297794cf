"""A client makes nothing that it may not insert into (A23).

The proxy makes collections, indexes, counters and more with its own privileges. Before it does so
for a write, the server has to say, on the client's own connection, that the client may write there.
"""

from __future__ import annotations

import functools
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pymongo
import pytest
from bson import json_util
from pymongo.errors import OperationFailure

from support import wire
from support.admin import LISTEN
from support.guarded import Guarded, log_in
from support.process import eventually
from support.proxy import Proxy, configuration
from support.scrape import metric
from support.secrets import PASSWORD
from support.thief import Robbed, Thief
from support.threads import at_once

UNAUTHORIZED = 13
INVALID_ID = {2, 53}

RULES: list[dict[str, Any]] = [
    {"ns": "shop.counter*", "field": "number", "strategy": "counter"},
    {"ns": "shop.held*", "field": "number", "strategy": "counter", "block": {"size": 100}},
    {"ns": "shop.created*", "field": "number", "strategy": "counter", "unique_index": "create"},
    {"ns": "shop.shared*", "field": "number", "strategy": "counter", "name": "all"},
    {"ns": "shop.scoped*", "field": "number", "strategy": "counter", "scope": ["tenant"],
     "unique_index": "create"},
    {"ns": "shop.dated*", "field": "number", "strategy": "counter", "reset": "yearly",
     "output": "string", "template": "I-{yyyy}-{counter:06}", "unique_index": "create"},
    {"ns": "shop.text*", "field": "number", "strategy": "counter", "output": "string",
     "template": "R-{field:tenant}-{counter:06}", "unique_index": "create"},
    {"ns": "shop.gapless*", "field": "number", "strategy": "gapless", "unique_index": "create"},
    {"ns": "shop.invoices*", "field": "number", "strategy": "gapless", "unique_index": "create",
     "scope": ["tenant"]},
    {"ns": "shop.reserved", "field": "number", "strategy": "random-digits", "digits": 9,
     "reserve": {"collection": "numbers"}},
    {"ns": "shop.digits*", "field": "number", "strategy": "random-digits", "digits": 4,
     "unique_index": "create"},
    {"ns": "shop.uuids*", "field": "number", "strategy": "uuid", "unique_index": "create"},
]
KINDS = [rule["ns"].removeprefix("shop.").removesuffix("*") for rule in RULES]



def collection(kind: str, mark: str) -> str:
    """Of such a rule. A rule that reserves has one collection."""
    return kind if kind == "reserved" else f"{kind}-{mark}"


REFUSED = "refused"
"""In the name of everything that nobody may make."""


def document(**more: Any) -> dict[str, Any]:
    return {"tenant": REFUSED, **more}


# Each makes the command for a collection.
FORMS: dict[str, Callable[[str], dict[str, Any]]] = {
    "insert": lambda name: {"insert": name, "documents": [document()]},
    "insert of three": lambda name: {
        "insert": name, "documents": [document(), document(), document()], "ordered": False},
    "with another concern": lambda name: {
        "insert": name, "documents": [document()], "writeConcern": {"w": "majority"}},
    "past validation": lambda name: {
        "insert": name, "documents": [document()], "bypassDocumentValidation": True},
    "upsert": lambda name: {"update": name, "updates": [
        {"q": {"tenant": REFUSED}, "u": {"$set": {"x": 1}}, "upsert": True}]},
    "findAndModify": lambda name: {
        "findAndModify": name, "query": {"tenant": REFUSED}, "update": {"$set": {"x": 1}},
        "upsert": True},
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    key = tmp_path_factory.mktemp("rights") / "key"
    key.write_text("idproxy" * 10)
    key.chmod(0o600)
    with Guarded(key_file=key) as mongod:
        mongod.add_user("app", [{"role": "readWrite", "db": "shop"}])
        mongod.add_user("teller", [{"role": "readWrite", "db": "bank"}])
        mongod.add_user("reader", [{"role": "read", "db": "shop"}])
        mongod.add_user("nobody", [])
        mongod.add_user("inserter", [], [{"resource": {"db": "shop", "collection": ""},
                                          "actions": ["insert"]}])
        mongod.add_user("writer", [], [{"resource": {"db": "shop", "collection": ""},
                                        "actions": ["insert", "update"]}])
        mongod.add_user("editor", [], [{"resource": {"db": "shop", "collection": ""},
                                        "actions": ["find", "update"]}])
        yield mongod


@pytest.fixture(scope="module")
def guarded_proxy(guarded: Guarded) -> Iterator[Proxy]:
    with Proxy(configuration(guarded, RULES, id_store={"uri": guarded.uri_of("root")})) as running:
        yield running


def client_of(proxy: Proxy, user: str | None, **options: Any) -> pymongo.MongoClient:
    login = {"username": user, "password": PASSWORD, "authSource": "admin"} if user else {}
    return proxy.client(retryWrites=False, **login, **options)


def code_of(client: pymongo.MongoClient, command: dict[str, Any]) -> int:
    """The code of the error; 0: there is none."""
    try:
        reply = client.shop.command(command)
    except OperationFailure as failure:
        return failure.code or -1
    errors = reply.get("writeErrors", [])
    return errors[0]["code"] if errors else 0


def left_over(mongod: Guarded) -> list[str]:
    """Names and documents that nobody may have made, in the databases that the proxy may write to."""
    found = []
    for db in (mongod.client.shop, mongod.client.bank, mongod.client.idproxy):
        for name in db.list_collection_names():
            if not name.startswith("system."):
                inside = [*db[name].list_indexes(), *db[name].find()]
                found += [f"{db.name}.{name}: {json_util.dumps(each)}" for each in inside]
    reserved = mongod.client.shop.reserved.count_documents({})
    reservations = mongod.client.shop.numbers.count_documents({})
    return [*(each for each in found if REFUSED in each),
            *(["a reservation"] if reservations != reserved else [])]


def insert(client: pymongo.MongoClient, name: str, *documents: dict[str, Any]) -> None:
    """Again where a busy machine has no value in time."""
    command = {"insert": name, "documents": list(documents) or [{}]}
    eventually(lambda: code_of(client, command) == 0, 20, f"{name} has a value")


def make_the_same(proxy: Proxy, mark: str) -> None:
    """By somebody who may: what is under way for others is made before this, or never."""
    with client_of(proxy, "app") as client:
        for kind in KINDS:
            insert(client, collection(kind, mark), {"tenant": mark})


# --- Nothing is made ---

def test_nothing_is_left_of_refused_writes(guarded: Guarded, guarded_proxy: Proxy) -> None:
    """A23, for each strategy, each form and each of those who may not."""
    def refused(user: str | None, form: str) -> None:
        who = f"{REFUSED}-{user}-{form}".replace(" ", "")
        with client_of(guarded_proxy, user) as client:
            for kind in KINDS:
                for _ in range(2):
                    code = code_of(client, FORMS[form](collection(kind, who)))
                    # No upsert may get a number without gaps.
                    assert code in ({UNAUTHORIZED, 96} if form in ("upsert", "findAndModify")
                                    else {UNAUTHORIZED}), (kind, who)

    for form in FORMS:
        at_once(*(functools.partial(refused, user, form) for user in (None, "teller", "reader")))
    make_the_same(guarded_proxy, "made")
    assert left_over(guarded) == []


def test_nothing_is_left_of_unacknowledged_writes(guarded: Guarded, guarded_proxy: Proxy) -> None:
    with client_of(guarded_proxy, "reader", w=0) as client:
        for kind in KINDS:
            client.shop[collection(kind, REFUSED)].insert_one(document())
        client.admin.command("ping")
    make_the_same(guarded_proxy, "after-w0")
    assert left_over(guarded) == []


def test_nothing_is_left_in_a_transaction(guarded: Guarded, guarded_proxy: Proxy) -> None:
    with client_of(guarded_proxy, "reader") as client, client.start_session() as session:
        for kind in KINDS:
            with pytest.raises(OperationFailure) as failure, session.start_transaction():
                client.shop[collection(kind, REFUSED)].insert_one(document(), session=session)
            assert failure.value.code == UNAUTHORIZED
    make_the_same(guarded_proxy, "after-transaction")
    assert left_over(guarded) == []


def test_nothing_is_left_of_next(guarded: Guarded, guarded_proxy: Proxy) -> None:
    with client_of(guarded_proxy, "reader") as client:
        for kind in KINDS:
            with pytest.raises(OperationFailure) as failure:
                client.admin.command({"idproxy": "next", "field": "number",
                                      "ns": "shop." + collection(kind, REFUSED)})
            assert failure.value.code == UNAUTHORIZED
    make_the_same(guarded_proxy, "after-next")
    assert left_over(guarded) == []


def test_nothing_is_left_of_invented_scopes(guarded: Guarded, guarded_proxy: Proxy) -> None:
    """In a collection in which others have numbers."""
    make_the_same(guarded_proxy, "everybody")
    with client_of(guarded_proxy, "reader") as client:
        for kind in ("scoped", "text", "invoices"):
            documents = [{"tenant": f"{REFUSED}{i}"} for i in range(300)]
            command = {"insert": f"{kind}-everybody", "documents": documents}
            assert code_of(client, command) == UNAUTHORIZED, kind
    make_the_same(guarded_proxy, "after-scopes")
    assert left_over(guarded) == []


def test_a_right_for_one_form_is_none_for_another(guarded: Guarded, guarded_proxy: Proxy) -> None:
    """Servers want insert and update for an upsert, and find as well for findAndModify."""
    for user, refused in {"inserter": ["upsert", "findAndModify", "past validation"],
                          "writer": ["findAndModify", "past validation"]}.items():
        with client_of(guarded_proxy, user) as client:
            for form in refused:
                for kind in ("counter", "created", "scoped"):
                    name = f"{kind}-{REFUSED}-{user}"
                    assert code_of(client, FORMS[form](name)) == UNAUTHORIZED, (user, form)
    make_the_same(guarded_proxy, "after-forms")
    assert left_over(guarded) == []
    for user, form in {"inserter": "insert", "writer": "upsert"}.items():
        with client_of(guarded_proxy, user) as client:
            command = json_util.loads(json_util.dumps(FORMS[form](f"created-{user}"))
                                      .replace(REFUSED, "made"))
            assert code_of(client, command) == 0


@pytest.mark.parametrize("bad", [[], bson.Regex("x")], ids=["array", "regex"])
def test_nothing_is_made_for_documents_that_cannot_be_stored(
        guarded: Guarded, guarded_proxy: Proxy, bad: Any) -> None:
    with client_of(guarded_proxy, "app") as client:
        for kind in KINDS:
            for documents in ([document(_id=bad)], [document(_id=bad), document()]):
                code = code_of(client, {"insert": collection(kind, REFUSED),
                                        "documents": documents})
                assert code in INVALID_ID, kind
    make_the_same(guarded_proxy, f"after-{type(bad).__name__}")
    assert left_over(guarded) == []


def test_nothing_is_left_of_a_bulk_write(guarded: Guarded, guarded_proxy: Proxy) -> None:
    """The server is asked for each collection that gets a value, and the others stay unknown. Servers before 8.0 do not
    know the command, so that nothing is stored of it in any case."""
    names = [f"created-{REFUSED}{i}" for i in range(5)]
    for name in names:
        guarded.client.shop.create_collection(name)
    try:
        with client_of(guarded_proxy, "teller") as client:
            for ops in ([{"insert": 0, "document": {}}, {"delete": 1, "filter": {}}],
                        [{"insert": i, "document": {}} for i in range(6)]):
                with pytest.raises(OperationFailure):
                    client.admin.command({"bulkWrite": 1, "ops": ops, "nsInfo": [
                        {"ns": "bank.x"}, *({"ns": f"shop.{name}"} for name in names)]})
        make_the_same(guarded_proxy, "after-bulk")
        assert not any("number" in index["key"] for name in names
                       for index in guarded.client.shop[name].list_indexes())
    finally:
        for name in names:
            guarded.client.shop[name].drop()
    assert left_over(guarded) == []


# --- Who may insert notices nothing ---

def test_an_error_is_the_servers(guarded_proxy: Proxy) -> None:
    with client_of(guarded_proxy, "reader") as client:
        with pytest.raises(OperationFailure) as failure:
            client.shop["counter-none"].insert_one({})
        assert failure.value.details["codeName"] == "Unauthorized"
        assert "not authorized on shop" in str(failure.value)
    with wire.client(guarded_proxy.address) as nobody:
        said = nobody.call({"insert": "counter-none", "documents": [{}], "$db": "shop"})
        assert (said["ok"], said["code"]) == (0, UNAUTHORIZED)
        assert "command insert requires authentication" in said["errmsg"]


@pytest.mark.parametrize("compressor", [None, "zlib"])
def test_each_form_of_those_who_may(
        guarded: Guarded, guarded_proxy: Proxy, compressor: str | None) -> None:
    mark = f"forms-{compressor}"
    options = {"compressors": compressor} if compressor else {}
    for number, (form, make) in enumerate(FORMS.items()):
        # A connection of its own for each.
        with client_of(guarded_proxy, "app", **options) as client:
            if form == "past validation":
                continue  # which takes more than readWrite
            assert code_of(client, make(f"created-{mark}-{number}".replace(REFUSED, ""))) == 0, form
    for name in guarded.client.shop.list_collection_names(filter={"name": {"$regex": mark}}):
        stored = [each["number"] for each in guarded.client.shop[name].find()]
        assert stored == list(range(1, len(stored) + 1)), name
        guarded.client.shop[name].drop()


def test_in_a_transaction_and_unacknowledged(guarded: Guarded, guarded_proxy: Proxy) -> None:
    guarded.client.shop.create_collection("counter-tx")
    with client_of(guarded_proxy, "app") as client, client.start_session() as session:
        with session.start_transaction():
            client.shop["counter-tx"].insert_one({"_id": 1}, session=session)
            client.shop["counter-tx"].insert_one({"_id": 2}, session=session)
    with client_of(guarded_proxy, "app", w=0) as client:
        client.shop["counter-tx"].insert_one({"_id": 3})
        client.shop["counter-tx"].insert_one({"_id": 4})
        client.admin.command("ping")
    numbers = [each["number"] for each in guarded.client.shop["counter-tx"].find().sort("_id")]
    assert numbers == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["counter", "created", "gapless", "uuids"])
@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_replacement_with_upsert_needs_the_right_to_insert(
        guarded: Guarded, guarded_proxy: Proxy, kind: str, in_transaction: bool) -> None:
    """Also if it finds a document: it goes without upsert first, for which updating is enough."""
    name = f"{kind}-kept-{in_transaction}"
    stored = guarded.client.shop[name]
    stored.insert_one({"_id": 1, "number": 5})
    for user, may in [("editor", False), ("app", True), ("editor", False)]:
        with client_of(guarded_proxy, user) as client, client.start_session() as session:
            if in_transaction:
                session.start_transaction()
            try:
                client.shop[name].replace_one({"_id": 1}, {"by": user}, upsert=True, session=session)
            except OperationFailure as failure:
                assert not may and failure.code == UNAUTHORIZED
                continue
            assert may
            if in_transaction:
                session.commit_transaction()
        assert stored.find_one() == {"_id": 1, "by": "app", "number": 5}


def test_a_view_and_a_name_without_rule(guarded: Guarded, guarded_proxy: Proxy) -> None:
    guarded.client.shop.create_collection("created-view", viewOn="created-below")
    with client_of(guarded_proxy, "app") as client:
        assert code_of(client, {"insert": "created-view", "documents": [{}]}) == 166
        assert code_of(client, {"insert": "other", "documents": [{}]}) == 0


def test_numbers_in_memory_come_back(guarded: Guarded, guarded_proxy: Proxy) -> None:
    with client_of(guarded_proxy, "app") as app, client_of(guarded_proxy, "reader") as reader:
        for number in range(1, 6):
            insert(app, "counter-memory", {"_id": number})
            command = {"insert": "counter-memory", "documents": [{}, {}]}
            assert code_of(reader, command) == UNAUTHORIZED
    stored = guarded.client.shop["counter-memory"].find().sort("_id")
    assert [each["number"] for each in stored] == [1, 2, 3, 4, 5]


def test_values_that_clients_bring_are_reserved(
        guarded: Guarded, start_proxy: Callable[..., Proxy]) -> None:
    """Though nothing is assigned, and nobody has shown a right."""
    proxy = start_proxy(configuration(guarded, RULES, id_store={"uri": guarded.uri_of("root")}))
    with client_of(proxy, "app") as client:
        insert(client, "reserved", {"_id": "mine", "number": 123_456_789})
    assert guarded.client.shop.numbers.find_one({"_id": 123_456_789})
    guarded.client.shop.reserved.delete_one({"_id": "mine"})
    guarded.client.shop.numbers.delete_one({"_id": 123_456_789})


# --- What is asked ---

def questions(robbed: Robbed, name: str) -> int:
    return sum(each.documents == [{"_id": []}] for each in robbed.thief.inserts(f"shop.{name}"))


@pytest.fixture
def robbed(guarded: Guarded, start_proxy: Callable[..., Proxy]) -> Iterator[Robbed]:
    thief = Thief(guarded)
    config = configuration(thief, RULES, id_store={"uri": guarded.uri_of("root")})
    try:
        yield Robbed(guarded, thief, start_proxy(config))
    finally:
        thief.close()


def test_the_server_is_asked_once(robbed: Robbed) -> None:
    """Only where something is made, once for each connection and collection."""
    def asked() -> int:
        return questions(robbed, "held") - before

    many = [{} for _ in range(500)]  # more than there are in memory
    def held() -> int:
        (rule,) = [rule for rule in root.admin.command("idproxy", "status")["rules"]
                   if rule["ns"] == "shop.held*"]
        return sum(each["held"] for each in rule["numbers"])

    with client_of(robbed.proxy, "app") as client, client_of(robbed.proxy, "root") as root:
        insert(client, "held")
        eventually(lambda: held() > 60, 20, "numbers are in memory")
    before = questions(robbed, "held")
    assert before > 0
    with client_of(robbed.proxy, "app", maxPoolSize=1) as second:
        second.shop["held"].insert_one({})
        second.shop["held"].insert_many([{**each} for each in many])  # it has shown its right
        assert asked() == 0
    with client_of(robbed.proxy, "app", maxPoolSize=1) as third:
        for _ in range(3):
            third.shop["held"].insert_many([{**each} for each in many])
            assert asked() == 1


def test_a_right_lasts_as_long_as_the_login(guarded: Guarded, robbed: Robbed) -> None:
    with client_of(robbed.proxy, "app", maxPoolSize=1) as client:
        insert(client, "gapless-login")
        client.admin.command("logout")
        assert code_of(client, {"insert": "gapless-login", "documents": [{}]}) == UNAUTHORIZED
    assert questions(robbed, "gapless-login") == 2


def test_who_wants_no_logins_is_asked_nothing(
        start_robbed: Callable[..., Robbed], replica_set: Any, coll: str) -> None:
    robbed = start_robbed(replica_set, RULES)
    with robbed.proxy.client() as client:
        for kind in KINDS:
            client.shop[collection(kind, coll)].insert_one({"tenant": "a"})
    assert not any(questions(robbed, collection(kind, coll)) for kind in KINDS)


def test_an_error_that_passes_is_repeated_by_the_driver(
        guarded: Guarded, guarded_proxy: Proxy) -> None:
    """The question is no retryable write, but the insert that it is for is one."""
    guarded.client.shop.create_collection("counter-passing")
    with guarded_proxy.client(username="app", password=PASSWORD, authSource="admin",
                              appName="passing") as client:
        guarded.client.admin.command({
            "configureFailPoint": "failCommand", "mode": {"times": 1},
            "data": {"failCommands": ["insert"], "errorCode": 189, "appName": "passing"}})
        client.shop["counter-passing"].insert_one({"_id": 1})
    (stored,) = guarded.client.shop["counter-passing"].find()
    assert stored == {"_id": 1, "number": 1}


def test_strangers_do_not_make_others_wait(guarded: Guarded, guarded_proxy: Proxy) -> None:
    """By a command that the server refuses: what is known of the collection stays so."""
    with client_of(guarded_proxy, "app") as app, wire.client(guarded_proxy.address) as nobody:
        insert(app, "created-dropped")
        nobody.send(b"".join([*(wire.command({"buildInfo": 1, "$db": "admin"}) for _ in range(500)),
                              wire.command({"dropDatabase": 1, "$db": "shop"})]))  # reads nothing
        for _ in range(3):
            assert code_of(app, {"insert": "created-dropped", "documents": [{}]}) == 0


def test_who_reads_no_replies_does_not_make_others_wait(guarded: Guarded, guarded_proxy: Proxy) -> None:
    """What the proxy does for a request ends with its reply, which comes behind those that are not read."""
    with client_of(guarded_proxy, "app") as app, wire.client(guarded_proxy.address) as nobody:
        insert(app, "created-dropped")
        log_in(nobody, "nobody")
        nobody.send(b"".join([*(wire.command({"buildInfo": 1, "$db": "admin"}) for _ in range(3000)),
                              wire.command({"dropDatabase": 1, "$db": "shop"})]))
        eventually(lambda: guarded.client.admin.command("serverStatus")["metrics"]["commands"]["buildInfo"]["total"]
                   > 1000, 30, "the server has answered what nobody reads")
        for _ in range(3):
            assert code_of(app, {"insert": "created-dropped", "documents": [{}]}) == 0


def test_refused_changes_void_nothing(guarded: Guarded, guarded_proxy: Proxy) -> None:
    over = threading.Event()
    with client_of(guarded_proxy, "app") as app:
        insert(app, "created-dropped")

        def refused() -> None:
            change = wire.command({"applyOps": [{"op": "c", "ns": "x.$cmd", "o": {}}], "$db": "admin"})
            with wire.client(guarded_proxy.address) as nobody:
                log_in(nobody, "nobody")
                while not over.is_set():
                    nobody.send(change * 50)
                    assert all(nobody.receive().body["code"] == UNAUTHORIZED for _ in range(50))

        def inserted() -> None:
            try:
                for _ in range(100):
                    assert code_of(app, {"insert": "created-dropped", "documents": [{}]}) == 0
            finally:
                over.set()

        at_once(refused, refused, refused, inserted)


# --- It is said ---

def test_refused_writes_are_counted_and_logged(
        guarded: Guarded, start_proxy: Callable[..., Proxy]) -> None:
    proxy = start_proxy(configuration(guarded, RULES, id_store={"uri": guarded.uri_of("root")},
                                      admin=LISTEN))
    with client_of(proxy, "app") as app, client_of(proxy, "reader") as reader:
        insert(app, "counter-logged")
        # The first two get numbers from memory, and the server's own answer.
        for name in ("counter-logged", "counter-logged", "counter-logged2"):
            with pytest.raises(OperationFailure):
                reader.shop[name].insert_one({})
        with pytest.raises(OperationFailure):
            reader.admin.command({"idproxy": "next", "ns": "shop.counter-asked", "field": "number"})
    events = [(each["user"], each["ns"], each["writes"])
              for each in proxy.find_events("not_permitted")]
    assert events == [("reader", "shop.counter-logged", 1), ("reader", "shop.counter-logged2", 1),
                      ("reader", "shop.counter-asked", 1)]
    assert metric(proxy, "idproxy_rule_writes_not_permitted_total") == 4
