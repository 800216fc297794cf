"""The part of scripts/quickstart that starts the servers and inserts through the proxy."""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from typing import Any

import bson
import pymongo
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo.collection import Collection

from support.mongod import Mongod
from support.proxy import Proxy

CONFIG = pathlib.Path(__file__).resolve().parents[1] / "config" / "quickstart.yaml"
PORT, ADMIN_PORT = 27117, 27216
SET = "rs0"

_COLOURS = {"bold": "1", "dim": "2", "green": "32", "cyan": "36"}


def paint(colour: str, text: str) -> str:
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\033[{_COLOURS[colour]}m{text}\033[0m"


def shown(document: dict[str, Any], made: str | None = None) -> str:
    """The document as mongosh prints one; the field that the proxy made stands out."""
    def value(of: Any) -> str:
        if isinstance(of, uuid.UUID):
            return f"UUID('{of}')"
        if isinstance(of, dict):
            return shown(of)
        if isinstance(of, list):
            return f"[{', '.join(map(value, of))}]"
        return repr(of)
    fields = [
        paint("green", f"{k}: {value(v)}") if k == made else f"{k}: {value(v)}"
        for k, v in document.items()]
    return "{ " + ", ".join(fields) + " }"


def show(label: str, lines: list[str]) -> None:
    for line in lines:
        print(f"   {paint('dim', label.ljust(8))} {line}")
        label = ""


class Unexpected(Exception):
    """What is stored is not what the rules promise."""


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise Unexpected(what)


def present(number: int, title: str, call: str, sent: list[dict[str, Any]],
            stored: list[dict[str, Any]], made: str) -> None:
    print(f"\n{paint('bold', f'{number}. {title}')}")
    show("call", [paint("cyan", call)])
    show("sent", [shown(d) for d in sent])
    show("stored", [shown(d, made) for d in stored])
    expect(len(stored) == len(sent), f"{len(sent)} documents sent, {len(stored)} stored")
    values = [d.get(made) for d in stored]
    expect(len(set(values)) == len(values), f"{made} is not distinct: {values}")
    for before, after in zip(sent, stored):
        kept = {k: v for k, v in after.items() if k != made}
        expect(kept == {k: v for k, v in before.items() if k != made} and after != before,
               f"sent {before}, stored {after}")


def insert_as_ever(collection: Collection, batches: list[list[dict[str, Any]]]) -> None:
    """As an application does: the driver makes an _id for each document."""
    for batch in batches:
        if len(batch) == 1:
            collection.insert_one(batch[0])
        else:
            collection.insert_many(batch)
        for document in batch:  # PyMongo has put its own _id into it by now
            expect(isinstance(document.get("_id"), ObjectId), f"no _id of the driver: {document}")


def as_sent(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """PyMongo sends the _id that it made before all else."""
    return [{"_id": d["_id"], **d} for d in documents]


def stored_of(collection: Collection, sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_id = {d["_id"]: d for d in collection.find({"_id": {"$in": [d["_id"] for d in sent]}})}
    return [by_id[d["_id"]] for d in sent if d["_id"] in by_id]


def orders(through: pymongo.MongoClient, direct: pymongo.MongoClient) -> None:
    direct.shop.orders.create_index("number", unique=True)
    batches = [[{"item": "cup"}], [{"item": "pot"}, {"item": "tea"}], [{"item": "jug"}]]
    insert_as_ever(through.shop.orders, batches)
    sent = [document for batch in batches for document in batch]
    stored = stored_of(direct.shop.orders, sent)
    present(1, "shop.orders: numbers in a row beside the _id that the driver made",
            'orders.insert_one({"item": "cup"}) and two more inserts   # everyday code, unchanged',
            as_sent(sent), stored, "number")
    counter = direct.idproxy.uniqueIdentifierCounter.find_one({"_id": "shop.orders.number"})
    numbers = [document["number"] for document in stored]
    expect(numbers == [1001, 1002, 1003, 1004], f"number is {numbers}")
    expect(counter["COUNT"] > numbers[-1], f"the counter is {counter}")
    show("counter", [f"{shown(counter, 'COUNT')}   in idproxy.uniqueIdentifierCounter",
                     f"this proxy took the numbers up to {counter['COUNT'] - 1}, as many as it may "
                     f"need soon; another one goes on at {counter['COUNT']}"])


def events(through: pymongo.MongoClient, direct: pymongo.MongoClient) -> None:
    sent = [{"type": "page_view", "path": "/"}, {"type": "sign_up", "plan": "basic"}]
    through.shop.events.insert_many([RawBSONDocument(bson.encode(d)) for d in sent])
    stored = list(direct.shop.events.find().sort("_id"))
    present(2, "shop.events: a UUID version 7 as _id",
            "shop.events.insert_many([RawBSONDocument(...), ...])   # PyMongo adds no _id to these",
            sent, stored, "_id")
    for document in stored:
        made = document["_id"]
        expect(isinstance(made, uuid.UUID) and made.version == 7, f"_id is {made!r}")


def carts(through: pymongo.MongoClient, direct: pymongo.MongoClient) -> None:
    sent = [{"customer": "ann", "items": 3}]
    through.shop.command("insert", "carts", documents=sent)
    stored = list(direct.shop.carts.find())
    present(3, "shop.carts: an ObjectId that the proxy made",
            'shop.command("insert", "carts", documents=[...])   # a command is sent as it is',
            sent, stored, "_id")
    expect(isinstance(stored[0]["_id"], ObjectId), f"_id is {stored[0]['_id']!r}")


def accounts(through: pymongo.MongoClient, direct: pymongo.MongoClient) -> None:
    direct.bank.accounts.create_index("account_number", unique=True)
    sent: list[dict[str, Any]] = [{"owner": "ann"}, {"owner": "bob"}]
    insert_as_ever(through.bank.accounts, [sent])
    stored = stored_of(direct.bank.accounts, sent)
    present(4, "bank.accounts: a 12-digit account_number that nobody can guess",
            'accounts.insert_many([{"owner": "ann"}, {"owner": "bob"}])',
            as_sent(sent), stored, "account_number")
    for document in stored:
        number = document["account_number"]
        expect(isinstance(number, int) and len(str(number)) == 12, f"account_number is {number!r}")


class Counters:
    """How often mongod has refused a document since this was made, by its own counters."""

    def __init__(self, direct: pymongo.MongoClient):
        self._admin = direct.admin
        self._before = self._read()

    def _read(self) -> int:
        status = self._admin.command("serverStatus")
        return status["opcounters"]["insert"] - status["metrics"]["document"]["inserted"]

    def refused(self) -> int:
        return self._read() - self._before


def members(through: pymongo.MongoClient, direct: pymongo.MongoClient) -> None:
    lockers = [f"{number:02}" for number in range(100)]
    free = set(random.sample(lockers, 10))
    direct.club.members.create_index("locker", unique=True)
    direct.club.members.insert_many(
        [{"name": "a member", "locker": locker} for locker in lockers if locker not in free])
    counters = Counters(direct)
    sent: list[dict[str, Any]] = [{"name": "ann"}, {"name": "bob"}, {"name": "cleo"}]
    insert_as_ever(through.club.members, [sent])
    refused = counters.refused()
    stored = stored_of(direct.club.members, sent)
    present(5, "club.members: lockers 00 to 99, of which 90 are taken (a unique index on locker)",
            'members.insert_many([{"name": "ann"}, {"name": "bob"}, {"name": "cleo"}])',
            as_sent(sent), stored, "locker")
    times = paint("bold", f"{refused} time" if refused == 1 else f"{refused} times")
    show("refused", [f"{times} by mongod (error 11000: taken); each time the proxy drew another"])
    show("reply", [f"{len(sent)} documents inserted, no error: the application saw nothing of it"])
    for document in stored:
        expect(document["locker"] in free, f"locker {document['locker']!r} was not free")


def report(through: pymongo.MongoClient, direct: pymongo.MongoClient) -> None:
    reply = through.club.command("insert", "members", documents=[{"name": "dora"}])
    told = {key: reply[key] for key in ("n", "ok", "idproxy") if key in reply}
    print(f"\n{paint('bold', '6. club.members: the reply says which locker it is (report: true)')}")
    show("call", [paint("cyan", 'club.command("insert", "members", documents=[{"name": "dora"}])')])
    show("reply", [shown(told, "idproxy")])
    stored = list(direct.club.members.find({"name": "dora"}))
    expect(len(stored) == 1, f"1 document sent, {len(stored)} stored")
    assigned = [{"index": 0, "field": "locker", "value": stored[0]["locker"]}]
    expect(told.get("idproxy") == {"assigned": assigned}, f"stored {stored[0]}, reported {told}")


def busy(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def next_steps(proxy: Proxy) -> None:
    uri = proxy.set_uri(SET)
    page = proxy.wait_event("admin_listening")["address"]
    program = (f'import pymongo; c = pymongo.MongoClient("{uri}"); '
               'c.shop.orders.insert_one({"item": "mine"}); '
               'print(*c.shop.orders.find(), sep="\\n")')
    print(f"""
{paint('bold', f'mongo-idproxy listens on {proxy.address}.')} Try it from another terminal:

   mongosh "{uri}"
     use shop
     db.orders.insertOne({{item: "mine"}})
     db.orders.find()

   {sys.executable} -c {shlex.quote(program)}

The rules are in config/quickstart.yaml, and the proxy's status is at http://{page}/ for a browser.
{paint('bold', 'Ctrl-C stops everything.')}""")


def serve(proxy: Proxy) -> None:
    """Until a signal comes; the proxy ending by itself is an error."""
    while True:
        try:
            status = proxy.process.wait(1)
        except subprocess.TimeoutExpired:
            continue
        raise Unexpected(f"the proxy ended with status {status}:\n{proxy.log()[-4000:]}")


def run(once: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="idproxy-quickstart-") as directory:
        config = pathlib.Path(directory) / "quickstart.yaml"
        text = CONFIG.read_text()
        if busy(PORT):
            text = text.replace(f"port: {PORT}", "port: 0")
            print(f"port {PORT} is in use: taking a free one")
        if busy(ADMIN_PORT):
            text += "\nadmin:\n  listen: 127.0.0.1:0\n"
            print(f"port {ADMIN_PORT}, for the status, is in use: taking a free one")
        config.write_text(text)
        with Mongod(SET) as mongod:
            upstream = {"QUICKSTART_MONGOD_URI": f"mongodb://{mongod.address}"}
            with Proxy(config, upstream) as proxy:
                print(f"mongod {mongod.client.server_info()['version']} on {mongod.address} "
                      "(a replica set of one member; its data is thrown away at the end)")
                print(f"mongo-idproxy on {proxy.address}, with config/quickstart.yaml")
                print(f"PyMongo {pymongo.version} inserts through the proxy; what is stored is "
                      "read past it, straight from mongod.")
                with proxy.set_client(SET) as through, pymongo.MongoClient(
                        mongod.uri, uuidrepresentation="standard") as direct:
                    orders(through, direct)
                    events(through, direct)
                    carts(through, direct)
                    accounts(through, direct)
                    members(through, direct)
                    report(through, direct)
                if once:
                    return
                next_steps(proxy)
                sys.stdout.flush()
                try:
                    serve(proxy)
                except KeyboardInterrupt:
                    print("\nstopping")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/quickstart")
    parser.add_argument("--once", action="store_true", help="end after the demonstration")
    options = parser.parse_args()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        run(options.once)
    except KeyboardInterrupt:
        pass
    except Exception as error:  # whatever it is, the user is to see what failed
        print(f"quickstart failed: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
