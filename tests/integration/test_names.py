"""How servers are found: host names whose addresses change, SRV records, IPv6, and ourselves.

Host names are those of the proxy's own /etc/hosts and DNS, in file systems of its own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest

from support import names, wire
from support.admin import LISTEN, Admin
from support.fake_server import HELLO, FakeServer, reply_to
from support.hello import node
from support.mongod import Mongod
from support.names import DnsServer, OwnNames
from support.process import eventually, free_ports, has_ipv6
from support.proxy import Proxy, ProxyFailure, binary
from support.replica_set import ReplicaSet

PING = {"ping": 1, "$db": "admin"}

own_names = pytest.mark.skipif(
    not names.permitted(), reason="mounting, in a process's own file systems, is not permitted")
own_dns = pytest.mark.skipif(
    not names.dns_permitted(), reason="serving port 53, or mounting, is not permitted")


@pytest.fixture
def start(standalone: Mongod, start_proxy: Callable[..., Proxy]) -> Callable[..., Proxy]:
    def start_one(uri: str, listen: dict[str, Any] = {}, upstream: dict[str, Any] = {},
                  **options: Any) -> Proxy:
        return start_proxy({
            "listen": {"address": "127.0.0.1", "port": 0, **listen},
            "upstream": {"uri": uri, **upstream}, "rules": [],
            "id_store": {"uri": f"mongodb://{standalone.address}"}}, **options)
    return start_one


def answering(name: str, server: FakeServer) -> FakeServer:
    server.others["ping"] = lambda request: reply_to(request, {"who": name, "ok": 1.0})
    return server


def who(address: str) -> str | None:
    """Which server a new client gets, or nothing if it gets none."""
    with wire.WireClient(address) as client:
        try:
            return client.call(PING).get("who")
        except wire.Closed:
            return None


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[FakeServer, FakeServer]]:
    """"a" and "b", at one port of two addresses."""
    port = free_ports(1, "127.0.0.1", "127.0.0.2")[0]
    with FakeServer("127.0.0.1", port) as a, FakeServer("127.0.0.2", port) as b:
        yield answering("a", a), answering("b", b)


@pytest.fixture
def hosts() -> Iterator[OwnNames]:
    with OwnNames() as running:
        yield running


@own_names
class TestHostNames:
    def test_asked_again_on_each_connection(self, two, hosts, start):
        port = two[0].address.rpartition(":")[2]
        hosts.set({"db.test": "127.0.0.1"})
        proxy = start(f"mongodb://db.test:{port}", within=hosts.command)
        assert who(proxy.address) == "a"
        with wire.WireClient(proxy.address) as before:
            assert before.call(PING)["who"] == "a"
            for address, name in [("127.0.0.2", "b"), ("127.0.0.1", "a"), ("127.0.0.2", "b")]:
                hosts.set({"db.test": address})
                assert who(proxy.address) == name
            assert before.call(PING)["who"] == "a"  # what is connected stays so

    def test_a_name_that_is_not_known_yet(self, two, hosts, start):
        port = two[0].address.rpartition(":")[2]
        proxy = start(f"mongodb://db.test:{port}", within=hosts.command)
        assert who(proxy.address) is None
        assert proxy.wait_event("upstream_unreachable")["server"] == f"db.test:{port}"
        hosts.set({"db.test": "127.0.0.2"})
        eventually(lambda: who(proxy.address) == "b", 15, "the name is asked for again")
        hosts.set({})
        assert who(proxy.address) is None
        hosts.set({"db.test": "127.0.0.1"})
        eventually(lambda: who(proxy.address) == "a", 15, "the name is asked for again")

    @pytest.mark.parametrize("silent", ["127.0.0.2", "127.0.0.3"])
    def test_an_address_that_says_nothing(self, hosts, start, silent):
        """As behind a firewall: the other one is tried while it is waited for. Whichever the
        resolver has first."""
        port = free_ports(1, "127.0.0.2", "127.0.0.3")[0]
        speaks = {"127.0.0.2": "127.0.0.3", "127.0.0.3": "127.0.0.2"}[silent]
        with answering("a", FakeServer(speaks, port)), names.silent(silent, port):
            hosts.set_all([("db.test", "127.0.0.2"), ("db.test", "127.0.0.3")])
            proxy = start(f"mongodb://db.test:{port}", upstream={"connect_timeout": "60s"},
                          within=hosts.command)
            proxy.wait_event("ready")
            for _ in range(3):
                assert who(proxy.address) == "a"
            rest = proxy.descriptors()
            for _ in range(3):
                assert who(proxy.address) == "a"
            proxy.await_descriptors(rest)
            assert not proxy.find_events("upstream_unreachable")

    def test_names_in_a_set(self, hosts, start, standalone):
        """They need not mean anything to the clients."""
        port = free_ports(1, "127.0.0.1", "127.0.0.2")[0]
        with FakeServer("127.0.0.1", port) as first, FakeServer("127.0.0.2", port) as second:
            for server, me in ((first, "one.test"), (second, "two.test")):
                says = {**HELLO, "hosts": [f"one.test:{port}", f"TWO.test:{port}"],
                        "setName": "named", "setVersion": 1, "me": f"{me}:{port}",
                        "primary": f"One.test:{port}", "isWritablePrimary": me == "one.test",
                        "ismaster": me == "one.test", "secondary": me != "one.test"}
                server.others["hello"] = lambda r, says=says: reply_to(r, says)
                server.others["isMaster"] = server.others["hello"]
            hosts.set({"one.test": "127.0.0.1", "two.test": "127.0.0.2"})
            proxy = start(f"mongodb://one.test:{port}", within=hosts.command)
            with wire.WireClient(proxy.address) as client:
                says = client.call({"hello": 1, "$db": "admin"})
            other = proxy.listener_of(f"two.test:{port}")
            assert says["hosts"] == [proxy.address, other]
            assert says["primary"] == says["me"] == proxy.address
            with wire.WireClient(other) as client:
                assert client.call({"hello": 1, "$db": "admin"})["me"] == other

    def test_one_that_leads_to_ourselves(self, hosts, start):
        """Refused when it is looked up: the client is closed, and nothing goes round in circles."""
        port = free_ports(1)[0]
        hosts.set({"self.test": "127.0.0.1"})
        proxy = start(f"mongodb://self.test:{port}", {"port": port}, within=hosts.command)
        with wire.WireClient(proxy.address) as client:
            assert client.closed_by_peer()
        event = proxy.wait_event("upstream_is_this_proxy")
        assert event["server"] == f"self.test:{port}"
        rest = proxy.descriptors()
        for _ in range(3):  # longer and longer
            assert who(proxy.address) is None
        proxy.await_descriptors(rest)
        # Another one takes the name over.
        with answering("c", FakeServer("127.0.0.2", port)):
            hosts.set({"self.test": "127.0.0.2"})
            eventually(lambda: who(proxy.address) == "c", 15)


    def test_a_member_that_leads_to_ourselves(self, hosts, start):
        """It is none of the set: a listener for it would be one for ourselves."""
        ports = free_ports(2)
        hosts.set({"self.test": "127.0.0.1"})
        with FakeServer() as server:
            says = {**HELLO, "hosts": [server.address, f"self.test:{ports[0]}"],
                    "setName": "loop", "setVersion": 1, "secondary": False,
                    "me": server.address, "primary": server.address}
            for name in ("hello", "isMaster"):
                server.others[name] = lambda r: reply_to(r, says)
            proxy = start(f"mongodb://{server.address}", {"port": ports[0]}, within=hosts.command)
            proxy.wait_event("upstream_is_this_proxy", server=f"self.test:{ports[0]}")

            def told() -> list[str]:
                with wire.WireClient(proxy.address) as client:
                    return client.call({"hello": 1, "$db": "admin"})["hosts"]
            eventually(lambda: told() == [proxy.address], 10, "it is left out")


def test_localhost_may_be_ourselves(standalone, tmp_path):
    """Refused at the start, or when it is looked up."""
    port = free_ports(1)[0]
    config = {"listen": {"address": "127.0.0.1", "port": port},
              "upstream": {"uri": f"mongodb://localhost:{port}"}, "rules": [],
              "id_store": {"uri": f"mongodb://{standalone.address}"}}
    try:
        with Proxy(config) as proxy, wire.WireClient(proxy.address) as client:
            assert client.closed_by_peer()
            proxy.wait_event("upstream_is_this_proxy")
    except ProxyFailure as failure:
        assert "localhost" in str(failure) and "not ready" in str(failure)


@pytest.mark.parametrize("listen", ["127.0.0.1", "0.0.0.0", "::1", "'::'"])
def test_an_address_of_ourselves_is_an_error(tmp_path, listen):
    literal = "[::1]" if ":" in listen else "127.0.0.1"
    config = tmp_path / "config.yaml"
    config.write_text(f"listen: {{address: {listen}, port: 27999, advertise: 127.0.0.1}}\n"
                      f'upstream: {{uri: "mongodb://127.0.0.2:1,{literal}:27999"}}\nrules: []\n')
    for arguments in (["--check-config"], []):
        result = subprocess.run([binary(), "--config", str(config), *arguments],
                                capture_output=True, text=True, timeout=30)
        assert result.returncode == 78, result.stdout + result.stderr
        assert "27999" in result.stdout + result.stderr


def test_a_set_that_names_our_listener(start):
    """Its name stays in replies, as it is what clients are to use; no listener is made for it."""
    ports = free_ports(3)
    ours = f"127.0.0.1:{ports[0]}"
    with FakeServer() as server:
        other = "127.0.0.1:9"
        says = {**HELLO, "hosts": [other, ours], "setName": "loop", "setVersion": 1,
                "secondary": False, "me": ours, "primary": ours}
        for name in ("hello", "isMaster"):
            server.others[name] = lambda r: reply_to(r, says)
        proxy = start(f"mongodb://{server.address}", {"port": ports[0], "members": {
            other: ports[1]}})
        with wire.WireClient(proxy.address) as client:
            reply = client.call({"hello": 1, "$db": "admin"})
            assert reply["hosts"] == [f"127.0.0.1:{ports[1]}", ours]
            assert reply["me"] == reply["primary"] == ours
        proxy.wait_event("member_joined", server=other)
        assert len(proxy.find_events("member_joined")) == 1


# DNS.

@own_dns
class TestDns:
    @pytest.fixture
    def dns(self) -> Iterator[DnsServer]:
        with DnsServer() as running:
            yield running

    @pytest.fixture
    def resolving(self, dns: DnsServer) -> Iterator[OwnNames]:
        with OwnNames(dns.address) as running:
            yield running

    def test_a_name_with_many_addresses(self, two, dns, resolving, start):
        """All are tried, and dead ones passed over."""
        _, b = two
        port = b.address.rpartition(":")[2]
        dead = ["127.0.0.5", "127.0.0.6", "127.0.0.7"]
        for records in (dead[:2] + ["127.0.0.2"], ["127.0.0.2"] + dead, dead + ["127.0.0.2"]):
            dns.records = [f"db.test. 0 A {address}" for address in records]
            proxy = start(f"mongodb://db.test:{port}", within=resolving.command)
            assert [who(proxy.address) for _ in range(5)] == ["b"] * 5

    def test_of_both_families(self, two, dns, resolving, start):
        """Nobody listens at ::1."""
        port = two[0].address.rpartition(":")[2]
        dns.records = ["db.test. 0 AAAA ::1", "db.test. 0 A 127.0.0.1"]
        proxy = start(f"mongodb://db.test:{port}", within=resolving.command)
        assert [who(proxy.address) for _ in range(5)] == ["a"] * 5

    def test_a_server_that_fails_at_first(self, two, dns, resolving, start):
        port = two[0].address.rpartition(":")[2]
        dns.records, dns.broken = ["db.test. 0 A 127.0.0.1"], True
        proxy = start(f"mongodb://db.test:{port}", within=resolving.command)
        assert who(proxy.address) is None
        dns.broken = False
        eventually(lambda: who(proxy.address) == "a", 15)
        dns.broken = True
        # A question that was answered before may still be on its way, and serves all who ask.
        eventually(lambda: who(proxy.address) is None, 15)
        dns.broken = False
        eventually(lambda: who(proxy.address) == "a", 15)


SRV = "mongodb+srv://set.proxied.test/?tls=false"


@own_dns
class TestSrv:
    @pytest.fixture
    def dns(self) -> Iterator[DnsServer]:
        with DnsServer() as running:
            yield running

    @pytest.fixture
    def resolving(self, dns: DnsServer) -> Iterator[OwnNames]:
        with OwnNames(dns.address) as running:
            yield running

    @staticmethod
    def records(*ports: int, txt: str = "") -> list[str]:
        return [*(f"_mongodb._tcp.set.proxied.test. 0 SRV 0 0 {port} m{i}.proxied.test."
                  for i, port in enumerate(ports)),
                *(f"m{i}.proxied.test. 0 A 127.0.0.1" for i in range(len(ports))),
                *([f'set.proxied.test. 0 TXT "{txt}"'] if txt else [])]

    def test_each_host_of_it_has_a_listener(self, dns, resolving, start):
        with FakeServer() as a, FakeServer() as b:
            answering("a", a), answering("b", b)
            ports = [int(s.address.rpartition(":")[2]) for s in (a, b)]
            dns.records = self.records(*ports)
            listen = free_ports(2)
            proxy = start(SRV, {"port": listen[0]}, within=resolving.command)
            assert {address for address, _ in proxy.listeners} == {
                f"127.0.0.1:{port}" for port in listen}
            assert {server for _, server in proxy.listeners} == {
                f"m{i}.proxied.test:{port}" for i, port in enumerate(ports)}
            assert sorted(who(address) for address, _ in proxy.listeners) == ["a", "b"]

    def test_a_replica_set(self, replica_set, dns, resolving, start):
        """The names of the records are not those of the set. TXT has the set's name."""
        dns.records = self.records(replica_set.port, txt="replicaSet=rs0")
        proxy = start(SRV, within=resolving.command)
        with proxy.set_client("rs0") as client:
            client["shop"]["srv"].replace_one({"_id": 1}, {"_id": 1}, upsert=True)
            assert client.nodes == {node(proxy.address)}
        assert not proxy.find_events("set_name_differs")
        assert not proxy.find_events("member_joined")

    def test_options_of_the_txt_record(self, replica_set, dns, resolving, start):
        dns.records = self.records(replica_set.port, txt="replicaSet=another")
        proxy = start(SRV, within=resolving.command)
        assert proxy.wait_event("set_name_differs")["expected"] == "another"

    def test_the_store_is_found_as_well(self, replica_set, dns, resolving, start_proxy):
        """Without a string of its own it follows the same records."""
        dns.records = self.records(replica_set.port, txt="replicaSet=rs0")
        replica_set.client.drop_database("srv")
        proxy = start_proxy({
            "upstream": {"uri": SRV}, "id_store": {"db": "idproxy_srv"},
            "rules": [{"ns": "srv.c", "field": "_id", "strategy": "counter"}]},
            within=resolving.command)
        with proxy.set_client("rs0") as client:
            def inserted() -> bool:
                try:
                    with wire.WireClient(proxy.address) as raw:
                        return raw.call({"insert": "c", "documents": [{"k": 1}], "$db": "srv"}).get(
                            "n") == 1
                except wire.Closed:
                    return False
            eventually(inserted, 20, "an id from the store")
            assert client["srv"]["c"].find_one()["_id"] == 1
        proxy.stop()
        replica_set.client.drop_database("srv")
        replica_set.client.drop_database("idproxy_srv")

    @pytest.mark.parametrize("trouble", ["servfail", "no_records"])
    def test_records_that_come_later(self, replica_set, dns, resolving, standalone, trouble):
        """It is asked again for ever, and whoever wants to stop it can."""
        dns.broken = trouble == "servfail"
        proxy = starting(standalone, resolving)
        try:
            failed = proxy.wait_event("srv_lookup_failed", timeout=20)
            assert failed["level"] in ("warning", "error")
            dns.records, dns.broken = self.records(replica_set.port), False
            proxy.wait_event("ready", timeout=20)
            address = proxy.wait_event("listening")["address"]
            with pymongo.MongoClient(f"mongodb://{address}/?replicaSet=rs0") as client:
                assert client.admin.command("ping")["ok"] == 1
        except BaseException:
            proxy.kill()
            raise
        proxy.stop()

    def test_it_can_be_stopped_while_it_asks(self, dns, resolving, standalone):
        dns.broken = True
        proxy = starting(standalone, resolving)
        try:
            proxy.wait_event("srv_lookup_failed", timeout=20)
        except BaseException:
            proxy.kill()
            raise
        proxy.stop(timeout=20)

    def test_the_pages_are_there_while_it_asks(self, dns, resolving, standalone):
        """Operators see that it lives, and that no client is to be sent here."""
        dns.broken = True
        proxy = starting(standalone, resolving, admin=LISTEN)
        try:
            admin = Admin(proxy)
            ready = admin.get("/readyz")
            assert (ready.status, ready.text) == (503, "starting\n")
            assert admin.get("/livez").status == 200
            assert "idproxy_log_lines_dropped_total" in admin.metrics().text
            assert "idproxy_listener_up" not in admin.metrics().text
        finally:
            proxy.kill()

    @pytest.mark.parametrize("target", ["m0.elsewhere.test.", "proxied.test."])
    def test_a_target_in_another_domain(self, dns, resolving, standalone, target):
        """Who forges such a record is not to lead us away (Initial DNS Seedlist Discovery)."""
        dns.records = [f"_mongodb._tcp.set.proxied.test. 0 SRV 0 0 27017 {target}",
                       f"{target} 0 A 127.0.0.1"]
        proxy = starting(standalone, resolving)
        try:
            proxy.wait_event("srv_lookup_failed", timeout=20)
            assert not proxy.find_events("listening")
        except BaseException:
            proxy.kill()
            raise
        proxy.stop(timeout=20)

    @pytest.mark.parametrize("target", [r"evil.test\,m0.proxied.test.",
                                        "evil.test/?tls=false&appname=.proxied.test."])
    def test_a_target_that_would_be_more_than_a_host(self, dns, resolving, standalone, target):
        """Within the domain, it names one outside of it, or takes TLS away."""
        dns.records = [f"_mongodb._tcp.set.proxied.test. 0 SRV 0 0 27017 {target}"]
        proxy = starting(standalone, resolving)
        try:
            reason = proxy.wait_event("srv_lookup_failed", timeout=20)["reason"]
            assert "evil.test" in reason and "no host name" in reason
            assert not proxy.find_events("listening")
        except BaseException:
            proxy.kill()
            raise
        proxy.stop(timeout=20)

    def test_a_fault_of_the_file_that_the_records_show(self, dns, resolving, tmp_path):
        """The second of two servers gets the port behind the first one's."""
        dns.records = self.records(1, 2)
        first, second = free_ports(2)
        config = tmp_path / "config.yaml"
        config.write_text(json.dumps({"upstream": {"uri": SRV}, "listen": {"port": first}, "rules": [],
                                      "admin": {"listen": f"127.0.0.1:{second}"}}))
        done = subprocess.run([*resolving.command, binary(), "doctor", "--json", "--config", config],
                              capture_output=True, text=True, timeout=60)
        found = {each["id"]: each["text"] for each in json.loads(done.stdout)["findings"]}
        assert "admin.listen" in found["config-error"]
        assert "server-name-unknown" not in found, "its name is known"

    def test_tls_is_what_it_means_otherwise(self, tmp_path):
        config = tmp_path / "config.yaml"
        for options, said in (("?tlsCAFile=/missing.pem", "tlsCAFile: No such file"),
                              ("?tls=false&tlsCAFile=/missing.pem", "no effect")):
            config.write_text(f'upstream: {{uri: "mongodb+srv://set.proxied.test/{options}"}}\n'
                              "rules: []\n")
            result = subprocess.run([binary(), "--config", str(config), "--check-config"],
                                    capture_output=True, text=True, timeout=30)
            assert said in result.stdout + result.stderr


