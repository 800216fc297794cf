"""Which listener stands for which member of a replica set, as members come, go, move and die.

A driver is told the first listener's address and the set's name, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest
from pymongo import WriteConcern
from pymongo.errors import PyMongoError
from pymongo.read_preferences import SecondaryPreferred

from support import wire
from support.access import OPEN
from support.hello import node
from support.mongod import Mongod
from support.process import eventually, free_ports
from support.proxy import Proxy, binary, configuration
from support.replica_set import ARBITER, HIDDEN, ReplicaSet
from support.secured import Certificates, SecuredSet
from support.servers import has
from support.threads import Threads

HELLO = {"hello": 1, "$db": "admin"}
# What connects anew where members have TLS and users, drivers/test_secured_set.py shows each time.
SECURED = pytest.mark.secured(full=True)


@pytest.fixture(scope="module")
def members(secured: Certificates | None) -> Iterator[ReplicaSet]:
    """Tests leave it with the same three members, all of them up."""
    kinds = [{"priority": 5}, {}, {}]
    with SecuredSet(secured, "topo", kinds) if secured else ReplicaSet("topo", kinds) as running:
        yield running


@pytest.fixture
def start(secured: Certificates | None, members: ReplicaSet, standalone: Mongod,
          start_proxy: Callable[..., Proxy]) -> Callable[..., Proxy]:
    """start("host:port,host:port", …): a proxy in front of these servers."""
    open_listen = {"address": "127.0.0.1", "port": 0}

    def start_one(hosts: str, listen: dict[str, Any] = {}, *options: str, **upstream: Any) -> Proxy:
        access = secured.access if secured else OPEN
        store = (members.store_access.uri(members.address) if secured
                 else f"mongodb://{standalone.address}")
        return start_proxy({
            "listen": {**(secured.listen() if secured else open_listen), **listen},
            "upstream": {"uri": access.uri(hosts, *options), **upstream},
            "id_store": {"uri": store}, "rules": []}, access=members.app_access)
    return start_one


def nodes(*addresses: str) -> set[tuple[str, int]]:
    return {node(address) for address in addresses}


def known(client: pymongo.MongoClient) -> set[tuple[str, int]]:
    """All servers that it has heard of, and tries to reach."""
    return set(client.topology_description.server_descriptions())


def sees(client: pymongo.MongoClient, *addresses: str, primary: str | None = None) -> None:
    """Waits until these listeners are all that the client knows, and this is the primary's."""
    def view() -> tuple[set[tuple[str, int]], tuple[str, int] | None]:
        return known(client), client.primary

    wanted = nodes(*addresses)
    try:
        eventually(lambda: view()[0] == wanted and
                   (not primary or view()[1] == node(primary)), 30)
    except TimeoutError:
        raise AssertionError(f"the client sees {view()}, not {wanted}, {primary}: "
                             f"{client.topology_description}") from None


def works(client: pymongo.MongoClient) -> None:
    """Writes reach the primary, and reads a secondary."""
    collection = client.get_database("shop", write_concern=WriteConcern("majority"))["works"]
    collection.replace_one({"_id": 1}, {"_id": 1}, upsert=True)
    assert collection.find_one({"_id": 1})
    collection.with_options(read_preference=SecondaryPreferred()).find_one({"_id": 1})


def hello(proxy: Proxy, address: str = "") -> dict[str, Any]:
    """Of this listener, or of the first one. Empty if the server closes, as 4.4 does while its place in
    the set changes."""
    with proxy.raw_client(address) as client:
        try:
            return client.call(HELLO)
        except wire.Closed:
            return {}


def lists(says: dict[str, Any]) -> list[str]:
    return [name for field in ("hosts", "passives", "arbiters") for name in says.get(field, [])]


def listens(address: str) -> bool:
    try:
        socket.create_connection(node(address), 5).close()
        return True
    except ConnectionRefusedError:
        return False


