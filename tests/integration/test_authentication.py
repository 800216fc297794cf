"""Logging in: SCRAM passes through untouched, X.509 is refused wherever the proxy ends TLS.

The proxy's own certificate is that of a user of the server who may do everything: whoever got
through with X.509 would be that user.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import hmac
import itertools
import json
import pathlib
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pymongo
import pytest
from pymongo.errors import OperationFailure

from support import elements as el
from support import wire
from support.access import OPEN, Access
from support.admin import LISTEN, Admin
from support.fake_server import FakeServer, Request
from support.guarded import Guarded
from support.mongod import Mongod
from support.process import eventually, free_port, free_ports
from support.proxy import Proxy, configuration
from support.replica_set import SETTINGS, Member
from support.scrape import metric
from support.secrets import CANARY, PASSWORD, passwords_in, secrets_in
from support.secured import STORE_ACTIONS, Certificates
from support.wire import Closed, WireClient

AUTHENTICATION_FAILED = 18
UNAUTHORIZED = 13
HOST_UNREACHABLE = 6

X509 = "MONGODB-X509"
RULES = [{"ns": "auth.*", "field": "n", "strategy": "uuid"}]
HTTP = {"admin": {"listen": "127.0.0.1:0"}}

Start = Callable[..., Proxy]


@pytest.fixture(scope="module")
def guarded(certificates: Certificates) -> Iterator[Guarded]:
    """TLS and users; the proxy's certificate is one of them."""
    with Guarded(certificates.options, certificates.access) as mongod:
        mongod.client["$external"].command(
            "createUser", certificates.proxy.subject, roles=[{"role": "root", "db": "admin"}])
        mongod.add_user("app", ["readWriteAnyDatabase"])
        yield mongod


@pytest.fixture(scope="module")
def unsecured() -> Iterator[Guarded]:
    """Users, without TLS."""
    with Guarded() as mongod:
        mongod.add_user("app", ["readWriteAnyDatabase"])
        yield mongod


@dataclasses.dataclass
class Way:
    """A proxy in front of a server with users."""

    proxy: Proxy
    server: Guarded

    def connect(self, compressor: str | None = None) -> WireClient:
        return connect(self.proxy, compressor)


def connect(proxy: Proxy, compressor: str | None = None) -> WireClient:
    return wire.client(proxy.address, compressor, tls=proxy.access.tls)


def with_own_certificate(guarded: Guarded, certificates: Certificates) -> dict[str, Any]:
    """A configuration whose connections to the server show the proxy's certificate."""
    config = configuration(guarded, RULES)
    config["upstream"]["uri"] = Access(
        certificates.authority.file, certificates.proxy.file).uri(guarded.address)
    return config


LEGS = ["both", "upstream", "downstream", "plain"]


@pytest.fixture(scope="module", params=LEGS)
def legs(request: pytest.FixtureRequest) -> str:
    """On which sides of the proxy there is TLS."""
    return request.param


@pytest.fixture(scope="module")
def way(legs, certificates, guarded, unsecured) -> Iterator[Way]:
    server = guarded if legs in ("both", "upstream") else unsecured
    config = (with_own_certificate(guarded, certificates) if server is guarded
              else configuration(unsecured, RULES))
    access = OPEN
    if legs in ("both", "downstream"):
        config["listen"], access = certificates.listen(), certificates.access
    with Proxy(config, access=access) as proxy:
        yield Way(proxy, server)


# What the proxy knows.

def wants_logins(admin: Admin) -> bool | None:
    return json.loads(admin.get("/status.json").text)["servers"][0]["logins"]


def test_knows_whether_a_server_wants_logins(standalone: Mongod, unsecured: Guarded) -> None:
    for server, wanted in [(unsecured, True), (standalone, False)]:
        with Proxy(configuration(server, RULES, admin=LISTEN)) as proxy:
            admin = Admin(proxy)
            assert eventually(lambda: wants_logins(admin) is wanted)


# SCRAM.

class Scram:
    """A client's side of it by hand (RFC 5802; SCRAM-SHA-1's password as MongoDB hashes it)."""

    def __init__(self, mechanism: str, user: str, password: str):
        self.mechanism = mechanism
        self._hash = "sha1" if mechanism == "SCRAM-SHA-1" else "sha256"
        self._password = password.encode()
        if self._hash == "sha1":
            self._password = hashlib.md5(
                f"{user}:mongo:{password}".encode()).hexdigest().encode()
        self._bare = f"n={user},r={base64.b64encode(bson.ObjectId().binary * 2).decode()}"

    def start(self) -> dict[str, Any]:
        return {"saslStart": 1, "mechanism": self.mechanism,
                "payload": b"n,," + self._bare.encode(), "options": {"skipEmptyExchange": True}}

    def answer(self, challenge: dict[str, Any]) -> dict[str, Any]:
        first = bytes(challenge["payload"]).decode()
        said = dict(part.split("=", 1) for part in first.split(","))
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password, base64.b64decode(said["s"]), int(said["i"]))
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        without_proof = f"c=biws,r={said['r']}"
        signature = hmac.digest(
            stored_key, f"{self._bare},{first},{without_proof}".encode(), self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature))
        payload = f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
        return {"saslContinue": 1, "conversationId": challenge["conversationId"],
                "payload": payload}


