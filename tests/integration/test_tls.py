"""TLS on either side of the proxy: what is served, and what is refused for which reason.

Where something is refused, the log has to say why, and which certificate is at fault. Here is that the keys on
each side lead to that; all that may be wrong with a certificate, a version, a cipher or first bytes, and the text
for it, is in tests/unit/net (tls_verify_test, tls_reason_test, tls_context_test, tls_first_bytes_test). How long a
handshake may take: test_limits.py.
"""

from __future__ import annotations

import contextlib
import datetime
import pathlib
import random
import shutil
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import PyMongoError

from support import elements as el
from support import wire
from support.access import OPEN, Access
from support.certificates import Authority, Issued
from support.fake_server import FakeServer, Last, reply_to
from support.full import FULL
from support.middleman import CutAt, Middleman
from support.mongod import Mongod
from support.process import eventually
from support.proxy import Proxy, configuration
from support.secured import Certificates
from support.servers import has
from support.threads import Threads
from support.tls_by_hand import ByHand, client_hello
from support.wire import Closed, WireClient

PING = {"ping": 1, "$db": "admin"}
RULES = [{"ns": "tls.*", "field": "n", "strategy": "uuid"}]

TLS = ssl.TLSVersion
VERSIONS = [TLS.TLSv1_2, TLS.TLSv1_3]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def secure(certificates: Certificates) -> Iterator[Mongod]:
    """A server that takes TLS only."""
    with Mongod(options=certificates.options, access=certificates.access) as mongod:
        yield mongod


def of_version(version: TLS, access: Access) -> ssl.SSLContext:
    """What a client has that knows this version only."""
    context = access.tls
    assert context
    context.minimum_version, context.maximum_version = version, version
    return context


def ping(address: str, tls: ssl.SSLContext | None = None, timeout: float = 10) -> bool:
    """Whether a new client is served."""
    try:
        with WireClient(address, timeout, tls=tls) as client:
            return client.call(PING)["ok"] == 1
    except (Closed, ConnectionError, ssl.SSLError):
        return False


def recent(event: dict[str, Any]) -> bool:
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(
        event["time"])
    return age.total_seconds() < 1.2


@contextlib.contextmanager
def refusal(proxy: Proxy, event: str = "tls_failed") -> Iterator[Callable[[], str]]:
    """A client is refused meanwhile. What this gives says why, according to the log."""
    # The log has ten lines of a kind per second.
    eventually(lambda: sum(map(recent, proxy.find_events(event))) < 9)
    before = len(proxy.find_events(event))

    def reason() -> str:
        found = eventually(lambda: proxy.find_events(event)[before:], 10, "the log says why")[0]
        assert found["level"] == "warning", found
        return found.get("reason", found["message"])
    yield reason


def unreachable(proxy: Proxy, server: FakeServer | Mongod | SimpleNamespace) -> str:
    """Why this server is not reached, according to the log."""
    event = proxy.wait_event("upstream_unreachable", server=server.address)
    assert event["level"] == "error"
    assert event["message"].startswith(f"server {server.address} cannot be reached: {event['reason']}: ")
    return event["reason"]


# What works.

@pytest.fixture(scope="module", params=["downstream", "upstream", "both"])
def legs(request, certificates, standalone, secure) -> Iterator[SimpleNamespace]:
    """A proxy with TLS on this side of it."""
    server = standalone if request.param == "downstream" else secure
    listen, access = {}, OPEN
    if request.param != "upstream":
        listen, access = {"listen": certificates.listen()}, certificates.access
    with Proxy(configuration(server, RULES, **listen), access=access) as proxy:
        yield SimpleNamespace(proxy=proxy, server=server, access=access)


