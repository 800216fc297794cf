"""What a stranger says is shown as it is, and nothing of it is obeyed or can be typed by mistake (A25).

Servers name their set, version and errors, other proxies write who they are into the id store, and clients name
collections, indexes, applications and `_id`s. Each of support.hostile's words is tried in each of these places,
and in everything that the program prints: commands, pages, metrics, JSON and logs.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest

from support.admin import Admin
from support.doctor import Doctor, doctor, line_of, no_proxies, ns, quiet, uuid_rule
from support.fake_server import HELLO, FakeServer, reply_to
from support.hostile import MARK, WORDS, check_commands, check_json, check_page, check_seen
from support.process import eventually, free_port
from support.proxy import Proxy, binary, configuration



def run(*arguments: str, file: pathlib.Path | None = None) -> subprocess.CompletedProcess[str]:
    config = ["--config", str(file)] if file else []
    return subprocess.run([binary(), *arguments, *config], capture_output=True, text=True, timeout=60)


def seen(*arguments: str, file: pathlib.Path | None = None) -> str:
    """What the command writes."""
    done = run(*arguments, file=file)
    assert done.returncode in (0, 1, 69), done
    check_seen(done.stderr)
    return check_json(done.stdout) if "--json" in arguments else check_seen(done.stdout) + done.stderr


@pytest.fixture(autouse=True)
def nothing_is_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.glob(f"*{MARK}*"))


def stand_in(word: str) -> FakeServer:
    """A member of a set of this name, which says the word wherever a server says one."""
    server = FakeServer()
    says = {**HELLO, "setName": word, "setVersion": 1, "hosts": [server.address], "me": server.address,
            "primary": server.address}
    refusal = {"ok": 0.0, "code": 59, "codeName": word, "errmsg": word}
    for name in ("hello", "isMaster", "ismaster"):
        server.others[name] = lambda request, says=says: reply_to(request, says)
    server.others["buildInfo"] = lambda request: reply_to(request, {
        "version": word, "versionArray": [6, 0, 5, 0], "ok": 1.0})
    for name in ("find", "aggregate", "listIndexes", "listCollections", "getParameter", "connectionStatus",
                 "update", "findAndModify"):
        server.others[name] = lambda request: reply_to(request, refusal)
    return server


class TestServers:
    @pytest.mark.parametrize("name", [
        "escape", "lines", "quotes", "substitution", "list", "sed", "option", "mongosh", "long"])
    def test_name_their_set_and_version(self, name, replica_set, doctor):
        """What may become a command, and one of each way to be seen: of all, below."""
        with stand_in(WORDS[name]) as server:
            document = quiet(replica_set, [])
            document["upstream"] = {"uri": f"mongodb://{server.address}/?replicaSet=rs0"}
            document["id_store"] = {"uri": replica_set.uri}
            found = doctor.write(document).examine()
            finding = next(each for each in found.document["findings"] if each["id"] == "set-name-differs")
            line = line_of(doctor.path, "replicaSet=rs0")
            assert f", in line {line} of {doctor.path}" in finding["text"]
            assert not check_commands(found.document["findings"])
            check_json(found.text)
            assert "sed" not in check_seen(doctor.start().stdout)
            seen("check", "--connect", file=doctor.path)

    def test_a_real_set_with_an_ampersand_is_advised_right(self, replica_set, doctor):
        """As a connection string has it."""
        with stand_in("a&b") as server:
            document = quiet(replica_set, [])
            document["upstream"] = {"uri": f"mongodb://{server.address}/?replicaSet=wrong"}
            document["id_store"] = {"uri": replica_set.uri}
            finding = next(each for each in doctor.write(document).examine().document["findings"]
                           if each["id"] == "set-name-differs")
            written = re.search(r"write (replicaSet=\S+),", finding["text"])[1]
            document["upstream"]["uri"] = f"mongodb://{server.address}/?{written}"
            assert "set-name-differs" not in doctor.write(document).examine().ids

    def test_refuse_with_texts_of_their_own(self, doctor):
        """Where the rules' collections are looked at, and the counters."""
        for name in ("escape", "lines", "bidi", "quotes", "mongosh", "long", "markup"):
            with stand_in(WORDS[name]) as server:
                rules = [uuid_rule("shop.orders", unique_index="require"),
                         {"ns": "shop.bills", "field": "n", "strategy": "counter"}]
                doctor.write(quiet(server, rules))
                check_commands(doctor.examine().document["findings"])
                seen("doctor", file=doctor.path)
                seen("check", "--connect", file=doctor.path)
                seen("counters", "list", file=doctor.path)
                seen("verify", "--ns", "shop.orders", "--field", "code", file=doctor.path)
                seen("backfill", "--ns", "shop.bills", "--field", "n", "--dry-run", file=doctor.path)

    def test_are_in_every_page_of_a_proxy(self, replica_set, tmp_path):
        """One listener for each."""
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(stand_in(word)) for word in WORDS.values()]
            everyone = ",".join(each.address for each in servers)
            config = {"listen": {"address": "127.0.0.1", "port": 0}, "rules": [],
                      "upstream": {"uri": f"mongodb://{everyone}/?replicaSet=other"},
                      "admin": {"listen": f"127.0.0.1:{free_port()}"},
                      "id_store": {"uri": replica_set.uri}}
            for log in ("json", "text"):
                proxy = stack.enter_context(Proxy({**config, "log": {"format": log}},
                                                  await_ready=log == "json"))
                if log == "json":
                    eventually(lambda: all(each.get("fault") for each in status(proxy)["servers"]), 20)
                    everything(proxy, config, tmp_path)
                else:
                    eventually(lambda: proxy.log().count("set_name_differs") >= 5, 20)
                for line in proxy.lines:
                    check_seen(line, 20_000)
                proxy.stop()