MECHANISMS = ["SCRAM-SHA-1", "SCRAM-SHA-256"]


def logged_in(client: WireClient) -> list[str]:
    status = client.call({"connectionStatus": 1, "$db": "admin"})
    return [each["user"] for each in status["authInfo"]["authenticatedUsers"]]


@pytest.mark.tsan
@pytest.mark.parametrize("mechanism", MECHANISMS)
class TestScram:
    def test_by_a_driver(self, way, mechanism, coll):
        """PyMongo begins it within hello."""
        with way.proxy.client(username="app", password=PASSWORD, authMechanism=mechanism) as client:
            client["auth"][coll].insert_one({"k": 1})
            assert client["auth"][coll].find_one()["n"]
            status = client.admin.command("connectionStatus")
            assert [u["user"] for u in status["authInfo"]["authenticatedUsers"]] == ["app"]

    @pytest.mark.parametrize("hello, compressor", [
        ("isMaster in OP_QUERY", None),
        *itertools.product(["no hello", "hello", "isMaster"], [None, *wire.COMPRESSORS])])
    def test_by_hand(self, way, mechanism, hello, compressor):
        """After a hello that begins it, or without; compressed, as members of a set do it."""
        scram = Scram(mechanism, "app", PASSWORD)
        with way.connect(compressor) as client:
            if hello == "no hello":
                challenge = client.call({**scram.start(), "$db": "admin"})
            else:
                command = {hello.split()[0]: 1,
                           "speculativeAuthenticate": {**scram.start(), "db": "admin"}}
                challenge = client.call(wire.op_query("admin.$cmd", command) if "OP_QUERY" in hello
                                        else {**command, "$db": "admin"})["speculativeAuthenticate"]
            done = client.call({**scram.answer(challenge), "$db": "admin"})
            assert done["ok"] == 1 and done["done"]
            assert logged_in(client) == ["app"]

    def test_a_wrong_password(self, way, mechanism):
        """The error is mongod's own."""
        replies = []
        for address, access in ((way.proxy.address, way.proxy.access),
                                (way.server.address, way.server.access)):
            scram = Scram(mechanism, "app", "not-the-password")
            with WireClient(address, tls=access.tls) as client:
                challenge = client.call({**scram.start(), "$db": "admin"})
                reply = client.call({**scram.answer(challenge), "$db": "admin"})
                replies.append(reply)
                assert logged_in(client) == []
                assert client.call({"listDatabases": 1, "$db": "admin"})["code"] == UNAUTHORIZED
        assert replies[0] == replies[1]
        assert replies[0]["code"] == AUTHENTICATION_FAILED

    def test_a_wrong_password_compressed(self, way, mechanism):
        scram = Scram(mechanism, "app", "not-the-password")
        with way.connect("zstd") as client:
            challenge = client.call({**scram.start(), "$db": "admin"})
            reply = client.call({**scram.answer(challenge), "$db": "admin"})
            assert reply["code"] == AUTHENTICATION_FAILED and logged_in(client) == []

    def test_a_wrong_password_of_a_driver(self, way, mechanism):
        with (way.proxy.client(username="app", password="not-the-password",
                               authMechanism=mechanism) as client,
              pytest.raises(OperationFailure) as failure):
            client["auth"]["c"].insert_one({})
        assert failure.value.code == AUTHENTICATION_FAILED


# Bytes, at a server that keeps them.

START = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=app,r=" + b"nonce" * 5,
         "options": {"skipEmptyExchange": True}}
