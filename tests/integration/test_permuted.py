"""Hidden numbers (strategy permuted), and numbers in other digits (encoding of counter and gapless).

What a value hides, an FF1 of the tests' own says.
"""

from __future__ import annotations

import json
import pathlib
import random
import re
import signal
import string
import subprocess
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from support.admin import LISTEN, Admin
from support.backfill import Backfill
from support.counters import STORE, Load, counter, delete_counter, insert, numbers, set_counter
from support.doctor import Doctor, doctor, quiet
from support.mongod import Mongod
from support.own_clock import OwnClock
from support.pair import Pair
from support.process import eventually
from support.proxy import Proxy, binary, configuration
from support.values import ALPHABETS

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "permuted.md"
KEY = "2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f7f036d6f04fc6a94"
OTHER_KEY = "00112233445566778899aabbccddeeff"
TWEAK = "shop.orders._id"
OPERATION_FAILED = 96


def number_of(value: int | str, key: str = KEY, alphabet: str = string.digits, length: int = 12) -> int:
    """NIST SP 800-38G, algorithm 8."""
    radix, text, tweak = len(alphabet), str(value).rjust(length, alphabet[0]), TWEAK.encode()
    u = length // 2
    v = length - u

    def number(digits: str) -> int:
        result = 0
        for digit in digits:
            result = result * radix + alphabet.index(digit)
        return result

    a, b = number(text[:u]), number(text[u:])
    size = ((radix**v - 1).bit_length() + 7) // 8
    d = 4 * -(-size // 4) + 4
    aes = Cipher(algorithms.AES(bytes.fromhex(key)), modes.ECB()).encryptor()
    head = (bytes([1, 2, 1]) + radix.to_bytes(3, "big") + bytes([10, u]) + length.to_bytes(4, "big") +
            len(tweak).to_bytes(4, "big") + tweak + bytes(-(len(tweak) + size + 1) % 16))
    for i in range(9, -1, -1):
        mac = bytes(16)
        text_i = head + bytes([i]) + a.to_bytes(size, "big")
        for at in range(0, len(text_i), 16):
            mac = aes.update(bytes(x ^ y for x, y in zip(mac, text_i[at:at + 16])))
        s = mac + aes.update(mac[:-1] + bytes([mac[-1] ^ 1]))
        a, b = (b - int.from_bytes(s[:d], "big")) % radix**(u if i % 2 == 0 else v), a
    return a * radix**v + b


class Place:
    """A collection, its rule with a key in a file, and what is done with them."""

    def __init__(self, server: Mongod, directory: pathlib.Path, coll: str):
        self.server, self.ns = server, f"permuted.{coll}"
        self.collection = server.client["permuted"][coll]
        self.key, self.file = directory / "key", directory / "config.yaml"
        self.write(KEY)

    def write(self, key: str, mode: int = 0o600) -> None:
        self.key.write_text(key + "\n")
        self.key.chmod(mode)

    def config(self, **rule: Any) -> dict[str, Any]:
        its: dict[str, Any] = {"ns": self.ns, "field": "n", "strategy": "permuted", "tweak": TWEAK,
                               "unique_index": "create", **rule}
        if its["strategy"] == "permuted":
            its.setdefault("key", {"file": str(self.key)})
        else:
            its.pop("tweak" if its["strategy"] != "permuted" else "key", None)
        config = configuration(self.server, [its])
        self.file.write_text(json.dumps({"admin": {"listen": None}, **config}))
        self.file.chmod(0o600)
        return config

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Of the last configuration."""
        where = [] if command[0] in ("check", "counters") else ["--ns", self.ns, "--field", "n"]
        return subprocess.run([binary(), command[0], "--config", self.file, *where, *command[1:]],
                              capture_output=True, text=True, timeout=120)

    def verified(self) -> dict[str, Any]:
        done = self.run("verify", "--json")
        assert done.returncode == 0, done
        (its,) = json.loads(done.stdout)["sequences"]["first"]
        return its

    def values(self) -> list[Any]:
        return numbers(self.server.client, self.ns)

    def document(self) -> dict[str, Any]:
        return counter(self.server.client, self.ns)


@pytest.fixture
def place(replica_set: Mongod, tmp_path: pathlib.Path, coll: str) -> Place:
    return Place(replica_set, tmp_path, coll)


def refused(proxy: Proxy, ns: str) -> str:
    """Why an insert gets no value."""
    reply = insert(proxy, ns, 1)
    assert not reply["ok"] and reply["code"] == OPERATION_FAILED, reply
    return reply["errmsg"]


def test_the_first_values(place: Place, start_proxy):
    proxy = start_proxy(place.config())
    insert(proxy, place.ns, 4)
    assert place.values() == [943084739286, 799359511670, 443382037370, 61397148726]
    assert [number_of(value) for value in place.values()] == [0, 1, 2, 3]
    document = place.document()
    assert (document["fpe"], document["space"]) == ("38608fbf02f78add", "10^12")
    insert(proxy, place.ns, 100)
    assert [number_of(value) for value in place.values()] == list(range(104))
    done = place.run("verify", "--json")
    assert done.returncode == 0, done
    report = json.loads(done.stdout)
    assert report["duplicates"]["count"] == report["wrong_form"]["count"] == 0
    proxy.stop()
    assert place.document()["COUNT"] == 104, "what was left has returned"
    done = place.run("ids", "-n", "1")
    assert number_of(int(done.stdout.removeprefix("Long('").removesuffix("')\n"))) == 104, done
    done = place.run("counters", "sync", f"{place.ns}.n")
    assert done.returncode != 0 and "the stored values hide the order of their numbers" in done.stderr, done
    done = place.run("counters", "set", f"{place.ns}.n", "200")
    assert done.returncode == 0 and place.document()["COUNT"] == 200, done
    done = place.run("ids", "--decode", "443382037370")
    assert (done.returncode, done.stdout) == (0, "number 2\n"), done


@pytest.mark.parametrize("rule, alphabet, length, around", [
    ({"alphabet": "base36", "length": 6}, ALPHABETS["base36"], 6, ("", "")),
    ({"alphabet": "base62", "length": 36, "format": {"prefix": "u_", "suffix": "!"}}, ALPHABETS["base62"], 36, ("u_", "!")),
    ({"alphabet": "xyz-", "length": 11}, "xyz-", 11, ("", "")),
    ({"output": "string", "digits": 6}, string.digits, 6, ("", "")),
    ({"output": "string", "digits": 8, "template": "K-{counter}/{check}", "check": "damm"}, string.digits, 8, ("K-", None)),
])
def test_texts(place: Place, start_proxy, rule, alphabet, length, around):
    insert(start_proxy(place.config(**rule)), place.ns, 20)
    texts = place.values()
    for i, text in enumerate(texts):
        inner = text.removeprefix(around[0])[:length]
        assert number_of(inner, alphabet=alphabet, length=length) == i
        if around[1] is not None:
            assert text == around[0] + inner + around[1]
    done = place.run("verify", "--json")
    assert done.returncode == 0, done
    done = place.run("ids", "--decode", texts[7])
    assert (done.returncode, done.stdout) == (0, "number 7\n"), done


def test_two_proxies_and_kill_9(place: Place, request: pytest.FixtureRequest):
    """Nothing twice, with an alphabet that is nearly used up."""
    pair = Pair(place.config(digits=6, block={"size": 20}, assign="always"))
    request.addfinalizer(pair.kill)
    with Load([lambda number=i: pair.address(number) for i in range(4)], place.ns) as load:
        for number in range(8):
            load.await_documents(40)
            pair.kill_one(number)
        load.await_documents(10)
    pair.stop()
    values = [number_of(value, length=6) for value in place.values()]
    assert len(values) >= load.documents and len(set(values)) == len(values)
    assert max(values) < place.document()["COUNT"] <= len(values) + 8 * 2 * 20 + 20
    done = place.run("verify", "--json")
    report = json.loads(done.stdout)
    assert report["duplicates"]["count"] == 0 and report["beyond_counter"]["count"] == 0, report


def test_another_key_is_refused(place: Place, start_proxy):
    """While it runs, too: a key's file is read again by a reload."""
    proxy = start_proxy(place.config())
    insert(proxy, place.ns, 3)
    for _ in range(4):
        place.write(OTHER_KEY)
        proxy.process.send_signal(signal.SIGHUP)
        eventually(lambda: not insert(proxy, place.ns, 1)["ok"])
        reason = refused(proxy, place.ns)
        assert '"38608fbf02f78add"' in reason and '"10^12"' in reason and "hidden with fpe" in reason, reason
        place.write(KEY)
        proxy.process.send_signal(signal.SIGHUP)
        eventually(lambda: insert(proxy, place.ns, 1)["ok"] == 1)
    proxy.stop()
    for change in ({"tweak": "another"}, {"digits": 11}, {"leading_zeros": False}, {"alphabet": "base36", "length": 9}):
        other = start_proxy(place.config(**change))
        eventually(lambda: "counter" in insert(other, place.ns, 1).get("errmsg", ""))
        assert "values would be given twice" in refused(other, place.ns)
        other.stop()
    insert(start_proxy(place.config()), place.ns, 1)
    found = [number_of(value) for value in place.values()]
    assert len(found) == len(set(found)) and max(found) < 1000, found


def test_documents_from_before_get_theirs(place: Place, start_proxy):
    """In the order asked for, which nobody sees who has no key; killed, and beside a proxy."""
    config = place.config(block={"size": 10})
    before = 2500
    place.collection.insert_many([{"k": k} for k in random.Random(1).sample(range(before), before)])
    proxy = start_proxy(config)
    assert insert(proxy, place.ns, [{"new": 1}] * 5)["n"] == 5
    running = Backfill(place.file.parent, config, place.ns, "n", "--sort", "k", "--rate", "2000")
    running.await_given(place.collection, "n", before // 10)
    running.kill()
    done = place.run("backfill", "--sort", "k")
    assert done.returncode == 0, done
    assert insert(proxy, place.ns, [{"new": 2}] * 5)["n"] == 5
    values = [each["n"] for each in place.collection.find({"k": {"$exists": True}}).sort("k")]
    of_each = [number_of(value) for value in values]
    assert of_each == sorted(set(of_each)) and len(of_each) == before
    assert 0.4 < sum(a < b for a, b in zip(values, values[1:])) / before < 0.6
    assert len({*values, *(each["n"] for each in place.collection.find({"new": {"$gt": 0}}))}) == before + 10
    assert place.run("verify").returncode == 0


def test_next_report_and_transactions(place: Place, start_proxy):
    proxy = start_proxy(place.config(report=True, block={"size": 10}))
    with proxy.client(replicaSet="rs0", directConnection=False) as client:
        got = client.admin.command({"idproxy": "next", "ns": place.ns, "field": "n", "count": 3})
        assert [number_of(value) for value in got["ids"]] == [0, 1, 2]
        reply = insert(proxy, place.ns, 2)
        assert [number_of(each["value"]) for each in reply["idproxy"]["assigned"]] == [3, 4]
        through = client["permuted"][place.collection.name]
        with client.start_session() as session:
            with session.start_transaction():
                through.insert_one({"k": "gone"}, session=session)
                session.abort_transaction()
            with session.start_transaction():
                through.insert_one({"k": "stays"}, session=session)
        assert number_of(place.collection.find_one({"k": "stays"})["n"]) >= 5
        # A duplicate takes the next number; values of the client stay as they are.
        taken = number_of(place.values()[-1]) + 1
        free = place.run("ids", "-n", "10").stdout
        assert free and taken
        through.insert_one({"n": 5})
        assert place.collection.count_documents({"n": 5}) == 1


@pytest.mark.parametrize("rule", [
    {}, {"digits": 6}, {"heal": {"by": "at"}}, {"alphabet": "base58", "length": 8, "scope": ["tenant"]}])
def test_a_lost_counter_is_made_past_what_is_stored(place: Place, start_proxy, rule):
    proxy = start_proxy(place.config(**rule))
    for _ in range(3):
        assert insert(proxy, place.ns, [{"tenant": "a", "at": i} for i in range(500)])["n"] == 500
    proxy.stop()
    place.server.client[STORE]["uniqueIdentifierCounter"].delete_many({})
    reply = insert(start_proxy(place.config(**rule)), place.ns, [{"tenant": "a", "at": 1000} for _ in range(500)])
    assert reply["n"] == 500, reply
    values = place.values()
    assert len(set(values)) == len(values) == 2000


def test_a_counter_that_went_back_is_healed(place: Place, start_proxy):
    """Duplicates that clients never see: the server reports them, and the proxy looks for free numbers."""
    proxy = start_proxy(place.config(block={"size": 10}))
    insert(proxy, place.ns, 300)
    proxy.stop()
    client = place.server.client[STORE]["uniqueIdentifierCounter"]
    client.update_one({"_id": place.document()["_id"]}, {"$set": {"COUNT": 5}})
    again = start_proxy(place.config(block={"size": 10}))
    for _ in range(20):
        reply = insert(again, place.ns, 10)
        assert reply["n"] == 10 and "writeErrors" not in reply, reply
    values = place.values()
    assert len(set(values)) == len(values) == 500


@pytest.mark.parametrize("change", [{"$set": {"COUNT": 5}}, None])
def test_a_counter_that_goes_back_in_use_is_healed(place: Place, start_proxy, change):
    """Or whose document is removed: the proxy looks at the counters that it uses."""
    proxy = start_proxy(place.config(block={"size": 10}))
    insert(proxy, place.ns, 300)
    documents, its = place.server.client[STORE]["uniqueIdentifierCounter"], {"_id": place.document()["_id"]}
    documents.update_one(its, change) if change else documents.delete_one(its)
    end = time.monotonic() + 6
    while time.monotonic() < end:
        reply = insert(proxy, place.ns, 10)
        assert reply["n"] == 10 and "writeErrors" not in reply, reply
    values = place.values()
    assert len(set(values)) == len(values)
    assert place.document()["COUNT"] > len(values) and place.document()["fpe"] == "38608fbf02f78add"


def test_each_period_begins_anew(place: Place, start_proxy, tmp_path):
    clock = OwnClock(tmp_path)
    proxy = start_proxy(place.config(output="string", template="{yyyy}-{counter}", reset="yearly"),
                        environment=clock.environment)
    insert(proxy, place.ns, 3)
    clock.set_ahead(366 * 24 * 3600)
    insert(proxy, place.ns, 3)
    years, hidden = zip(*(value.split("-") for value in place.values()))
    assert len(set(years)) == 2 and hidden[:3] == hidden[3:]
    assert [number_of(each) for each in hidden[:3]] == [0, 1, 2]
    assert len(place.server.client[STORE]["uniqueIdentifierCounter"].distinct(
        "_id.p", {"_id.c": f"{place.ns}.n"})) == 2


def test_without_an_index_nothing_is_made_over_what_is_stored(place: Place, start_proxy):
    """A new collection needs none."""
    config = place.config(unique_index="warn")
    proxy = start_proxy(config)
    insert(proxy, place.ns, 3)
    proxy.stop()
    delete_counter(place.server.client, place.ns)
    again = start_proxy(config)
    eventually(lambda: "createIndex" in insert(again, place.ns, 1).get("errmsg", ""))
    place.collection.create_index("n", unique=True, partialFilterExpression={"n": {"$exists": True}})
    eventually(lambda: insert(again, place.ns, 1)["ok"] == 1)
    assert len(set(place.values())) == len(place.values()) == 4


def test_the_end_of_the_numbers(place: Place, start_proxy):
    proxy = start_proxy(place.config(digits=6, start=999_990))
    assert insert(proxy, place.ns, 10)["n"] == 10
    assert "all numbers up to max, 999999, have been handed out" in refused(proxy, place.ns)
    assert [number_of(value, length=6) for value in place.values()] == list(range(999_990, 1_000_000))


def test_a_counter_becomes_hidden(place: Place, start_proxy):
    """It goes on where it stands."""
    proxy = start_proxy(place.config(strategy="counter"))
    insert(proxy, place.ns, 10)
    proxy.stop()
    insert(start_proxy(place.config()), place.ns, 10)
    assert place.values()[:10] == list(range(1, 11))
    assert [number_of(value) for value in place.values()[10:]] == list(range(11, 21))


def test_a_used_counter_is_hidden_only_with_an_index(place: Place, start_proxy):
    """A later hidden number may have the value of an earlier one."""
    proxy = start_proxy(place.config(strategy="counter", unique_index="warn"))
    insert(proxy, place.ns, 10)
    proxy.stop()
    hidden = start_proxy(place.config(unique_index="warn"))
    eventually(lambda: "numbers up to" in insert(hidden, place.ns, 1).get("errmsg", ""))
    reason = refused(hidden, place.ns)
    assert "that were not hidden" in reason and "fpe" not in place.document(), reason
    assert "createIndex" in reason, reason
    place.collection.create_index("n", unique=True, partialFilterExpression={"n": {"$exists": True}})
    eventually(lambda: insert(hidden, place.ns, 1)["ok"] == 1)
    assert [number_of(value) for value in place.values()[10:]] == [11]


def test_hidden_numbers_are_not_shown(place: Place, start_proxy):
    """A number that is stored as it is may be the value of another that was hidden."""
    proxy = start_proxy(place.config(unique_index="warn", block={"size": 1}))
    insert(proxy, place.ns, 10)
    plain = start_proxy(place.config(strategy="counter", unique_index="warn", block={"size": 1}))
    eventually(lambda: "hidden with fpe" in insert(plain, place.ns, 1).get("errmsg", ""))
    reason = refused(plain, place.ns)
    assert "the rule does not hide them" in reason and "Go back to strategy: permuted" in reason, reason
    insert(proxy, place.ns, 10)
    assert [number_of(value) for value in place.values()] == list(range(20))


@pytest.mark.parametrize("fpe, said", [("", '""'), (7, "(no string)"), ("x" * 5000, "x…")])
def test_a_seal_that_is_none_is_refused(place: Place, start_proxy, fpe, said):
    """With its reason, and the document stays as it is."""
    documents = place.server.client[STORE]["uniqueIdentifierCounter"]
    proxy = start_proxy(place.config(block={"size": 1}))
    insert(proxy, place.ns, 1)
    proxy.stop()
    documents.update_one({"_id": place.document()["_id"]}, {"$set": {"fpe": fpe}})
    again = start_proxy(place.config(block={"size": 1}))
    eventually(lambda: "hidden with fpe" in insert(again, place.ns, 1).get("errmsg", ""))
    reason = refused(again, place.ns)
    assert said in reason and len(reason) < 1000, reason
    assert place.document()["fpe"] == fpe


def test_ready_once_the_key_is_right(place: Place, start_proxy):
    place.write(OTHER_KEY)
    proxy = start_proxy({**place.config(), "admin": LISTEN})
    insert(proxy, place.ns, 1)
    place.write(KEY)
    proxy.process.send_signal(signal.SIGHUP)
    eventually(lambda: "hidden with fpe" in insert(proxy, place.ns, 1).get("errmsg", ""))
    place.write(OTHER_KEY)
    proxy.process.send_signal(signal.SIGHUP)
    eventually(lambda: insert(proxy, place.ns, 1)["ok"] == 1)
    eventually(lambda: "permuted): ready" in Admin(proxy).get("/readyz").text)


def test_encoded_numbers_are_not_negative(place: Place, start_proxy):
    rule = {"strategy": "counter", "encoding": "base58", "block": {"size": 1}}
    proxy = start_proxy(place.config(**rule))
    insert(proxy, place.ns, 1)
    proxy.stop()
    set_counter(place.server.client, place.ns, -5)
    again = start_proxy(place.config(**rule))
    eventually(lambda: "lies below 0" in insert(again, place.ns, 1).get("errmsg", ""))


def test_files_that_are_no_keys(place: Place):
    def finding(mode: int, key: str) -> str:
        place.write(key, mode)
        place.config()
        done = place.run("check")
        assert done.returncode == 78 and KEY not in done.stdout + done.stderr, done
        return done.stdout + done.stderr
    assert "is open to every user of this host: change that with chmod o-rwx" in finding(0o644, KEY)
    assert "openssl rand -hex 32" in finding(0o600, KEY[:30])
    (command,) = re.findall(r"(?m)^\$ (openssl .*)$", PAGE.read_text())
    subprocess.run(["bash", "-c", command], cwd=place.key.parent, check=True)
    place.write(place.key.with_name("accounts.key").read_text().strip())
    place.config()
    assert place.run("check").returncode == 0
    place.key.unlink()
    place.config()
    assert "No such file or directory" in place.run("check").stdout


def test_doctor_says_that_the_key_is_another(place: Place, start_proxy, doctor: Doctor):
    """Before a proxy starts with it."""
    insert(start_proxy(place.config()), place.ns, 3)
    place.write(OTHER_KEY)
    done = doctor.write(quiet(place.server, place.config()["rules"])).examine()
    found = done.one("rule-not-ready", "error", f"{place.ns}, n", "check --connect")
    assert 'hidden with fpe "38608fbf02f78add"' in found["text"] and "Go back to its key" in found["text"]


# ---- numbers in other digits

def in_digits(number: int, encoding: str, width: int = 1) -> str:
    alphabet, text = ALPHABETS[encoding], ""
    while number:
        number, digit = divmod(number, len(alphabet))
        text = alphabet[digit] + text
    return text.rjust(width, alphabet[0])


@pytest.mark.parametrize("strategy, encoding", [
    ("counter", "hex"), ("counter", "base32upper"), ("counter", "base58"), ("counter", "base62"), ("gapless", "base62")])
def test_encoded_numbers(place: Place, start_proxy, strategy, encoding):
    """In the order of bytes as long as the width suffices; a new process goes on behind them."""
    rule = {"strategy": strategy, "encoding": encoding, "start": 3840, "format": {"pad": 4, "prefix": "R"}}
    proxy = start_proxy(place.config(**rule))
    insert(proxy, place.ns, 100)
    proxy.stop()
    expected = ["R" + in_digits(n, encoding, 4) for n in range(3840, 3940)]
    assert place.values() == expected == sorted(expected)
    assert "their order in an index" not in place.run("check").stdout
    place.server.client[STORE]["uniqueIdentifierCounter"].delete_many({})
    insert(start_proxy(place.config(**rule)), place.ns, 1)
    assert place.values()[-1] == "R" + in_digits(3940, encoding, 4)
    its = place.verified()
    assert its["first"] == 3840 and its["last"] == 3940 and its["missing"] == 0, its
    done = place.run("ids", "--decode", expected[3])
    assert done.stdout == "number 3843\n", done


def test_short_texts(place: Place, start_proxy):
    """As short as their numbers: they are not in order, so that only a unique index lets a lost counter be made again."""
    rule = {"strategy": "counter", "encoding": "base62", "block": {"size": 10}}
    proxy = start_proxy(place.config(**rule))
    insert(proxy, place.ns, 200)
    assert place.values() == [in_digits(n, "base62") for n in range(1, 201)]
    proxy.stop()
    done = place.run("check")
    assert done.returncode == 0 and "their order in an index is not that of the numbers" in done.stdout + done.stderr
    delete_counter(place.server.client, place.ns)
    assert insert(start_proxy(place.config(**rule)), place.ns, 100)["n"] == 100
    assert len(set(place.values())) == 300
    assert place.verified()["last"] >= 300


def test_encoded_numbers_beyond_their_width(place: Place, start_proxy):
    """Of gapless: to find the highest number the server reads them all."""
    rule = {"strategy": "gapless", "encoding": "base36", "start": 1290, "output": "string",
            "template": "A-{counter:02}"}
    proxy = start_proxy(place.config(**rule))
    insert(proxy, place.ns, 20)
    proxy.stop()
    insert(start_proxy(place.config(**rule)), place.ns, 5)
    assert place.values() == ["A-" + in_digits(n, "base36", 2) for n in range(1290, 1315)]


def test_encoded_numbers_with_a_scope_and_a_year(place: Place, start_proxy):
    rule = {"strategy": "counter", "encoding": "base32", "scope": ["tenant"], "reset": "yearly",
            "template": "{field:tenant}/{yyyy}-{counter:03}"}
    proxy = start_proxy(place.config(**rule))
    insert(proxy, place.ns, [{"tenant": tenant} for tenant in "abab" * 20])
    texts = place.values()
    assert texts[-1].startswith("b/20") and texts[-1].endswith("-" + in_digits(40, "base32", 3))
    proxy.stop()
    place.server.client[STORE]["uniqueIdentifierCounter"].delete_many({})
    insert(start_proxy(place.config(**rule)), place.ns, [{"tenant": "a"}])
    assert place.values()[-1].endswith("-" + in_digits(41, "base32", 3))


def test_texts_that_vary_with_encoded_numbers(place: Place, start_proxy):
    """The server takes the numbers out of them."""
    rule = {"strategy": "counter", "encoding": "base62", "template": "{field:kind}:{counter:02}"}
    proxy = start_proxy(place.config(**rule))
    insert(proxy, place.ns, [{"kind": kind} for kind in "xyz" * 40])
    proxy.stop()
    delete_counter(place.server.client, place.ns)
    insert(start_proxy(place.config(**rule)), place.ns, [{"kind": "q"}])
    assert place.values()[-1] == "q:" + in_digits(121, "base62", 2)


def test_letters_need_an_index_without_a_collation(place: Place, start_proxy):
    place.collection.create_index("n", unique=True, collation={"locale": "en"})
    proxy = start_proxy(place.config(strategy="counter", encoding="base36", format={"pad": 4}))
    eventually(lambda: "has a collation, in which texts with letters do not sort as their numbers"
               in insert(proxy, place.ns, 1).get("errmsg", ""))
