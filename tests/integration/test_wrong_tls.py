"""TLS towards real servers that want something else than the configuration gives: they close without
a word, and the log, /readyz and the metrics have to say what is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from support.access import Access
from support.admin import LISTEN, Admin
from support.mongod import Mongod
from support.process import eventually
from support.secured import Certificates
from support.wire import Closed, WireClient

PING = {"ping": 1, "$db": "admin"}
RULES = [{"ns": "tls.*", "field": "n", "strategy": "uuid"}]


def is_served(client: WireClient) -> bool:
    """It is closed, or told why if there is not even a connection to the server."""
    try:
        reply = client.call(PING)
    except Closed:
        return False
    assert reply["ok"] == 1 or "TLS: " in reply["errmsg"]
    return reply["ok"] == 1


@pytest.fixture(scope="module")
def demanding(certificates: Certificates) -> Iterator[Mongod]:
    """A server whose clients have to show a certificate."""
    options = [each for each in certificates.options
               if each != "--tlsAllowConnectionsWithoutCertificates"]
    access = dataclasses.replace(certificates.access, certificate=certificates.proxy.file)
    with Mongod(options=options, access=access) as mongod:
        yield mongod


@pytest.fixture
def behind(certificates: Certificates, standalone: Mongod, start_proxy):
    """Starts a proxy that reaches this server so; what the operator gets to see."""
    def start(server: Mongod, access: Access) -> SimpleNamespace:
        proxy = start_proxy({
            "upstream": {"uri": access.uri(server.address, "directConnection=true")},
            "id_store": {"uri": standalone.uri}, "admin": LISTEN, "rules": RULES})
        admin = Admin(proxy)
        event = proxy.wait_event("upstream_unreachable", server=server.address)
        assert event["level"] == "error"
        with WireClient(proxy.address) as client:
            assert not is_served(client)
        # A connection can be made, but it leads nowhere.
        assert admin.metrics()("idproxy_listener_up") == 0
        assert f"-> {server.address}: server down" in admin.get("/readyz").text
        return SimpleNamespace(proxy=proxy, admin=admin, reason=event["reason"])
    return start


def test_the_server_wants_tls(behind, certificates):
    with Mongod(options=certificates.options, access=certificates.access) as server:
        assert "or require TLS (tls=true in upstream.uri)" in behind(server, Access()).reason


def test_the_server_wants_a_certificate(behind, certificates, demanding):
    seen = behind(demanding, certificates.access)
    assert "that have no certificate: none is set" in seen.reason


def test_the_server_wants_another_certificate(behind, certificates, demanding, tmp_path):
    stranger = Certificates.make(tmp_path).proxy
    seen = behind(demanding, dataclasses.replace(certificates.access, certificate=stranger.file))
    assert "whose certificate it refuses: ours is 'CN=proxy,OU=proxies,O=idproxy'" in seen.reason


def test_the_server_has_no_tls(behind, certificates, standalone):
    assert "at the first bytes of TLS" in behind(standalone, certificates.access).reason


def test_it_is_up_when_it_answers(certificates, demanding, standalone, start_proxy):
    proxy = start_proxy({
        "upstream": {"uri": demanding.access.uri(demanding.address, "directConnection=true")},
        "id_store": {"uri": standalone.uri}, "admin": LISTEN, "rules": RULES})
    admin = Admin(proxy)
    with WireClient(proxy.address) as client:
        assert client.call(PING)["ok"] == 1
    eventually(lambda: admin.metrics()("idproxy_listener_up") == 1)
    assert not proxy.find_events("upstream_unreachable")