class TestListeners:
    @SECURED
    def test_in_the_order_of_the_connection_string(self, members, start):
        first, second, third = (m.address for m in members.members)
        ports = free_ports(3)
        proxy = start(f"{third},{first},{second}", {"port": ports[0]})
        addresses = [f"127.0.0.1:{port}" for port in ports]
        assert proxy.listeners == list(zip(addresses, (third, first, second)))
        with proxy.set_client(members.name) as client:
            sees(client, *addresses, primary=addresses[1])
            works(client)

    @pytest.mark.tsan
    @SECURED
    def test_one_host_is_enough(self, members, start):
        """The others get the next ports, in the order of the set."""
        ports = free_ports(3)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        second, others = members.members[1], [members.members[0], members.members[2]]
        proxy = start(second.address, {"port": ports[0]})
        with proxy.set_client(members.name) as client:
            sees(client, *addresses, primary=addresses[1])
            works(client)
            joined = [(e["server"], e["address"], e["set"], e["level"])
                      for e in proxy.find_events("member_joined")]
            assert joined == [(m.address, address, members.name, "info")
                              for m, address in zip(others, addresses[1:])]
            says = hello(proxy, addresses[0])
            assert says["hosts"] == [addresses[1], addresses[0], addresses[2]]

    def test_a_listener_is_open_when_it_is_told_of(self, members, start):
        for _ in range(5):
            proxy = start(members.members[1].address)
            told = hello(proxy)["hosts"]
            assert len(told) == 3 and all(listens(address) for address in told)
            assert [hello(proxy, address)["me"] for address in told] == told

    def test_without_the_sets_name(self, members, start):
        """A driver that learns of the set from the reply."""
        proxy = start(members.members[0].address)
        with pymongo.MongoClient(f"mongodb://{proxy.address}") as client:
            client.admin.command("ping")
            if len(known(client)) > 1:  # else it took it for the only one: so PyMongo does
                sees(client, *(proxy.listener_of(m.address) for m in members.members))

    def test_a_busy_port_is_passed_over(self, members, start):
        ports = free_ports(4)
        with socket.create_server(("127.0.0.1", ports[1])):
            proxy = start(members.members[0].address, {"port": ports[0]})
            with proxy.set_client(members.name) as client:
                sees(client, *(f"127.0.0.1:{ports[i]}" for i in (0, 2, 3)))
                works(client)
        warning = proxy.wait_event("listener_failed")
        assert warning["level"] == "warning"
        assert (warning["address"], warning["server"]) == (
            f"127.0.0.1:{ports[1]}", members.members[1].address)
        assert warning["reason"]

    def test_a_busy_port_of_the_connection_string_is_an_error(self, members, tmp_path):
        ports = free_ports(2)
        config = tmp_path / "config.yaml"
        config.write_text(
            f"listen: {{port: {ports[0]}}}\nrules: []\nadmin: {{listen: null}}\n"
            f'upstream: {{uri: "mongodb://{members.address}"}}\n')
        with socket.create_server(("127.0.0.1", ports[1])):
            result = subprocess.run([binary(), "--config", str(config)], capture_output=True,
                                    text=True, timeout=30)
        assert result.returncode == 69
        assert str(ports[1]) in result.stderr

    def test_two_processes(self, members, start):
        """The second finds the next ports taken."""
        ports = free_ports(6)
        first = start(members.members[0].address, {"port": ports[0]})
        with first.set_client(members.name) as client:
            sees(client, *(f"127.0.0.1:{ports[i]}" for i in (0, 1, 2)))
            second = start(members.members[0].address, {"port": ports[3]})
            with second.set_client(members.name) as other:
                sees(other, *(f"127.0.0.1:{ports[i]}" for i in (3, 4, 5)))
                works(other)
            works(client)

    @SECURED
    def test_in_a_chain(self, members, start):
        """A proxy whose servers are the listeners of another."""
        first = start(members.members[0].address)
        with first.set_client(members.name) as client:
            sees(client, *(first.listener_of(m.address) for m in members.members))
        second = start(first.address)
        with second.set_client(members.name) as client:
            addresses = [second.listener_of(first.listener_of(m.address)) for m in members.members]
            sees(client, *addresses, primary=addresses[0])
            works(client)