@pytest.mark.tsan
class TestEachSide:
    def test_a_driver(self, legs, coll):
        with legs.proxy.client() as client:
            documents = client["tls"][coll]
            documents.insert_many([{"k": k} for k in range(1000)])
            assert documents.count_documents({}) == 1000
        stored = list(legs.server.client["tls"][coll].find().sort("k"))
        assert [d["k"] for d in stored] == list(range(1000))
        assert len({d["n"] for d in stored}) == 1000

    @pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.name)
    def test_each_version(self, legs, coll, version):
        tls = of_version(version, legs.access) if legs.access.tls else None
        with WireClient(legs.proxy.address, tls=tls) as client:
            if tls:
                assert client.socket.version() == version.name.replace("_", ".")
            assert client.call({"hello": 1, "$db": "admin"})["isWritablePrimary"]
            assert client.call({"insert": coll, "documents": [{"k": 1}], "$db": "tls"})["n"] == 1
            (found,) = client.call({"find": coll, "$db": "tls"})["cursor"]["firstBatch"]
        assert found["k"] == 1 and isinstance(found["n"], bson.Binary)

    def test_messages_of_every_size(self, legs, coll):
        """Around the size of a record, and of what is read at once."""
        with WireClient(legs.proxy.address, timeout=30, tls=legs.access.tls) as client:
            for size in (1, 400, 510, 16_000, 16_384, 16_400, 65_536, 262_144, 262_200, 5_000_000):
                for insert in (True, False):
                    text = "x" * size
                    if insert:
                        command = {"insert": coll, "documents": [{"s": text}], "$db": "tls"}
                        assert client.call(command)["n"] == 1
                    else:
                        assert client.call({**PING, "comment": text})["ok"] == 1
            sizes = [len(d["s"]) for d in legs.server.client["tls"][coll].find().sort("_id")]
        assert sizes == [1, 400, 510, 16_000, 16_384, 16_400, 65_536, 262_144, 262_200, 5_000_000]

    def test_byte_by_byte(self, legs):
        """Each in a record of its own."""
        with WireClient(legs.proxy.address, tls=legs.access.tls) as client:
            for byte in wire.command({"hello": 1, "$db": "admin"}):
                client.send(bytes([byte]))
            assert client.receive().body["ok"] == 1

    def test_pipelined(self, legs):
        """All sent at once, in few records."""
        with WireClient(legs.proxy.address, tls=legs.access.tls) as client:
            client.send(b"".join(wire.command(PING, request_id=i) for i in range(500)))
            assert [client.receive().response_to for _ in range(500)] == list(range(500))

    def test_a_slow_reader_gets_everything(self, legs, coll):
        legs.server.client["plain"][coll].insert_one({"_id": 1, "s": "x" * 4_000_000})
        with WireClient(legs.proxy.address, timeout=60, tls=legs.access.tls) as client:
            for i in range(20):
                client.send(wire.command({"find": coll, "$db": "plain"}, request_id=i))
            time.sleep(0.5)
            for i in range(20):
                reply = client.receive()
                assert reply.response_to == i and len(reply.raw) > 4_000_000

    def test_both_ways_at_once(self, legs, coll):
        """A client that is three requests ahead of what it reads."""
        text = "x" * 100_000
        with WireClient(legs.proxy.address, timeout=60, tls=legs.access.tls) as client:
            client.call({"insert": coll, "documents": [{"s": text}], "$db": "plain"})
            sent = [wire.command({"find": coll, "comment": text, "$db": "plain"}, request_id=i)
                    for i in range(300)]
            for i, each in enumerate(sent):
                client.send(each)
                if i >= 3:
                    assert client.receive().response_to == i - 3
            assert [client.receive().response_to for _ in range(3)] == [297, 298, 299]


RAW = CodecOptions(document_class=RawBSONDocument)


def without(raw: bytes, *names: bytes) -> bytes:
    return el.document(*(e for e in el.elements(raw) if e.name not in names))


@pytest.fixture(scope="module")
def both(certificates, secure) -> Iterator[Proxy]:
    with Proxy(configuration(secure, RULES, listen=certificates.listen()),
               access=certificates.access) as proxy:
        yield proxy


def padded(size: int) -> bytes:
    """A ping of this size: it ignores a sequence that it does not know."""
    def message(*sizes: int) -> bytes:
        return wire.op_msg(wire.body(PING), wire.sequence(
            "padding", [{"s": "x" * each} for each in sizes]))
    room = size - len(message(0, 0, 0))
    return message(room // 3, room // 3, room - 2 * (room // 3))


class TestLarge:
    def test_documents_of_16_mb(self, both, secure, coll):
        """As large as they may be, with their values; and read again as they are stored."""
        room = 16 * 1024 * 1024 - len(bson.encode(
            {"_id": bson.ObjectId(), "s": "", "n": bson.Binary(bytes(16), 4)}))
        texts = [chr(97 + i) * (room - i) for i in range(3)]
        with both.client() as client:
            client["tls"][coll].insert_many([{"s": text} for text in texts])
            found = client["tls"].get_collection(coll, codec_options=RAW).find()
            read = {bytes(d.raw) for d in found}
        stored = {bytes(d.raw) for d in
                  secure.client["tls"].get_collection(coll, codec_options=RAW).find()}
        assert read == stored
        assert {bson.decode(each)["s"] for each in stored} == {*texts}
        assert all(isinstance(bson.decode(each)["n"], bson.Binary) for each in stored)

    @pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.name)
    def test_batches(self, both, secure, coll, version):
        """1,000 documents of all sizes, several times; nothing is lost, changed or out of place."""
        chance = random.Random(version.name)
        batches = [[el.document(el.int32("_id", batch * 1000 + i), el.string(
            "s", chr(97 + i % 26) * chance.choice((0, 10, 300, 5_000, 20_000))))
            for i in range(1000)] for batch in range(3)]
        tls = of_version(version, both.access)
        with WireClient(both.address, timeout=60, tls=tls) as client:
            for ordered, batch in enumerate(batches):
                reply = client.call(wire.op_msg(
                    wire.body({"insert": coll, "ordered": bool(ordered % 2), "$db": "tls"}),
                    wire.sequence("documents", batch)))
                assert reply["n"] == 1000 and "writeErrors" not in reply
            cursor = client.call({"find": coll, "sort": {"_id": 1}, "batchSize": 3000,
                                  "$db": "tls"})["cursor"]
            read = cursor["firstBatch"]
            while cursor["id"]:
                cursor = client.call({"getMore": cursor["id"], "collection": coll,
                                      "$db": "tls"})["cursor"]
                read += cursor["nextBatch"]
        found = secure.client["tls"].get_collection(coll, codec_options=RAW).find().sort("_id")
        stored = [bytes(d.raw) for d in found]
        assert [without(each, b"n") for each in stored] == [d for batch in batches for d in batch]
        assert read == [bson.decode(each) for each in stored]
        assert len({bson.decode(each)["n"] for each in stored}) == 3000

    def test_the_largest_message(self, both):
        with WireClient(both.address, timeout=60, tls=both.access.tls) as client:
            assert client.call(padded(wire.MAX_MESSAGE))["ok"] == has("large_padding")
            assert client.call(PING)["ok"] == 1