def status(proxy: Proxy) -> dict[str, Any]:
    return json.loads(Admin(proxy).get("/status.json").text)


def everything(proxy: Proxy, config: dict[str, Any], folder: pathlib.Path) -> str:
    """All that a running proxy says of itself, each checked for what it is."""
    admin = Admin(proxy)
    file = folder / "asked.yaml"
    file.write_text(json.dumps(config))
    check_page(admin.get("/").text)
    check_json(admin.get("/status.json").text)
    check_seen(admin.get("/readyz").text)
    admin.metrics()
    check_seen(admin.get("/metrics").text)
    shown = [str(seen("status", *options, file=file)) for options in (
        [], ["--json"], ["--clients"], ["--servers"], ["--rules"], ["--clients", "--servers", "--json"])]
    seen("wait", "--max", "1s", file=file)
    on_a_terminal([binary(), "status", "--clients", "--servers", "--config", str(file)])
    return "\n".join(shown)


def on_a_terminal(arguments: list[str]) -> str:
    """What it writes there: no sequence but those of colours."""
    main, its = pty.openpty()
    with subprocess.Popen(arguments, stdout=its, stderr=its, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(its)
        text = b""
        with contextlib.suppress(OSError):
            while part := os.read(main, 65536):
                text += part
        process.wait(60)
    os.close(main)
    plain = re.sub(r"\x1b\[([0-9;]*m|K)", "", text.decode().replace("\r\n", "\n").replace("\r[", "["))
    return check_seen(plain)


class TestOtherProxies:
    def test_write_who_they_are(self, replica_set, doctor, ns, start_proxy):
        """Whoever may write into the id store."""
        config = configuration(replica_set, [uuid_rule(ns)], admin={"listen": "127.0.0.1:0"})
        start_proxy(config)
        proxies = replica_set.client.idproxy.proxies
        one = eventually(lambda: proxies.find_one(), 30)
        for name, word in WORDS.items():
            proxies.insert_one({**one, "_id": name, "host": word, "version": word, "listeners": [word],
                                "rules_hash": word})
            proxies.insert_one({**one, "_id": f"{name} at a real host", "host": "app2", "version": word,
                                "listeners": [word], "rules_hash": word})
        found = doctor.write(quiet(replica_set, [uuid_rule(ns)])).examine()
        check_json(found.text)
        assert not check_commands(found.document["findings"])
        commands = [each["words"] for finding in found.document["findings"] for each in finding["commands"]]
        assert not [words for words in commands if {"ssh", "scp", "app2"} & set(words)], "not even for a plain name"
        check_seen(doctor.start().stdout)
        own = start_proxy(config)  # reads them at its start
        eventually(lambda: len(status(own)["proxies"]) > len(WORDS), 20)
        check_page(Admin(own).get("/").text)
        check_json(Admin(own).get("/status.json").text)
        check_seen(own.log(), 20_000)


class TestClients:
    def test_name_collections_and_indexes(self, replica_set, doctor, coll, tmp_path):
        """For a rule with a wildcard, and the indexes that do not do."""
        db = replica_set.client[coll]
        names = [word for name, word in WORDS.items() if "$" not in word and "\0" not in word and name != "long"]
        for i, word in enumerate(names):
            db[f"x{word}"].create_index("code", name=word)
        orders = db.orders
        for i, word in enumerate(WORDS.values()):
            with contextlib.suppress(pymongo.errors.OperationFailure):  # too long for a server
                orders.create_index([("code", 1), (f"y{i}", 1)], name=word.replace("\0", ""), unique=True)
        rules = [uuid_rule(f"{coll}.x*", unique_index="require"), uuid_rule(f"{coll}.orders")]
        rules[1]["unique_index"] = "require"
        config = configuration(replica_set, rules, admin={"listen": f"127.0.0.1:{free_port()}"})
        found = doctor.write(quiet(replica_set, rules)).examine()
        for line in check_commands(found.document["findings"]):
            assert re.match(r'db\.getSiblingDB\("\w+"\)\.getCollection\("', line), line
        assert 'dropDatabase()"' not in "".join(
            each["command"].split(".createIndex(")[0] for finding in found.document["findings"]
            for each in finding["commands"])
        finding = next(each for each in found.document["findings"] if each["subject"] == f"{coll}.orders, code")
        assert [each["command"].split(".createIndex(")[0] for each in finding["commands"]] == [
            f'db.getSiblingDB("{coll}").getCollection("orders")']
        seen("doctor", file=doctor.path)
        seen("check", "--connect", file=doctor.path)
        with Proxy(config) as proxy:
            with proxy.client() as client:
                for word in names:
                    with pytest.raises(pymongo.errors.PyMongoError):
                        client[coll][f"x{word}"].insert_one({})
            everything(proxy, config, tmp_path)
            for line in proxy.lines:
                check_seen(line, 20_000)

    def test_name_applications_and_users(self, replica_set, ns, tmp_path):
        config = configuration(replica_set, [uuid_rule(ns)], admin={"listen": f"127.0.0.1:{free_port()}"})
        with Proxy(config) as proxy, contextlib.ExitStack() as stack:
            for word in WORDS.values():
                client = stack.enter_context(proxy.raw_client())
                client.call({"hello": 1, "client": {
                    "application": {"name": word[:120]}, "driver": {"name": word, "version": word},
                    "os": {"type": word}}, "$db": "admin"})
                user = word[:120].replace("=", "=3D").replace(",", "=2C").encode()
                client.call({"saslStart": 1, "mechanism": "SCRAM-SHA-256",
                             "payload": b"n,,n=" + user + b",r=abcdefghijklmnopqrstuvwx", "$db": "admin"})
                # Names that nobody has, in a command that the log may mention.
                client.call({"insert": word.replace("\0", ""), "documents": [{"_id": word}],
                             "$db": "shop", "comment": word})
            shown = everything(proxy, config, tmp_path)
            assert shown.count(MARK) > 2 * len(WORDS)
            for line in proxy.lines:
                check_seen(line, 20_000)

    def test_name_their_documents(self, replica_set, coll, tmp_path):
        """In what verify and backfill report."""
        orders = replica_set.client[coll].orders
        orders.insert_many([{"_id": word, "code": word, "scope": word} for word in WORDS.values()])
        orders.insert_many([{"_id": {"a": word}, "scope": word} for word in WORDS.values()])
        scoped = {"ns": f"{coll}.orders", "field": "n", "strategy": "counter", "scope": ["scope"]}
        file = tmp_path / "verified.yaml"
        file.write_text(json.dumps(quiet(replica_set, [uuid_rule(f"{coll}.orders"), scoped])))
        of = ["--ns", f"{coll}.orders", "--field"]
        for field in ("code", "n"):
            for options in ([], ["--json"]):
                seen("verify", *of, field, *options, file=file)
            on_a_terminal([binary(), "verify", *of, field, "--config", str(file)])
        seen("backfill", *of, "n", "--dry-run", file=file)
        seen("backfill", *of, "n", file=file)
        found = seen("verify", *of, "n", "--json", file=file)
        assert {each["sequence"]["scope"] for each in found["sequences"]["first"]} <= set(WORDS.values())
        for arguments in (["counters", "list"], ["counters", "list", "--json"], ["doctor"], ["doctor", "--json"]):
            seen(*arguments, file=file)