# As TLS is on both sides here, nobody logs in by certificate; everything else is as it was sent.
UNTOUCHED = {
    "saslStart": wire.command({**START, "$db": "admin"}),
    "saslStart_sha_1": wire.command({**START, "mechanism": "SCRAM-SHA-1", "$db": "admin"}),
    "saslStart_plain": wire.command(
        {**START, "mechanism": "PLAIN", "payload": b"\0app\0secret", "$db": "$external"}),
    "saslStart_unknown": wire.command({**START, "mechanism": "MONGODB-X5090", "$db": "$external"}),
    "saslStart_checksum": wire.command({**START, "$db": "admin"}, flags=wire.CHECKSUM_PRESENT),
    "saslStart_payload_in_text": wire.command({**START, "payload": "bixhLGI=", "$db": "admin"}),
    "saslContinue": wire.command(
        {"saslContinue": 1, "conversationId": 1, "payload": b"c=biws,r=x,p=y", "$db": "admin"}),
    "saslContinue_empty": wire.command(
        {"saslContinue": 1, "conversationId": 1, "payload": b"", "$db": "admin"}),
    "logout": wire.command({"logout": 1, "$db": "admin"}),
    "hello": wire.command({"hello": 1, "$db": "admin"}),
    "hello_speculative": wire.command(
        {"hello": 1, "saslSupportedMechs": "admin.app",
         "speculativeAuthenticate": {**START, "db": "admin"}, "$db": "admin"}),
    "hello_speculative_checksum": wire.command(
        {"hello": 1, "speculativeAuthenticate": {**START, "db": "admin"}, "$db": "admin"},
        flags=wire.CHECKSUM_PRESENT),
    "isMaster_speculative": wire.command(
        {"isMaster": 1, "speculativeAuthenticate": {**START, "db": "admin"}, "$db": "admin"}),
    "op_query_speculative": wire.op_query("admin.$cmd", {
        "isMaster": 1, "helloOk": True,
        "speculativeAuthenticate": {**START, "mechanism": "SCRAM-SHA-1", "db": "admin"}}),
    "op_query_wrapped": wire.op_query("admin.$cmd", {
        "$query": {"isMaster": 1, "speculativeAuthenticate": {**START, "db": "admin"}},
        "$readPreference": {"mode": "primary"}}),
    "find_of_such": wire.command(
        {"find": "c", "filter": {"authenticate": 1, "mechanism": X509}, "$db": "shop"}),
    "insert_of_such": wire.command(
        {"insert": "c", "documents": [{"authenticate": 1, "mechanism": X509, "user": CANARY}],
         "$db": "shop"}),
    "another_command": wire.command({"ping": 1, "authenticate": 1, "mechanism": X509,
                                     "speculativeAuthenticate": {"authenticate": 1},
                                     "$db": "admin"}),
}
X509_FORMS = {
    "authenticate": wire.command({"authenticate": 1, "mechanism": X509, "$db": "$external"}),
    "saslStart_x509": wire.command(
        {"saslStart": 1, "mechanism": X509, "payload": b"", "$db": "$external"}),
    "hello_x509": wire.command({"hello": 1, "speculativeAuthenticate": {
        "authenticate": 1, "mechanism": X509, "db": "$external"}, "$db": "admin"}),
    "op_query_x509": wire.op_query("admin.$cmd", {"isMaster": 1, "speculativeAuthenticate": {
        "authenticate": 1, "mechanism": X509, "db": "$external"}}),
}


@pytest.fixture(scope="module")
def kept(legs, certificates, standalone) -> Iterator[
        tuple[Callable[[], WireClient], list[bytes]]]:
    """Connects to a proxy in front of a server that answers everything; the messages that the
    server got."""
    received: list[bytes] = []

    class Keeping(FakeServer):
        def _answer_to(self, request: Request) -> bytes:
            received.append(request.raw)
            return super()._answer_to(request)

    tls = certificates.server_context() if legs in ("both", "upstream") else None
    with Keeping(tls=tls) as server:
        server.access = certificates.access if tls else OPEN
        config, access = configuration(server, [], standalone), OPEN
        if legs in ("both", "downstream"):
            config["listen"], access = certificates.listen(), certificates.access
        with Proxy(config, access=access) as proxy:
            yield lambda: WireClient(proxy.address, tls=access.tls), received


class TestBytes:
    @pytest.mark.parametrize("form", UNTOUCHED)
    def test_are_what_was_sent(self, kept, form):
        connect, received = kept
        message = UNTOUCHED[form]
        with connect() as client:
            assert client.call(message)["ok"] == 1
        assert message in received

    @pytest.mark.parametrize("form", X509_FORMS)
    def test_of_x509(self, legs, kept, form):
        """Without TLS they are as good as any; the server sees no certificate."""
        connect, received = kept
        message = X509_FORMS[form]
        received.clear()
        with connect() as client:
            reply = client.call(message)
        assert (message in received) == (legs == "plain")
        if legs != "plain":
            assert not any(X509.encode() in each for each in received)
            is_hello = form in ("hello_x509", "op_query_x509")
            assert reply.get("code", 0) == (0 if is_hello else AUTHENTICATION_FAILED)

    def test_what_the_proxy_cannot_read_is_taken_out(self, kept):
        """The rest of the hello stays byte for byte."""
        connect, received = kept
        request = {"hello": 1, "speculativeAuthenticate": {**START, "db": "admin"},
                   "client": {"driver": {"name": "test"}}, "$db": "admin"}
        with connect() as client:
            client.send(wire.command(
                {"hello": 1, "compression": ["lz4"], **request}, request_id=4711))
            client.receive()
        assert wire.command(request, request_id=4711) in received