# Certificates of clients.

@pytest.fixture(scope="module")
def theirs(directory, certificates) -> dict[str, Issued | None]:
    """What clients show. Of those that are not good, the subject says what is wrong."""
    authority = certificates.authority
    return {
        "nothing": None,
        "good": authority.issue("CN=good,O=clients"),
        "unknown": Authority(directory, "another authority").issue("CN=unknown,O=clients"),
        "expired": authority.issue("CN=expired,O=clients", days=(-10, -1)),
        "revoked": authority.issue("CN=revoked,O=clients"),
    }


@pytest.fixture(scope="module", params=["none", "optional", "require"])
def asking(request, certificates, theirs, standalone) -> Iterator[SimpleNamespace]:
    """Who is revoked is in a list of its own, or in one behind the authority."""
    authority, revoked = certificates.authority, theirs["revoked"]
    files: dict[str, dict[str, str]] = {
        "none": {}, "optional": {"ca_file": str(authority.except_for(revoked))},
        "require": {"ca_file": str(authority.file), "crl_file": str(authority.revoked(revoked))}}
    listen = certificates.listen(client_certificate=request.param, **files[request.param])
    with Proxy(configuration(standalone, RULES, listen=listen),
               access=certificates.access) as proxy:
        yield SimpleNamespace(proxy=proxy, mode=request.param)


# Of whom the log has something to say, and what.
WRONG = {
    "none": {},
    "optional": {"unknown": "unknown CA", "revoked": "is revoked"},
    "require": {"nothing": "sent no certificate", "expired": "expired on", "revoked": "is revoked"},
}


def test_certificates_of_clients(asking, certificates, theirs):
    """none: nobody is asked for one. optional: who has none is welcome."""
    for what in ("good", "nothing", "unknown", "expired", "revoked"):
        shown = theirs[what]
        tls = Access(certificates.authority.file, shown and shown.file).tls
        if asking.mode == "none" or what == "good" or (what, asking.mode) == ("nothing", "optional"):
            assert ping(asking.proxy.address, tls), what
            continue
        with refusal(asking.proxy) as reason:
            assert not ping(asking.proxy.address, tls), what
        assert WRONG[asking.mode].get(what, "") in reason()
        assert not shown or shown.subject in reason()


# What is no TLS, or none that will do.

@pytest.fixture(scope="module")
def behind_tls(certificates, standalone) -> Iterator[Proxy]:
    with Proxy(configuration(standalone, RULES, listen=certificates.listen()),
               access=certificates.access) as proxy:
        yield proxy