def starting(store: Mongod, resolving: OwnNames, **more: Any) -> Proxy:
    """A proxy that cannot be ready yet. more: of its configuration."""
    return Proxy({"upstream": {"uri": SRV}, "rules": [], **more,
                  "id_store": {"uri": f"mongodb://{store.address}"}},
                 within=resolving.command, await_ready=False)


# IPv6.

@pytest.mark.skipif(not has_ipv6(), reason="this host has no IPv6")
def test_a_set_of_ipv6_addresses(start):
    with ReplicaSet("six", [{"priority": 5}, {}], host="::1") as members:
        first, second = members.members
        port = free_ports(2, "::1", "127.0.0.1")[0]  # no store has it on any loopback
        proxy = start(f"mongodb://{first.address}", {"address": "::1", "port": port})
        addresses = [f"[::1]:{port}", f"[::1]:{port + 1}"]
        assert proxy.address == addresses[0]
        with proxy.set_client("six") as client:
            eventually(lambda: client.nodes == {("::1", port), ("::1", port + 1)}, 20)
            client["shop"]["six"].insert_one({"_id": 1})
            assert client.primary == ("::1", port)
        for address in addresses:
            with wire.WireClient(address) as client:
                says = client.call({"hello": 1, "$db": "admin"})
                assert (says["me"], says["hosts"], says["primary"]) == (
                    address, addresses, addresses[0])
        # Clients of IPv4 for a set of IPv6, pinned under the name of the set.
        mine, pinned = free_ports(2, "127.0.0.1", "::1")
        other = start(f"mongodb://{second.address}",
                      {"port": mine, "members": {first.address: pinned}})
        with other.set_client("six") as client:
            eventually(lambda: len(client.nodes) == 2, 20)
            assert client.primary == ("127.0.0.1", pinned)
            client["shop"]["six"].insert_one({"_id": 2})