# X.509.

AUTHENTICATE = {"authenticate": 1, "mechanism": X509}
SASL_START = {"saslStart": 1, "mechanism": X509, "payload": b""}


def repeated(*parts: tuple[str, Any]) -> bytes:
    """A document in which names come twice."""
    return el.document(*(bson.encode({name: value})[4:-1] for name, value in parts))


def speculative(hello: str, inner: dict[str, Any] | bytes, **more: Any) -> bytes:
    """The document of such a hello."""
    inner = inner if isinstance(inner, bytes) else bson.encode({**inner, "db": "$external"})
    return el.document(
        el.int32(hello, 1), el.element(0x03, "speculativeAuthenticate", inner),
        *(bson.encode({name: value})[4:-1] for name, value in more.items()))


def forms(subject: str) -> dict[str, bytes]:
    """Every way to ask for it that somebody might find."""
    own = {"user": subject}
    external = {"$db": "$external"}
    found = {
        "authenticate": wire.command({**AUTHENTICATE, **external}),
        "authenticate_user": wire.command({**AUTHENTICATE, **own, **external}),
        "authenticate_other_user": wire.command({**AUTHENTICATE, "user": "CN=else", **external}),
        "authenticate_without_mechanism": wire.command({"authenticate": 1, **own, **external}),
        "authenticate_lower_case": wire.command(
            {"authenticate": 1, "mechanism": X509.lower(), **external}),
        "authenticate_admin": wire.command({**AUTHENTICATE, "$db": "admin"}),
        "authenticate_twice": wire.command(repeated(
            ("authenticate", 1), ("mechanism", "SCRAM-SHA-256"), ("mechanism", X509),
            ("$db", "$external"))),
        "authenticate_checksum": wire.command(
            {**AUTHENTICATE, **external}, flags=wire.CHECKSUM_PRESENT),
        "authenticate_exhaust": wire.command(
            {**AUTHENTICATE, **external}, flags=wire.EXHAUST_ALLOWED),
        "authenticate_sequence_first": wire.op_msg(
            wire.sequence("x", [{}]), wire.body({**AUTHENTICATE, **external})),
        "authenticate_op_query": wire.op_query("$external.$cmd", AUTHENTICATE),
        "authenticate_op_query_user": wire.op_query("$external.$cmd", {**AUTHENTICATE, **own}),
        "authenticate_op_query_wrapped": wire.op_query("$external.$cmd", {"$query": AUTHENTICATE}),
        "authenticate_old_name": wire.command({"Authenticate": 1, "mechanism": X509, **external}),
        "sasl_start": wire.command({**SASL_START, **external}),
        "sasl_start_user": wire.command(
            {**SASL_START, "payload": subject.encode(), **external}),
        "sasl_start_lower_case": wire.command(
            {**SASL_START, "mechanism": X509.lower(), **external}),
        "sasl_start_mixed_case": wire.command(
            {**SASL_START, "mechanism": "MongoDB-x509", **external}),
        "sasl_start_nul": wire.command({**SASL_START, "mechanism": X509 + "\0x", **external}),
        "sasl_start_symbol": wire.command(el.document(
            el.int32("saslStart", 1), el.string("mechanism", X509, kind=0x0E),
            el.element(0x05, "payload", struct.pack("<iB", 0, 0)), el.string("$db", "$external"))),
        "sasl_start_twice": wire.command(repeated(
            ("saslStart", 1), ("mechanism", "SCRAM-SHA-256"), ("mechanism", X509), ("payload", b""),
            ("$db", "$external"))),
        "sasl_start_twice_turned": wire.command(repeated(
            ("saslStart", 1), ("mechanism", X509), ("mechanism", "SCRAM-SHA-256"), ("payload", b""),
            ("$db", "$external"))),
        "sasl_start_no_mechanism": wire.command({"saslStart": 1, "payload": b"", **external}),
        "sasl_start_op_query": wire.op_query("$external.$cmd", SASL_START),
        "sasl_start_op_query_wrapped": wire.op_query("$external.$cmd", {"$query": SASL_START}),
        "no_reply": wire.command({**AUTHENTICATE, **external}, flags=wire.MORE_TO_COME),
        "no_reply_sasl": wire.command({**SASL_START, **external}, flags=wire.MORE_TO_COME),
        "compressed_by_nothing": wire.op_compressed(
            wire.command({**AUTHENTICATE, **external}), 0),
        "compressed_by_zlib": zlib_compressed(wire.command({**AUTHENTICATE, **external})),
        "compressed_hello": wire.op_compressed(
            wire.command(speculative("hello", AUTHENTICATE, **{"$db": "admin"})), 0),
    }
    inners = {
        "x509": AUTHENTICATE, "user": {**AUTHENTICATE, **own},
        "sasl": SASL_START, "lower_case": {"authenticate": 1, "mechanism": X509.lower()},
        "twice_inside": repeated(("authenticate", 1), ("mechanism", "SCRAM-SHA-256"),
                                 ("mechanism", X509), ("db", "$external")),
        "sasl_twice_inside": repeated(
            ("saslStart", 1), ("mechanism", "SCRAM-SHA-256"), ("mechanism", X509),
            ("payload", b""), ("db", "$external")),
    }
    for hello in ("hello", "isMaster", "ismaster"):
        for name, inner in inners.items():
            found[f"{hello}_{name}"] = wire.command(
                speculative(hello, inner, **{"$db": "admin"}))
            found[f"{hello}_{name}_op_query"] = wire.op_query(
                "admin.$cmd", speculative(hello, inner))
        found[f"{hello}_wrapped"] = wire.op_query("admin.$cmd", el.document(el.element(
            0x03, "$query", speculative(hello, AUTHENTICATE))))
        found[f"{hello}_query"] = wire.op_query("admin.$cmd", el.document(el.element(
            0x03, "query", speculative(hello, AUTHENTICATE))))
        found[f"{hello}_checksum"] = wire.command(
            speculative(hello, AUTHENTICATE, **{"$db": "admin"}), flags=wire.CHECKSUM_PRESENT)
        found[f"{hello}_external"] = wire.command(
            speculative(hello, AUTHENTICATE, **{"$db": "$external"}))
        # SCRAM first, X.509 behind it, and the other way round.
        scram = {"speculativeAuthenticate": {**START, "db": "admin"}}
        found[f"{hello}_behind_scram"] = wire.command(repeated(
            (hello, 1), *scram.items(),
            ("speculativeAuthenticate", {**AUTHENTICATE, "db": "$external"}), ("$db", "admin")))
        found[f"{hello}_before_scram"] = wire.command(repeated(
            (hello, 1), ("speculativeAuthenticate", {**AUTHENTICATE, "db": "$external"}),
            *scram.items(), ("$db", "admin")))
        found[f"{hello}_no_reply"] = wire.command(
            speculative(hello, AUTHENTICATE, **{"$db": "admin"}), flags=wire.MORE_TO_COME)
        found[f"{hello}_stream"] = wire.command(
            speculative(hello, AUTHENTICATE, **{"$db": "admin"}), flags=wire.EXHAUST_ALLOWED)
    return found