class TestWhatIsNoTls:
    @pytest.mark.tsan
    def test_on_the_port_with_tls(self, behind_tls):
        with refusal(behind_tls) as reason, WireClient(behind_tls.address) as client:
            client.send(wire.command({"hello": 1, "$db": "admin"}))
            assert client.closed_by_peer()
        assert "no TLS, but a MongoDB message" in reason()

    def test_whoever_connects_and_leaves_is_not_worth_a_warning(self, behind_tls):
        """As a load balancer does, to see whether somebody is there."""
        before = len(behind_tls.find_events("tls_failed"))
        for _ in range(3):
            WireClient(behind_tls.address).close()
        assert ping(behind_tls.address, behind_tls.access.tls)
        assert len(behind_tls.find_events("tls_failed")) == before

    def test_tls_on_the_port_without(self, standalone, certificates, start_proxy):
        """A driver hears at once that this is not what it thinks."""
        proxy = start_proxy(configuration(standalone, RULES))
        with refusal(proxy, "tls_on_plain_port") as reason, pytest.raises(OSError):
            WireClient(proxy.address, tls=certificates.access.tls)
        assert "listen.tls.mode is off" in reason()
        assert ping(proxy.address)

    def test_a_message_after_the_clients_hello(self, standalone, certificates, start_proxy):
        """In the same segment: it is no part of TLS, and nothing of it reaches the server."""
        with FakeServer() as fake:
            asked = []
            fake.others["ping"] = lambda request: asked.append(request) or reply_to(
                request, {"ok": 1.0})
            proxy = start_proxy(configuration(fake, [], standalone, listen=certificates.listen()),
                                access=certificates.access)
            with WireClient(proxy.address) as client, refusal(proxy) as reason:
                client.send(client_hello(certificates.access.tls) + wire.command(PING))
                client.finish()
                assert client.closed_by_peer()
                assert reason()
            assert not asked


def port_of(proxy: Proxy) -> int:
    return int(proxy.address.rpartition(":")[2])


# The proxy's own certificate, towards clients.

class TestWhatClientsSee:
    def test_one_that_a_client_refuses(self, behind_tls, certificates, directory):
        """It says so, and the log names the certificate."""
        stranger = Access(Authority(directory, "stranger").file)
        with refusal(behind_tls) as reason, pytest.raises(ssl.SSLCertVerificationError):
            WireClient(behind_tls.address, tls=stranger.tls)
        assert f"refused our certificate '{certificates.proxy.subject}'" in reason()

    def test_the_operator_is_warned(self, certificates, standalone, start_proxy):
        """Of one that is not valid, or not for long. It is used all the same."""
        own = certificates.authority.issue("CN=warned.test", days=(-10, -1))
        proxy = start_proxy(configuration(standalone, RULES, listen=certificates.listen(
            certificate_key_file=str(own.file))))
        warnings = [e["message"] for e in proxy.find_events("config_warning")]
        assert [text for text in warnings if "CN=warned.test" in text and "expired" in text], warnings
        trusting = certificates.access.tls
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        assert ping(proxy.address, trusting)


# Servers.

def server_context(shown: Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.file)
    return context


def in_front_of(fake: FakeServer, standalone: Mongod, *options: str,
                host: str = "127.0.0.1", **more: Any) -> dict[str, Any]:
    """The configuration of a proxy that reaches this server with TLS by this name."""
    port = fake.address.rpartition(":")[2]
    return {"upstream": {"uri": OPEN.uri(f"{host}:{port}", "directConnection=true", "tls=true",
                                         *options)},
            "id_store": {"uri": f"mongodb://{standalone.address}"}, "rules": RULES, **more}


@pytest.fixture(scope="module")
def servers(directory, certificates) -> dict[str, Issued]:
    """What servers show."""
    authority = certificates.authority
    return {
        "good": certificates.servers,
        "expired": authority.issue("CN=old.test,O=servers", days=(-10, -1)),
        "wrong_name": authority.issue("CN=wrong.test,O=servers", hosts=["elsewhere.test"]),
    }


