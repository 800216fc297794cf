"""Three members with TLS, a key file and users, and TLS towards the proxy's clients too.

What test_failover.py shows without all that holds here as well: these are its tests. The longest one
runs in scripts/test full only; that connections log in again after a fault under load, others show too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import test_failover
from support.proxy import Proxy
from support.replica_set import ReplicaSet
from support.secured import Certificates, SecuredSet
from support.wire import WireClient
from test_failover import (  # noqa: F401
    cables, connect, test_a_member_dies, test_a_server_that_is_silent, test_half_open,
    test_streams_of_hello, test_the_primary_is_cut_off_under_load,
    test_the_store_needs_one_secondary_of_the_uri, whole_again)


@pytest.fixture(scope="module")
def three(certificates: Certificates) -> Iterator[ReplicaSet]:
    with SecuredSet(certificates) as running:
        yield running


@pytest.fixture
def start_proxy(certificates: Certificates, three: SecuredSet,
                start_proxy: Callable[..., Proxy]) -> Callable[..., Proxy]:
    """With TLS towards clients, who log in as the application does."""
    def start(config: dict[str, Any]) -> Proxy:
        return start_proxy({**config, "listen": certificates.listen()}, access=three.app_access)
    return start


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_step_downs_and_dead_primaries(three, start_proxy, connect, record):
    test_failover.test_step_downs_and_dead_primaries(three, start_proxy, connect, record)


@pytest.fixture(autouse=True)
def raw_clients_with_tls(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of test_failover.py."""
    monkeypatch.setattr(test_failover, "WireClient",
                        functools.partial(WireClient, tls=certificates.access.tls))