def zlib_compressed(message: bytes) -> bytes:
    return wire.op_compressed(message, 2, zlib.compress(message[16:]))


FORMS = [*forms("")]
COMPRESSORS = [None, *wire.COMPRESSORS]
SILENT = [form for form in FORMS if "no_reply" in form]


def attempt(client: WireClient, message: bytes, form: str) -> list[str]:
    """Sends it; who is logged in then. Nobody, if the connection is closed."""
    try:
        client.send(message)
        if form not in SILENT:
            client.receive()
        found = logged_in(client)
        privileged = client.call({"listDatabases": 1, "$db": "admin"})
    except Closed:
        return []
    assert (privileged["ok"] == 1) == bool(found), privileged
    assert found or privileged["code"] == UNAUTHORIZED
    return found


@pytest.fixture(scope="module", params=["both", "upstream", "downstream"])
def proxy(request, certificates, guarded, unsecured) -> Iterator[Proxy]:
    config = (configuration(unsecured, []) if request.param == "downstream"
              else with_own_certificate(guarded, certificates))
    access = OPEN
    if request.param != "upstream":
        config["listen"], access = certificates.listen(), certificates.access
    with Proxy(config, access=access) as running:
        yield running


class TestX509:
    @pytest.mark.parametrize("form", FORMS)
    def test_nobody_is_logged_in(self, proxy, certificates, form):
        message = forms(certificates.proxy.subject)[form]
        for compressor in COMPRESSORS:
            with connect(proxy, compressor) as client:
                assert attempt(client, message, form) == [], compressor

    @pytest.mark.parametrize("compressor", COMPRESSORS)
    def test_directly_the_same_is_a_login(self, certificates, guarded, compressor):
        """Of the proxy's subject, with most of the forms: the test above could fail."""
        own = Access(certificates.authority.file, certificates.proxy.file).tls
        successful = []
        for form, message in forms(certificates.proxy.subject).items():
            if compressor and form.startswith("compressed"):
                continue  # one in another, which it does not answer
            with wire.client(guarded.address, compressor, tls=own) as client:
                if found := attempt(client, message, form):
                    assert found == [certificates.proxy.subject]
                    successful.append(form)
        assert {"authenticate", "authenticate_user", "authenticate_checksum", "no_reply",
                "hello_x509", "isMaster_x509", "hello_user", "isMaster_x509_op_query",
                "hello_checksum"} <= {*successful}, successful

    @pytest.mark.parametrize("form", ["authenticate", "authenticate_user", "sasl_start",
                                      "authenticate_checksum", "sasl_start_lower_case"])
    @pytest.mark.parametrize("compressor", COMPRESSORS)
    def test_the_answer_says_why(self, proxy, certificates, form, compressor):
        message = forms(certificates.proxy.subject)[form]
        with connect(proxy, compressor) as client:
            client.send(message)
            reply = client.receive()
            assert reply.response_to == struct.unpack_from("<i", message, 4)[0]
            body = reply.body
            assert (body["ok"], body["code"], body["codeName"]) == (
                0, AUTHENTICATION_FAILED, "AuthenticationFailed")
            assert X509 in body["errmsg"] and "SCRAM" in body["errmsg"]
            assert client.call({"ping": 1, "$db": "admin"})["ok"] == 1
        assert certificates.proxy.subject not in proxy.log()

    @pytest.mark.parametrize("form, compressor", [
        ("isMaster_x509_op_query", None),
        *itertools.product(["hello_x509", "isMaster_x509"], COMPRESSORS)])
    def test_a_hello_is_answered_all_the_same(self, proxy, certificates, form, compressor):
        with connect(proxy, compressor) as client:
            reply = client.call(forms(certificates.proxy.subject)[form])
            assert reply["ok"] == 1 and "maxWireVersion" in reply
            assert "speculativeAuthenticate" not in reply

    def test_a_driver_hears_why(self, certificates, guarded, start_proxy):
        own = certificates.authority.issue("CN=client,O=clients")
        config = with_own_certificate(guarded, certificates)
        proxy = start_proxy({**config, "listen": certificates.listen()},
                            access=dataclasses.replace(certificates.access, certificate=own.file))
        with (proxy.client(authMechanism=X509) as client,
              pytest.raises(OperationFailure) as failure):
            client["auth"]["c"].find_one()
        assert failure.value.code == AUTHENTICATION_FAILED and "SCRAM" in str(failure.value)

    def test_scram_afterwards(self, proxy):
        """A client that tried is served as any other."""
        scram = Scram("SCRAM-SHA-256", "app", PASSWORD)
        with WireClient(proxy.address, tls=proxy.access.tls) as client:
            assert client.call({**AUTHENTICATE, "$db": "$external"})["code"] == \
                AUTHENTICATION_FAILED
            done = client.call({**scram.answer(client.call({**scram.start(), "$db": "admin"})),
                                "$db": "admin"})
            assert done["done"] and logged_in(client) == ["app"]