class TestServers:
    @pytest.mark.parametrize("what, says", [
        ("expired", "expired on"), ("wrong_name", "is not for '127.0.0.1'; it is for elsewhere.test")])
    def test_wrong_ones(self, certificates, standalone, servers, start_proxy, what, says):
        with FakeServer(tls=server_context(servers[what])) as fake:
            asked: list[Any] = []
            for name in ("hello", "ping"):
                fake.others[name] = lambda request: asked.append(request) or reply_to(request, {})
            proxy = start_proxy(in_front_of(
                fake, standalone, f"tlsCAFile={certificates.authority.file}"))
            assert not ping(proxy.address)
            reason = unreachable(proxy, fake)
            assert servers[what].subject in reason and says in reason
            assert not asked

    def test_without_a_look_at_the_certificate(self, standalone, servers, start_proxy):
        with FakeServer(tls=server_context(servers["expired"])) as fake:
            proxy = start_proxy(in_front_of(fake, standalone, "tlsAllowInvalidCertificates=true"))
            assert ping(proxy.address)
            assert proxy.find_events("config_warning")

    @pytest.mark.parametrize("what, served", [("wrong_name", True), ("expired", False)])
    def test_without_a_look_at_the_name(self, certificates, standalone, servers, start_proxy, what, served):
        with FakeServer(tls=server_context(servers[what])) as fake:
            proxy = start_proxy(in_front_of(
                fake, standalone, f"tlsCAFile={certificates.authority.file}",
                "tlsAllowInvalidHostnames=true"))
            assert ping(proxy.address) == served

    def test_revoked(self, certificates, standalone, servers, start_proxy):
        authority = certificates.authority
        options = [f"tlsCAFile={authority.file}", f"tlsCRLFile={authority.revoked(servers['good'])}"]
        for shown, expected in ((servers["good"], False), (authority.issue("CN=still.test"), True)):
            with FakeServer(tls=server_context(shown)) as fake:
                proxy = start_proxy(in_front_of(fake, standalone, *options))
                assert ping(proxy.address) == expected
                if not expected:
                    assert "is revoked" in unreachable(proxy, fake)

    def test_revoked_for_the_id_store(self, certificates, secure, start_proxy):
        """The same file serves libmongoc's connections."""
        authority = certificates.authority
        for revoked, ready in ((authority.issue("CN=another"), True),
                               (certificates.servers, False)):
            uri = certificates.access.uri(secure.address, f"tlsCRLFile={authority.revoked(revoked)}")
            proxy = start_proxy({
                "upstream": {"uri": certificates.access.uri(secure.address)},
                "id_store": {"uri": uri},
                "rules": [{"ns": "tls.*", "field": "n", "strategy": "counter"}]})
            with proxy.client() as client:
                if ready:
                    client.tls.lists.insert_one({})
                    continue
                with pytest.raises(PyMongoError):
                    client.tls.lists.insert_one({})

    def test_the_name_that_is_asked_for(self, certificates, standalone, servers, start_proxy):
        """It is the server's, whatever the client has asked for; none for an IP address."""
        anybody = certificates.access.tls
        anybody.check_hostname = False
        for host, names in (("localhost", {"localhost"}), ("127.0.0.1", {None})):
            with FakeServer(tls=server_context(servers["good"])) as fake:
                proxy = start_proxy(in_front_of(
                    fake, standalone, f"tlsCAFile={certificates.authority.file}", host=host,
                    listen=certificates.listen()), access=certificates.access)
                connection = socket.create_connection(("127.0.0.1", port_of(proxy)), 10)
                with anybody.wrap_socket(connection, server_hostname="client.test") as client:
                    client.sendall(wire.command(PING))
                    assert client.recv(65536)
                assert {*fake.server_names} == names

    def test_the_systems_authorities(self, certificates, standalone, servers, start_proxy):
        """Are trusted where no file is named. Ours is none of them."""
        with FakeServer(tls=server_context(servers["good"])) as fake:
            proxy = start_proxy(in_front_of(fake, standalone))
            assert not ping(proxy.address)
            assert "unknown CA" in unreachable(proxy, fake)
        with FakeServer(tls=server_context(servers["good"])) as fake:
            proxy = start_proxy(in_front_of(fake, standalone), environment={
                "SSL_CERT_FILE": str(certificates.authority.file)})
            assert ping(proxy.address)


class TestTheProxysOwnCertificate:
    """Towards servers."""

    @pytest.fixture
    def asks(self, certificates, servers) -> Iterator[FakeServer]:
        """A server that wants to see one."""
        context = server_context(servers["good"])
        context.load_verify_locations(certificates.authority.file)
        context.verify_mode = ssl.CERT_REQUIRED
        with FakeServer(tls=context) as fake:
            yield fake

    def start(self, start_proxy, asks, standalone, certificates, own: Issued, *more: str) -> Proxy:
        return start_proxy(in_front_of(
            asks, standalone, f"tlsCAFile={certificates.authority.file}",
            f"tlsCertificateKeyFile={own.file}", *more))

    def test_is_shown(self, start_proxy, asks, standalone, certificates):
        own = certificates.authority.issue("CN=server,OU=proxies,O=idproxy")
        assert ping(self.start(start_proxy, asks, standalone, certificates, own).address)

    def test_one_like_a_members(self, start_proxy, asks, standalone, certificates):
        """mongod would take the proxy for a member of the cluster."""
        own = certificates.authority.issue("CN=another,O=idproxy,OU=servers")
        proxy = self.start(start_proxy, asks, standalone, certificates, own)
        assert not ping(proxy.address)
        reason = unreachable(proxy, asks)
        assert own.subject in reason and certificates.servers.subject in reason
        assert "member" in reason

    def test_of_an_encrypted_key(self, start_proxy, asks, standalone, certificates):
        own = certificates.authority.issue("CN=proxy,O=idproxy", password="under-lock")
        proxy = self.start(start_proxy, asks, standalone, certificates, own,
                           "tlsCertificateKeyFilePassword=under-lock")
        assert ping(proxy.address)
        assert "under-lock" not in proxy.log()


# In mid-stream.

