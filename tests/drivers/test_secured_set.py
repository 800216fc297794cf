"""As test_replica_set.py, where members and the proxy's clients have TLS and users.

The drivers' connection strings name the user, the password and the file with the authority, and
nothing else that is new. What a driver does once it has logged in is the same: only what connects
anew is here. Members that come and go: tests/integration/test_topology.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.proxy import Proxy, Server, configuration
from support.replica_set import ReplicaSet
from support.secured import Certificates, SecuredSet
from test_replica_set import (  # noqa: F401
    RULES, client, db, direct, documents, driver, knows_all, program, proxy, proxy_of_one, pytestmark, test_step_downs,
    three, way)


@pytest.fixture(scope="module")
def new_set(certificates: Certificates) -> Callable[[], ReplicaSet]:
    return lambda: SecuredSet(certificates, "rs0")


@pytest.fixture(scope="module")
def new_proxy(certificates: Certificates) -> Callable[[Server], Proxy]:
    return lambda upstream: Proxy(
        configuration(upstream, RULES, listen=certificates.listen()),
        access=certificates.application)


@pytest.mark.parametrize("way", ["proxy_of_one"], indirect=True)
def test_topology(client, way, three):
    knows_all(client, way, three)