def test_without_tls_x509_is_the_servers_business(unsecured, start_proxy):
    """It says what it says without a proxy: nobody has shown it a certificate."""
    proxy = start_proxy(configuration(unsecured, RULES))
    replies = []
    for address in (proxy.address, unsecured.address):
        with WireClient(address) as client:
            replies.append([client.call({**command, "$db": "$external"})
                            for command in (AUTHENTICATE, SASL_START)])
            assert logged_in(client) == []
    assert replies[0] == replies[1]


class TestMembers:
    def test_they_reach_each_other_through_the_proxy(self, tmp_path: pathlib.Path, start_proxy):
        """They log in at each other as __system, compressed. An index is built once all vote for it,
        at the primary's listener."""
        key = tmp_path / "key"
        key.write_text("idproxy" * 10)
        key.chmod(0o600)
        with contextlib.ExitStack() as stack:
            members = [stack.enter_context(Member("reached", free_port(), options=[
                "--keyFile", str(key)])) for _ in range(3)]
            ports = free_ports(len(members))
            proxy = start_proxy({
                "upstream": {"uri": f"mongodb://{','.join(m.address for m in members)}"},
                "listen": {"address": "127.0.0.1", "port": ports[0]}, "rules": [], **HTTP})
            members[0].client.admin.command("replSetInitiate", {
                "_id": "reached", "settings": SETTINGS, "members": [
                    {"_id": k, "host": f"127.0.0.1:{port}"} for k, port in enumerate(ports)]})
            primary = eventually(
                lambda: next((m for m in members if m.hello().get("isWritablePrimary")), None), 60)
            primary.client.admin.command("createUser", "app", pwd=PASSWORD, roles=["root"])
            with proxy.set_client("reached", username="app", password=PASSWORD) as client:
                client.reached.documents.insert_many([{"k": k} for k in range(100)])
                client.reached.command(
                    "createIndexes", "documents", indexes=[{"key": {"k": 1}, "name": "k"}],
                    commitQuorum="votingMembers", maxTimeMS=60_000)
            assert metric(proxy, 'idproxy_requests_compressed_total{compressor="snappy"}') > 0
            assert not proxy.find_events("compressed_message")


