"""Which listener stands for which member, where members and the proxy's clients have TLS and users.

Tests of test_topology.py, those in which servers come, go and have other names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support import wire
from support.proxy import Proxy
from support.replica_set import ReplicaSet
from support.secured import Certificates, SecuredSet
from test_topology import (
    TestListeners, TestMembersThatComeAndGo, TestOneServerOfTwoNames, TestServersThatAreDown)

listeners, come_and_go = TestListeners, TestMembersThatComeAndGo
names, down = TestOneServerOfTwoNames, TestServersThatAreDown
del TestListeners, TestMembersThatComeAndGo, TestOneServerOfTwoNames, TestServersThatAreDown


@pytest.fixture(scope="module")
def members(certificates: Certificates) -> Iterator[ReplicaSet]:
    with SecuredSet(certificates, "topo", [{"priority": 5}, {}, {}]) as running:
        yield running


@pytest.fixture
def start(certificates: Certificates, members: SecuredSet,
          start_proxy: Callable[..., Proxy]) -> Callable[..., Proxy]:
    def start_one(hosts: str, listen: dict[str, Any] = {}, options: str = "",
                  **upstream: Any) -> Proxy:
        every = [each for each in options.removeprefix("?").split("&") if each]
        return start_proxy({
            "listen": {**certificates.listen(), **listen},
            "upstream": {"uri": certificates.access.uri(hosts, *every), **upstream},
            "id_store": {"uri": members.store_access.uri(members.address)}, "rules": []},
            access=members.app_access)
    return start_one


@pytest.fixture(autouse=True)
def raw_clients_with_tls(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "WireClient",
                        functools.partial(wire.WireClient, tls=certificates.access.tls))


class TestSecured:
    test_one_host_is_enough = listeners.test_one_host_is_enough
    test_in_the_order_of_the_string = listeners.test_in_the_order_of_the_connection_string
    test_in_a_chain = listeners.test_in_a_chain
    test_names_here = names.test_names_here_and_addresses_in_the_set
    test_the_first_one_is_down = down.test_the_first_one_at_the_start
    test_added_and_removed = come_and_go.test_one_is_added_and_removed_and_comes_back
    test_moved = come_and_go.test_one_moves