class TestInMidStream:
    @pytest.mark.tsan
    @pytest.mark.parametrize("side", ["plain", "tls"])
    def test_what_comes_while_a_server_takes_its_time(self, certificates, standalone, start_proxy, side):
        """A request that is there, all or so many bytes of it, before the server's handshake ends;
        the rest comes afterwards."""
        go_on = threading.Event()

        class Late(FakeServer):
            def _wrapped(self, *args: Any) -> ssl.SSLSocket:
                go_on.wait(20)
                return super()._wrapped(*args)

        with Late(tls=server_context(certificates.servers)) as fake:
            listen = {"listen": certificates.listen()} if side == "tls" else {}
            access = certificates.access if side == "tls" else OPEN
            proxy = start_proxy(in_front_of(
                fake, standalone, f"tlsCAFile={certificates.authority.file}", **listen),
                access=access)
            insert = wire.op_msg(wire.body({"insert": "c", "$db": "tls"}),
                                 wire.sequence("documents", [{"s": "x" * 1000}] * 200))
            begun = [0, 1, 20, 100_000, None]
            for message in (wire.command(PING), insert, padded(200_000)):
                for part in begun:
                    go_on.clear()
                    with WireClient(proxy.address, tls=access.tls) as client:
                        client.send(message[:part])
                        time.sleep(0.05)  # it may come at any time
                        go_on.set()
                        if part is not None:
                            time.sleep(0.05)
                            client.send(message[part:])
                        assert client.receive().body["ok"] == 1
                        assert client.call(PING)["ok"] == 1
            assert [len(each.documents) for each in fake.inserts] == [200] * len(begun)

    @pytest.mark.parametrize("ns, version", [("tls", TLS.TLSv1_2), ("plain", TLS.TLSv1_3)])
    def test_a_client_that_is_cut_off(self, certificates, standalone, start_proxy, version, ns):
        """A FIN without close_notify, within a message: of which the server gets nothing, if it was
        to be changed, and no whole in any case."""
        insert = wire.op_msg(wire.body({"insert": "c", "$db": ns}),
                             wire.sequence("documents", [{"s": "x" * 1000}] * 100))
        with FakeServer(tls=server_context(certificates.servers)) as fake:
            proxy = start_proxy(in_front_of(
                fake, standalone, f"tlsCAFile={certificates.authority.file}",
                listen=certificates.listen()), access=certificates.access)
            with WireClient(proxy.address, tls=of_version(version, certificates.access)) as client:
                assert client.call(PING)["ok"] == 1
                client.send(insert[:len(insert) // 2])
                socket.socket.shutdown(client.socket, socket.SHUT_WR)
                assert client.closed_by_peer()
            eventually(lambda: fake.connected <= 1, 10, "the server's side is closed")
            assert not fake.inserts

    def test_a_server_that_is_cut_off(self, certificates, standalone, start_proxy):
        """Within a reply."""
        with FakeServer(tls=server_context(certificates.servers)) as fake:
            fake.others["ping"] = lambda request: Last(
                reply_to(request, {"ok": 1.0, "s": "x" * 1000})[:500])
            proxy = start_proxy(in_front_of(
                fake, standalone, f"tlsCAFile={certificates.authority.file}",
                listen=certificates.listen()), access=certificates.access)
            with WireClient(proxy.address, tls=certificates.access.tls) as client:
                with pytest.raises(Closed):
                    client.call(PING)

    @pytest.mark.parametrize("part, version", [
        (5, TLS.TLSv1_2), (600, TLS.TLSv1_2), (1, TLS.TLSv1_3), (-1, TLS.TLSv1_3)])
    def test_half_a_record(self, behind_tls, version, part):
        """Nobody burns time over what is not there yet."""
        with ByHand.to(behind_tls.address, of_version(version, behind_tls.access)) as client:
            records = client.records(padded(2000))
            client.plain.sendall(records[:part])
            assert is_at_rest(behind_tls)
            client.plain.sendall(records[part:])
            assert b"\x01ok\0" in client.recv()

    @pytest.mark.parametrize("who", ["client", "server"])
    def test_whoever_does_not_read(self, certificates, secure, start_proxy, who):
        """Nobody burns time over what cannot be sent on."""
        with Middleman(secure.address) as cable:
            config = configuration(secure, [], secure, listen=certificates.listen())
            config["upstream"]["uri"] = certificates.access.uri(cable.address,
                                                                "directConnection=true")
            proxy = start_proxy(config, access=certificates.access)
            with WireClient(proxy.address, timeout=60, tls=certificates.access.tls) as client:
                if who == "server":
                    assert client.call(PING)["ok"] == 1
                    cable.pull()
                    client.socket.settimeout(1)
                    with contextlib.suppress(TimeoutError):
                        client.send(padded(wire.MAX_MESSAGE))
                else:
                    client.call(wire.op_msg(
                        wire.body({"insert": "unread", "$db": "plain"}),
                        wire.sequence("documents", [{"s": "x" * 15_000_000}] * 2)))
                    for _ in range(4):
                        client.send(wire.command({"find": "unread", "$db": "plain"}))
                    time.sleep(1)
                assert is_at_rest(proxy)


def is_at_rest(proxy: Proxy) -> bool:
    """Soon; a loop never is."""
    def rests() -> bool:
        before = proxy.processor_seconds()
        time.sleep(0.4)
        return proxy.processor_seconds() - before < 0.1
    return eventually(rests, 10, "nobody burns time")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS, ids=lambda v: v.name)
@pytest.mark.parametrize("direction", ["to_server", "to_client"])
@pytest.mark.parametrize("side", ["downstream", "upstream"])
def test_cut_at_every_byte(certificates, secure, start_proxy, coll, side, direction, version):
    """As test_cuts.py without TLS: in handshakes, within records, and between them. After each, an
    exchange that is not cut. Only the full run takes every byte."""
    access = Access(certificates.authority.file)
    documents = secure.client["tls"][coll]
    documents.create_index("run")
    with Middleman(secure.address) as upstream:
        config = configuration(secure, RULES, secure, listen=certificates.listen())
        config["upstream"]["uri"] = access.uri(upstream.address, "directConnection=true")
        proxy = start_proxy(config, access=access)
        with Middleman(proxy.address) as downstream:
            run = 0

            def exchange() -> int:
                nonlocal run
                run += 1
                replies = 0
                try:
                    with WireClient(downstream.address, timeout=20,
                                    tls=of_version(version, access)) as client:
                        for command in (
                                {"hello": 1, "$db": "admin"},
                                {"insert": coll, "documents": [{"run": run}], "$db": "tls"},
                                {"find": coll, "filter": {"run": run}, "$db": "tls"}):
                            assert client.call(command)["ok"] == 1
                            replies += 1
                except (Closed, ConnectionError, ssl.SSLError):
                    pass
                return replies

            relay = downstream if side == "downstream" else upstream
            before = proxy.descriptors_at_rest()
            assert exchange() == 3
            eventually(lambda: relay.last().over)
            proxy.await_descriptors(before)
            whole = len(relay.last().passed[direction])
            dense = range(0, 10)
            sparse = range(10, whole, 1 if FULL else 41)
            acknowledged = {run}

            def exchange_to_be_cut() -> None:
                if exchange() >= 2:
                    acknowledged.add(run)

            def exchange_again() -> bool:
                """After a lost server the proxy waits a moment before it tries again."""
                if whole_exchange := exchange() == 3:
                    acknowledged.add(run)
                return whole_exchange

            for after in [*dense, *sparse, whole - 1]:
                cut = CutAt(direction, after, ["fin", "rst"][after % 2])
                relay.cut_one(cut, exchange_to_be_cut)
                # The proxy's own hello may have come first.
                eventually(lambda: relay.last().over and downstream.last().over, 10,
                           f"both peers are closed after {cut}")
                eventually(lambda: proxy.descriptors() <= before, 10, f"nothing is left of {cut}")
                eventually(exchange_again, 30, f"the server is there again after {cut}")
    stored = [d["run"] for d in documents.find({}, {"run": 1})]
    assert len(stored) == len({*stored}) and acknowledged <= {*stored}


# New certificates.

def replace(path: pathlib.Path, issued: pathlib.Path) -> None:
    """As those who renew certificates do: there is never half of one."""
    copy = path.with_suffix(".new")
    shutil.copy(issued, copy)
    copy.replace(path)


def reload(proxy: Proxy, event: str) -> dict[str, Any]:
    """Has it read everything again; waits for the log to say what came of it."""
    before = len(proxy.find_events(event))
    proxy.process.send_signal(signal.SIGHUP)
    return eventually(lambda: proxy.find_events(event)[before:], 20, event)[0]


def serial_of(address: str, tls: ssl.SSLContext) -> int:
    with WireClient(address, tls=tls) as client:
        assert client.call(PING)["ok"] == 1
        return int(client.socket.getpeercert()["serialNumber"], 16)


class Load(Threads):
    """Drivers that insert for as long as the context lasts, each with connections that live on and,
    all the time, with new ones."""

    def __init__(self, proxy: Proxy, coll: str):
        self._proxy, self._coll = proxy, coll
        self.done = 0
        super().__init__(self._insert, self._insert, self._connect)

    def _insert(self) -> None:
        with self._proxy.client(retryWrites=False) as client:
            while not self.over.is_set():
                client["tls"][self._coll].insert_one({"k": self.done})
                self.done += 1

    def _connect(self) -> None:
        while not self.over.is_set():
            assert ping(self._proxy.address, self._proxy.access.tls)

    def await_progress(self) -> None:
        done = self.done
        eventually(lambda: self.failures or self.done > done + 20, 30, "the load goes on")
        assert not self.failures, self.failures


class TestRenewed:
    @pytest.fixture
    def own(self, certificates, tmp_path) -> pathlib.Path:
        """The file that the proxy's configuration names."""
        path = tmp_path / "own.pem"
        shutil.copy(certificates.proxy.file, path)
        return path

    @pytest.mark.tsan
    def test_under_load(self, certificates, standalone, start_proxy, own, coll):
        """New connections see the new one; old ones live on, and nobody notices."""
        proxy = start_proxy(configuration(standalone, RULES, listen=certificates.listen(
            certificate_key_file=str(own))), access=certificates.access)
        tls = certificates.access.tls
        with contextlib.ExitStack() as stack:
            old = [stack.enter_context(WireClient(proxy.address, tls=tls)) for _ in range(5)]
            load = stack.enter_context(Load(proxy, coll))
            load.await_progress()
            assert serial_of(proxy.address, tls) == certificates.proxy.serial
            for _ in range(5):
                renewed = certificates.authority.issue("CN=proxy,O=idproxy")
                replace(own, renewed.file)
                assert serial_of(proxy.address, tls) != renewed.serial
                reload(proxy, "reloaded")
                assert serial_of(proxy.address, tls) == renewed.serial
                load.await_progress()
                assert all(client.call(PING)["ok"] == 1 for client in old)

    BROKEN = {
        "gone": lambda path, more: path.unlink(),
        "empty": lambda path, more: path.write_text(""),
        "half": lambda path, more: path.write_bytes(path.read_bytes()[:300]),
        "without_key": lambda path, more: path.write_bytes(
            b"-----BEGIN CERTIFICATE" + path.read_bytes().partition(b"-----BEGIN CERTIFICATE")[2]),
        "of_another_key": lambda path, more: path.write_bytes(
            more.file.read_bytes().partition(b"-----BEGIN CERTIFICATE")[0] +
            b"-----BEGIN CERTIFICATE" + path.read_bytes().partition(b"-----BEGIN CERTIFICATE")[2]),
        "for_everybody_to_read": lambda path, more: path.chmod(0o644),
    }

    @pytest.mark.parametrize("how", BROKEN)
    def test_broken(self, certificates, standalone, start_proxy, own, coll, how):
        """The old one stays; once it is mended, the new one is taken."""
        proxy = start_proxy(configuration(standalone, RULES, listen=certificates.listen(
            certificate_key_file=str(own))), access=certificates.access)
        tls = certificates.access.tls
        with Load(proxy, coll) as load:
            load.await_progress()
            self.BROKEN[how](own, certificates.servers)
            failed = reload(proxy, "reload_failed")
            assert "certificate_key_file" in str(failed) + str(proxy.find_events("config_error"))
            assert serial_of(proxy.address, tls) == certificates.proxy.serial
            load.await_progress()
            renewed = certificates.authority.issue("CN=proxy,O=idproxy")
            own.unlink(missing_ok=True)
            replace(own, renewed.file)
            reload(proxy, "reloaded")
            assert serial_of(proxy.address, tls) == renewed.serial

    def test_what_is_trusted(self, certificates, standalone, start_proxy, theirs, tmp_path):
        """Of clients: one that is revoked is let in no more, but not thrown out."""
        trusted = tmp_path / "trusted.pem"
        shutil.copy(certificates.authority.file, trusted)
        proxy = start_proxy(configuration(standalone, RULES, listen=certificates.listen(
            client_certificate="require", ca_file=str(trusted))), access=certificates.access)
        good, revoked = (Access(certificates.authority.file, theirs[name].file).tls
                         for name in ("good", "revoked"))
        with WireClient(proxy.address, tls=revoked) as client:
            assert client.call(PING)["ok"] == 1
            replace(trusted, certificates.authority.except_for(theirs["revoked"]))
            reload(proxy, "reloaded")
            assert client.call(PING)["ok"] == 1
            assert ping(proxy.address, good) and not ping(proxy.address, revoked)

    def test_what_is_trusted_of_servers(self, certificates, secure, standalone, directory,
                                        start_proxy, tmp_path):
        """The files that upstream.uri names are read again too."""
        trusted = tmp_path / "trusted.pem"
        shutil.copy(Authority(directory, "not theirs").file, trusted)
        proxy = start_proxy({
            "upstream": {"uri": Access(trusted).uri(secure.address)}, "rules": [],
            "id_store": {"uri": f"mongodb://{standalone.address}"}})
        assert not ping(proxy.address)
        replace(trusted, certificates.authority.file)
        reload(proxy, "reloaded")
        eventually(lambda: ping(proxy.address), 20, "the server is trusted")
        with WireClient(proxy.address) as client:
            assert client.call(PING)["ok"] == 1
            replace(trusted, Authority(directory, "not theirs either").file)
            reload(proxy, "reloaded")
            assert client.call(PING)["ok"] == 1
            assert not ping(proxy.address)