# The store's user.

@pytest.fixture
def start_secured(start_proxy, certificates, guarded) -> Start:
    """start_secured(user, rules): TLS on both sides, and this user for the store."""
    def start(user: str, rules: list[dict[str, Any]]) -> Proxy:
        uri = guarded.uri_of(user)
        return start_proxy(configuration(
            guarded, rules, listen=certificates.listen(), id_store={"uri": uri}),
            access=certificates.application)
    return start


STORE = [{"role": "readWrite", "db": "idproxy"}]


def of(db: str, actions: list[str]) -> list[dict[str, Any]]:
    return [{"resource": {"db": db, "collection": ""}, "actions": actions}]


def rules_of(db: str) -> list[dict[str, Any]]:
    return [{"ns": f"{db}.counted", "field": "number", "strategy": "counter"},
            {"ns": f"{db}.warned", "field": "number", "strategy": "random-digits"},
            {"ns": f"{db}.created", "field": "number", "strategy": "random-digits",
             "unique_index": "create"},
            {"ns": f"{db}.view", "field": "number", "strategy": "random-digits"}]


class TestTheStoresUser:
    def test_the_documented_role_is_enough(self, guarded, start_secured, coll):
        guarded.client[coll].create_collection("view", viewOn="counted")
        guarded.client[coll].counted.create_index("number", unique=True)
        guarded.client[coll].warned.insert_one({})
        guarded.add_user(f"{coll}-role", STORE, of(coll, [*STORE_ACTIONS, "createIndex"]))
        proxy = start_secured(f"{coll}-role", rules_of(coll))
        with proxy.client() as client:
            for name in ("counted", "warned", "created"):
                eventually(lambda: insert(client, coll, name), 40, name)
            assert client[coll].counted.find_one()["number"] == 1
            with pytest.raises(OperationFailure) as failure:
                client[coll].view.insert_one({})
            assert failure.value.code == 166  # CommandNotSupportedOnView
        assert "number_idproxy" in guarded.client[coll].created.index_information()
        assert proxy.wait_event("no_unique_index", 40)["ns"] == f"{coll}.warned"
        assert not proxy.find_events("missing_privilege")

    def test_what_is_missing_is_named(self, guarded, start_secured, coll):
        """And switches off what needs it, and nothing else."""
        guarded.client[coll].warned.insert_one({})
        guarded.add_user(f"{coll}-weak", STORE, of(coll, ["find", "listIndexes"]))
        proxy = start_secured(f"{coll}-weak", rules_of(coll))
        for privilege in ("collStats", "listCollections"):
            assert proxy.wait_event("missing_privilege", 40, privilege=privilege)["db"] == coll
        with proxy.client() as client:
            for name in ("counted", "warned"):
                eventually(lambda: insert(client, coll, name), 40, name)
            with pytest.raises(OperationFailure) as failure:
                client[coll].created.insert_one({})
            assert "createIndex" in str(failure.value)
        assert proxy.wait_event("missing_privilege", 40, privilege="createIndex")["db"] == coll

    @pytest.mark.parametrize("strategy, event", [("counter", "counter_refused"), ("snowflake", "machine_refused")])
    def test_nothing_to_write_counters_with(self, guarded, start_secured, coll, strategy, event):
        """Nor leases of machine numbers."""
        guarded.client[coll].counted.create_index("number", unique=True)
        guarded.add_user(f"{coll}-reader", [], of(coll, STORE_ACTIONS))
        counted, warned = rules_of(coll)[:2]
        proxy = start_secured(f"{coll}-reader", [{**counted, "strategy": strategy}, warned])
        with proxy.client(retryWrites=False) as client:

            def refused() -> OperationFailure | None:
                """Why, if it was not that the store has no answer yet."""
                with pytest.raises(OperationFailure) as failure:
                    client[coll].counted.insert_one({})
                return None if failure.value.code == HOST_UNREACHABLE else failure.value
            why = eventually(refused, 20)
            assert why.code == 96
            assert f'grantRolesToUser("{coll}-reader", [{{role: "readWrite", db: "idproxy"}}])' in str(why)
            eventually(lambda: insert(client, coll, "warned"), 40)
        assert proxy.find_events(event)

    def test_by_a_certificate(self, certificates, guarded, start_proxy, coll):
        """The proxy itself may log in by X.509, as a user of its own."""
        own = certificates.authority.issue(f"CN=store-{coll},O=stores")
        guarded.client.admin.command("createRole", f"{coll}-store", roles=STORE,
                                     privileges=of(coll, STORE_ACTIONS))
        guarded.client["$external"].command(
            "createUser", own.subject, roles=[{"role": f"{coll}-store", "db": "admin"}])
        uri = Access(certificates.authority.file, own.file).uri(
            guarded.address, f"authMechanism={X509}", "directConnection=true")
        proxy = start_proxy(configuration(guarded, rules_of(coll)[:1], listen=certificates.listen(),
                                          id_store={"uri": uri}), access=certificates.application)
        with proxy.client() as client:
            eventually(lambda: insert(client, coll, "counted"), 40)
        assert [d["number"] for d in guarded.client[coll].counted.find()] == [1]

    def test_it_is_nobody_elses(self, guarded, start_secured, coll):
        """What the store's user may do, clients may not for that; nor do they use up numbers."""
        guarded.add_user(f"{coll}-own", STORE, of(coll, STORE_ACTIONS))
        proxy = start_secured(f"{coll}-own", rules_of(coll)[:1])
        with WireClient(proxy.address, tls=proxy.access.tls) as client:
            assert logged_in(client) == []

            def refused() -> int:
                """Why, if it was not that the store has no answer yet."""
                reply = client.call({"insert": "counted", "documents": [{}] * 10, "$db": coll})
                return reply["code"] != HOST_UNREACHABLE and reply["code"]
            for _ in range(5):
                assert eventually(refused, 20) == UNAUTHORIZED
        with proxy.client() as allowed:
            allowed[coll].counted.insert_one({})
        assert [d["number"] for d in guarded.client[coll].counted.find()] == [1]