class TestPinned:
    def test_to_their_ports(self, members, start):
        """In the connection string or not."""
        first, second, third = (m.address for m in members.members)
        ports = free_ports(6)
        proxy = start(f"{first},{second}", {"port": ports[0], "members": {
            second: ports[5], third: ports[4]}})
        with proxy.set_client(members.name) as client:
            addresses = [f"127.0.0.1:{ports[i]}" for i in (0, 5, 4)]
            sees(client, *addresses)
            works(client)
            assert hello(proxy, addresses[0])["hosts"] == addresses

    def test_a_pinned_port_is_nobody_elses(self, members, start):
        first, second, third = (m.address for m in members.members)
        ports = free_ports(4)
        proxy = start(first, {"port": ports[0], "members": {
            third: ports[1], "elsewhere.test:27017": ports[2]}})
        with proxy.set_client(members.name) as client:
            sees(client, *(f"127.0.0.1:{ports[i]}" for i in (0, 1, 3)))
            assert proxy.listener_of(second) == f"127.0.0.1:{ports[3]}"
            assert proxy.listener_of(third) == f"127.0.0.1:{ports[1]}"

    def test_names_are_compared_without_regard_to_case(self, members, start):
        ports = free_ports(4)
        third = members.members[2]
        proxy = start(f"LocalHost:{members.members[0].port}", {
            "port": ports[0], "members": {third.address.upper(): ports[3]}})
        with proxy.set_client(members.name) as client:
            sees(client, *(f"127.0.0.1:{ports[i]}" for i in (0, 1, 3)))

    @pytest.mark.parametrize("number", [0, 2], ids=["the_primary", "a_secondary"])
    def test_to_a_busy_one(self, members, start, number):
        """It is left out, even if it is the primary, until the port is free."""
        out, ports = members.members[number], free_ports(4)
        others = [m.address for m in members.members if m is not out]
        with socket.create_server(("127.0.0.1", ports[3])):
            proxy = start(",".join(others), {"port": ports[0], "members": {
                out.address: ports[3]}})
            with proxy.set_client(members.name, serverSelectionTimeoutMS=60_000) as client:
                sees(client, *(f"127.0.0.1:{port}" for port in ports[:2]))
                warning = proxy.wait_event("member_left_out")
                assert warning["level"] == "warning"
                assert (warning["member"], warning["set"]) == (out.address, members.name)
                says = [hello(proxy, address) for address, _ in proxy.listeners]
                for each in says:
                    assert each["hosts"] == [f"127.0.0.1:{port}" for port in ports[:2]]
                    assert ("primary" in each) == (number != 0)
        assert len(proxy.find_events("member_left_out")) == 1
        assert not proxy.find_events("member_joined")

    @pytest.mark.full
    def test_to_one_that_becomes_free(self, members, start):
        """It is tried again every 10 s."""
        out, ports = members.members[2], free_ports(4)
        with contextlib.ExitStack() as busy:
            busy.enter_context(socket.create_server(("127.0.0.1", ports[3])))
            proxy = start(members.members[0].address, {"port": ports[0], "members": {
                out.address: ports[3]}})
            with proxy.set_client(members.name) as client:
                sees(client, *(f"127.0.0.1:{port}" for port in ports[:2]))
                busy.close()
                sees(client, *(f"127.0.0.1:{ports[i]}" for i in (0, 1, 3)))
                works(client)
        assert len(proxy.find_events("member_left_out")) == 1