def insert(client: pymongo.MongoClient, db: str, collection: str) -> bool:
    """False as long as the rule is not ready."""
    try:
        return bool(client[db][collection].insert_one({}).inserted_id)
    except OperationFailure as error:
        assert error.code in (6, 96), error
        return False


# What must not be in the log.

LEAKS = {
    "a password": 'uri "mongodb://app:open-sesame@host/" cannot be used',
    "a test's password": f"the password {PASSWORD} is wrong",
    "a known password": "cannot log in with hush-hush",
    "a document": f'E11000 dup key: {{ text: "{CANARY}" }}',
    "a payload": '{"event":"x","payload":"?"}',
    "a first message": "n,,n=app,r=fyko+d2lbbFgONRv9qkxdawL",
    "a server's message": "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    "a last message": "c=biws,r=abc,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    "a proof": "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "a first message in base64": base64.b64encode(b"n,,n=app,r=fyko+d2lbbFgONRv9qkxdawL").decode(),
    "a last message in base64": base64.b64encode(b"c=biws,r=abc,p=v0X8v3Bz2T0CJGbJ").decode(),
    "a server's message in base64": base64.b64encode(
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR,i=4096").decode(),
    "a certificate": "-----BEGIN CERTIFICATE-----",
    "a key": "MIGHAgEAMBMGByqGSM49 -----END PRIVATE KEY-----",
}


class TestTheSearchForSecrets:
    @pytest.mark.parametrize("what", LEAKS)
    def test_finds(self, what):
        clean = ['{"time":"2026-11-22T10:00:00Z","event":"ready","message":"ready"}'] * 5
        assert not secrets_in(clean, {"hush-hush"})
        found = secrets_in([*clean, f"x {LEAKS[what]} y", *clean], {"hush-hush"})
        assert found == [f"x {LEAKS[what]} y"]

    def test_knows_the_passwords_of_connection_strings(self):
        text = '{"a": "mongodb://u:one@h/", "b": ["mongodb+srv://u:t%77o@h:1,i:2/?x=y"]}'
        assert passwords_in(text) == {"one", "t%77o"}

    def test_is_made_when_a_proxy_stops(self, standalone):
        proxy = Proxy(configuration(standalone, []))
        proxy.lines.append("n,,n=app,r=x")
        with pytest.raises(AssertionError, match="secrets in the log"):
            proxy.stop()


def test_documents_that_the_server_complains_of_are_not_logged(standalone, start_proxy, coll):
    """Its errors show them to their owner only."""
    documents = standalone.client["auth"][coll]
    documents.create_index("text", unique=True)
    proxy = start_proxy(configuration(standalone, RULES, log={"level": "debug", "format": "json"}))
    with proxy.client() as client:
        for _ in range(2):
            try:
                client["auth"][coll].insert_one({"text": CANARY})
            except pymongo.errors.DuplicateKeyError as error:
                assert CANARY in str(error)
        with pytest.raises(OperationFailure):
            client["auth"][coll].find_one({CANARY: {"$" + CANARY: 1}})
    assert documents.count_documents({}) == 1
    # start_proxy's end has a look at the log.