class TestAdvertised:
    def test_a_name(self, members, start):
        ports = free_ports(3)
        proxy = start(members.members[0].address, {"port": ports[0], "advertise": "localhost"})
        addresses = [f"localhost:{port}" for port in ports]
        with pymongo.MongoClient(f"mongodb://{addresses[0]}/?replicaSet={members.name}") as client:
            sees(client, *addresses, primary=addresses[0])
            works(client)
        assert hello(proxy)["me"] == addresses[0]

    @pytest.mark.parametrize("address", ["0.0.0.0", "::"])
    def test_all_addresses_of_this_host(self, members, start, address):
        proxy = start(members.members[0].address, {"address": address, "advertise": "127.0.0.1"})
        port = node(proxy.address)[1]
        says = hello(proxy, f"127.0.0.1:{port}")
        assert says["me"] == f"127.0.0.1:{port}"
        assert len(says["hosts"]) == 3 and all(h.startswith("127.0.0.1:") for h in says["hosts"])

    def test_a_unix_socket(self, members, start, tmp_path):
        """It stands for the first server, and there is no other."""
        path = tmp_path / "proxy.sock"
        proxy = start(members.address, {"address": f"unix:{path}"})
        says = hello(proxy, f"unix:{path}")
        assert (says["me"], says["hosts"], says["primary"]) == (str(path), [str(path)], str(path))
        with proxy.set_client(members.name) as client:
            collection = client["shop"]["unix"]
            collection.replace_one({"_id": 1}, {"_id": 1}, upsert=True)
            assert collection.find_one({"_id": 1})
            assert {host for host, _ in known(client)} == {str(path)}


class TestOneServerOfTwoNames:
    @SECURED
    def test_names_here_and_addresses_in_the_set(self, members, start):
        proxy = start(",".join(f"localhost:{m.port}" for m in members.members))
        addresses = [address for address, _ in proxy.listeners]
        with proxy.set_client(members.name) as client:
            sees(client, *addresses, primary=addresses[0])
            works(client)
        for member, address in zip(members.members, addresses):
            assert hello(proxy, address)["me"] == address
            event = proxy.wait_event("server_identified", server=f"localhost:{member.port}")
            assert (event["me"], event["set"]) == (member.address, members.name)
        assert not proxy.find_events("member_joined")

    def test_some_of_them(self, members, start):
        """The others join by the names that they have in the set."""
        second = members.members[1]
        proxy = start(f"localhost:{second.port}")
        with proxy.set_client(members.name) as client:
            others = [proxy.listener_of(m.address) for m in members.members if m is not second]
            sees(client, proxy.address, *others, primary=others[0])
        assert len(proxy.find_events("member_joined")) == 2

    def test_addresses_here_and_names_in_the_set(self, members, start):
        def renamed(old: str, new: str) -> Callable[[list[dict[str, Any]]], None]:
            def change(each: list[dict[str, Any]]) -> None:
                for member in each:
                    member["host"] = member["host"].replace(old, new)
            return change

        def all_are_served() -> None:
            """Each member has one listener, if not necessarily that of the connection string: not
            all of them say their new name at once."""
            def is_so() -> bool:
                version = members.primary.hello()["setVersion"]
                try:
                    told = lists(hello(proxy))
                    says = [hello(proxy, address) for address in told]
                except (OSError, wire.Closed):
                    return False  # a listener that has just been closed
                return (len(told) == 3 and known(client) == nodes(*told) and
                        all(s["setVersion"] == version and s["hosts"] == told and s["me"] == address
                            for s, address in zip(says, told)))
            eventually(is_so, 30, "there is one listener for each member")
            works(client)

        proxy = start(members.address)
        addresses = [address for address, _ in proxy.listeners]
        with proxy.set_client(members.name) as client:
            sees(client, *addresses, primary=addresses[0])
            members.reconfigure(renamed("127.0.0.1:", "LocalHost:"))
            try:
                eventually(lambda: all(m.hello().get("me", "").startswith("L")
                                       for m in members.members), 30, "all have their new names")
                # Also one that starts only now.
                late = start(members.address)
                with late.set_client(members.name) as other:
                    sees(other, *(a for a, _ in late.listeners), primary=late.address)
                    works(other)
                all_are_served()
                assert not late.find_events("member_joined")
            finally:
                members.reconfigure(renamed("LocalHost:", "127.0.0.1:"))
            all_are_served()

    def test_both_in_one_connection_string(self, members, start):
        """Each has its listener, and drivers are told of one of them."""
        first, second, third = members.members
        proxy = start(f"{first.address},localhost:{first.port},{second.address},{third.address}")
        addresses = [address for address, _ in proxy.listeners]
        assert len(addresses) == 4
        with proxy.set_client(members.name) as client:
            eventually(lambda: client.primary, 20, "a primary")
            told = lists(hello(proxy, addresses[2]))
            assert len(told) == 3 and set(told) < set(addresses)
            assert len({*told, *addresses[:2]}) == 4
            sees(client, *told)
            works(client)
        for address in addresses[:2]:
            assert hello(proxy, address)["me"] in told

    def test_one_name_twice(self, members, start):
        first, second, _ = (m.address for m in members.members)
        proxy = start(f"{first},{second},{first}")
        assert [server for _, server in proxy.listeners] == [first, second]
        with proxy.set_client(members.name) as client:
            sees(client, *(proxy.listener_of(m.address) for m in members.members))

    def test_a_wrong_set_name(self, members, start):
        proxy = start(members.members[0].address, {}, "replicaSet=other")
        event = proxy.wait_event("set_name_differs")
        assert event["level"] == "error"
        assert event["message"].startswith(f"server {members.members[0].address}: it is a member of ")
        assert (event["server"], event["expected"], event["found"]) == (
            members.members[0].address, "other", members.name)


class TestServersThatAreDown:
    @SECURED
    def test_the_first_one_at_the_start(self, members, start):
        """Its listener opens all the same. A driver that knows no other waits for it."""
        first, second, third = members.members
        first.kill()
        try:
            proxy = start(f"{first.address},{second.address}")
            addresses = [address for address, _ in proxy.listeners]
            uri = proxy.access.uri(addresses[1], f"replicaSet={members.name}")
            with (pymongo.MongoClient(uri, heartbeatFrequencyMS=500) as client,
                  proxy.set_client(members.name) as waiting):
                addresses.append(proxy.listener_of(third.address))
                sees(client, *addresses)
                works(client)
                assert waiting.primary is None
                members.heal()
                sees(waiting, *addresses)
                works(waiting)
        finally:
            members.heal()

    def test_all_of_them_at_the_start(self, members, start):
        for member in members.members:
            member.kill()
        try:
            proxy = start(members.members[1].address)
            with (proxy.set_client(members.name, serverSelectionTimeoutMS=60_000) as client,
                  proxy.raw_client() as early):
                assert early.closed_by_peer()
                members.heal()
                addresses = [proxy.listener_of(m.address) for m in members.members]
                sees(client, *addresses)
                works(client)
        finally:
            members.heal()

    @pytest.mark.parametrize("how", ["silent", "out_of_reach"])
    def test_one_that_does_not_answer(self, members, start, how):
        """Nobody waits for it for long who wants another: connect_timeout is a minute here."""
        with dead_server(how) as address:
            proxy = start(f"{address},{members.members[0].address}", connect_timeout="60s")
            says = hello(proxy, proxy.listeners[1][0])
            assert says["me"] == proxy.listeners[1][0] and len(says["hosts"]) == 3
            assert proxy.listeners[0][0] not in says["hosts"]

    def test_one_that_shuts_down(self, members, tmp_path):
        """Until it has, it answers hello with an error."""
        one = members.members[2]
        config = tmp_path / "config.yaml"
        config.write_text(json.dumps(configuration(members, [])))
        config.chmod(0o600)
        assert not one.client.admin.command("hello")["isWritablePrimary"]
        try:
            client = pymongo.MongoClient(one.uri)
            with Threads(lambda: pytest.raises(
                    PyMongoError, client.admin.command, "shutdown", timeoutSecs=60)):
                eventually(lambda: not one.hello(), 30, "it says that it shuts down")
                done = subprocess.run([binary(), "check", "--connect", "--config", config],
                                      capture_output=True, text=True, timeout=60)
                one.kill()
        finally:
            members.heal()
        assert (f"server {one.address} cannot be reached: The server is in quiesce mode and will "
                "shut down") in done.stdout
        assert "no replica set" not in done.stdout

    def test_one_of_whose_set_no_primary_is_left(self, members, start):
        """What a secondary says is taken for new members, not for members that have gone."""
        first, second, third = members.members
        proxy = start(second.address)
        addresses = [proxy.listener_of(m.address) for m in members.members] \
            if _asked(proxy) else []
        first.kill()
        third.kill()
        try:
            eventually(lambda: not second.hello().get("primary") and
                       second.hello().get("secondary"), 30, "there is no primary")
            says = hello(proxy)
            assert "primary" not in says and says["hosts"] == addresses
            late = start(second.address)
            says = hello(late)
            assert len(says["hosts"]) == 3 and says["me"] == late.address
            assert not set(says["hosts"]) & {m.address for m in members.members}
        finally:
            members.heal()
        with proxy.set_client(members.name) as client, late.set_client(members.name) as other:
            sees(client, *addresses)
            sees(other, *(late.listener_of(m.address) for m in members.members))
            works(client)
            works(other)


@contextlib.contextmanager
def dead_server(how: str) -> Iterator[str]:
    """One that accepts connections and says nothing, or one that does not even answer a SYN."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(
            ("127.0.0.1", 0), backlog=128 if how == "silent" else 0))
        if how != "silent":
            for _ in range(4):  # more than it has room for
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
        yield "127.0.0.1:%d" % listener.getsockname()[1]


def _asked(proxy: Proxy) -> bool:
    return bool(hello(proxy))


class TestMembersThatComeAndGo:
    @pytest.mark.tsan
    @SECURED
    def test_one_is_added_and_removed_and_comes_back(self, members, start):
        ports = free_ports(8)
        proxy = start(members.members[0].address, {"port": ports[0]})
        with proxy.set_client(members.name) as client:
            addresses = [f"127.0.0.1:{port}" for port in ports]
            sees(client, *addresses[:3])
            fourth = members.add()
            try:
                sees(client, *addresses[:4])
                joined = proxy.wait_event("member_joined", server=fourth.address)
                assert joined["address"] == addresses[3]
                assert lists(hello(proxy, addresses[1])) == addresses[:4]
                # It may be the last to hear that it belongs to them.
                eventually(lambda: hello(proxy, addresses[3]).get("me") == addresses[3], 20)
                with proxy.raw_client(addresses[3]) as idle:
                    assert idle.call(HELLO)["me"] == addresses[3]
                    members.expel(fourth)
                    assert idle.closed_by_peer(20)
                sees(client, *addresses[:3])
                left = proxy.wait_event("member_left")
                assert (left["address"], left["server"]) == (addresses[3], fourth.address)
                assert left["level"] == "info"
                eventually(lambda: not listens(addresses[3]), 10, "its listener is closed")
                # Another one meanwhile does not get the port that it has had.
                fifth = members.add(ARBITER)
                sees(client, *addresses[:3], addresses[4])
                eventually(lambda: client.arbiters == nodes(addresses[4]), 20, "an arbiter")
                if has("readmits"):
                    members.admit(fourth)
                    sees(client, *addresses[:5])
                    assert hello(proxy, addresses[0])["arbiters"] == [addresses[4]]
                    for address in addresses[3:5]:
                        eventually(lambda: hello(proxy, address).get("me") == address, 20)
                else:  # 4.4.2 ends itself when it is a member again
                    members.members.remove(fourth)
                    fourth.close()
                # An arbiter alone is enough, too.
                late = start(fifth.address)
                with late.set_client(members.name) as other:
                    sees(other, *(late.listener_of(m.address) for m in members.members))
                    works(other)
                members.remove(fifth)
                sees(client, *addresses[:4 if has("readmits") else 3])
            finally:
                while len(members.members) > 3:
                    members.remove(members.members[-1])
            sees(client, *addresses[:3])
            works(client)

    @SECURED
    def test_one_moves(self, members, start):
        """The same _id, another address: for the proxy another member."""
        ports = free_ports(6)
        proxy = start(members.members[0].address, {"port": ports[0]})
        moved, old = members.members[2], members.members[2].address
        with proxy.set_client(members.name) as client:
            addresses = [f"127.0.0.1:{port}" for port in ports]
            sees(client, *addresses[:3])
            members.move(moved, ports[5])
            sees(client, *addresses[:2], addresses[3])
            assert proxy.listener_of(old) == addresses[2]
            assert proxy.listener_of(moved.address) == addresses[3]
            eventually(lambda: not listens(addresses[2]), 10, "its old listener is closed")
            members.await_health()
            works(client)
            assert proxy.wait_event("member_left")["server"] == old

    def test_a_host_of_the_connection_string_keeps_its_listener(self, members, start):
        """It may come back; meanwhile drivers are not told of it."""
        fourth = members.add()
        try:
            members.await_health()
            proxy = start(f"{fourth.address},{members.members[0].address}")
            addresses = [address for address, _ in proxy.listeners]
            with pymongo.MongoClient(f"mongodb://{addresses[1]}/?replicaSet={members.name}",
                                     heartbeatFrequencyMS=500) as client:
                more = [proxy.listener_of(m.address) for m in members.members[1:3]]
                sees(client, *addresses, *more)
                members.expel(fourth)
                sees(client, addresses[1], *more)
                assert listens(addresses[0])
                assert addresses[0] not in lists(hello(proxy, addresses[1]))
                members.admit(fourth)
                sees(client, *addresses, *more)
        finally:
            members.remove(fourth)
        assert not [e for e in proxy.find_events("member_left") if e["server"] == fourth.address]

    def test_a_hidden_member(self, members, start):
        """It is in no list: only a connection string can name it, and its listener knows it."""
        fourth = members.add(HIDDEN)
        try:
            members.await_health()
            proxy = start(f"{members.members[0].address},{fourth.address}")
            hidden = proxy.listeners[1][0]
            with proxy.set_client(members.name) as client:
                visible = [proxy.listener_of(m.address) for m in members.members[:3]]
                sees(client, *visible)
            says = hello(proxy, hidden)
            assert (says["me"], says["hidden"], says["hosts"]) == (hidden, True, visible)
            with pymongo.MongoClient(f"mongodb://{hidden}/?directConnection=true") as client:
                assert client.admin.command("hello")["secondary"]
            # Who is only told of the hidden one learns of the others from it.
            alone = start(fourth.address)
            with alone.set_client(members.name) as client:
                sees(client, *(alone.listener_of(m.address) for m in members.members[:3]))
                works(client)
            # Nobody's list has it, and it has not left all the same.
            assert listens(hidden) and not proxy.find_events("member_left")
        finally:
            members.remove(fourth)


class TestASetThatIsNotWhatItWas:
    """The proxy lives on, and is asked by new clients: drivers remember the old set too."""

    def test_renamed(self, members, start):
        proxy = start(members.members[0].address)
        with proxy.set_client(members.name) as client:
            addresses = [proxy.listener_of(m.address) for m in members.members]
            sees(client, *addresses)
        members.rename(f"{members.name}2")
        with proxy.set_client(members.name) as client:
            sees(client, *addresses)
            works(client)
        assert [sorted(lists(hello(proxy, address))) for address in addresses] == [sorted(addresses)] * 3

    def test_initiated_again(self, members, start):
        """Its elections and the versions of its list begin anew, and so look old."""
        fourth = members.add()  # and the version is not the first
        members.remove(fourth)
        proxy = start(members.members[1].address)
        with proxy.set_client(members.name) as client:
            addresses = [proxy.listener_of(m.address) for m in members.members]
            sees(client, *addresses)
        before = members.primary.hello()
        members.initiate_again()
        after = members.primary.hello()
        assert after["setVersion"] < before["setVersion"]
        assert after["electionId"] < before["electionId"] or after["setVersion"] == 1
        with proxy.set_client(members.name) as client:
            sees(client, *addresses)
            works(client)
            # What it says now counts: members come and go.
            fourth = members.add()
            more = proxy.listener_of(fourth.address)
            sees(client, *addresses, more)
            members.remove(fourth)
            sees(client, *addresses)
            eventually(lambda: not listens(more), 10, "its listener is closed")
