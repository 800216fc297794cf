"""Replies to hello where TLS and users are everywhere: tests of test_hello.py.

Between the proxy and each server stands one that ends TLS, so that their bytes can be compared.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import pytest

from support import wire
from support.middleman import Middleman
from support.proxy import Proxy
from support.replica_set import ARBITER, HIDDEN, PASSIVE
from support.secured import Certificates, SecuredSet
from test_hello import (  # noqa: F401
    Behind, TestAmongOtherMessages, TestLogin, TestOtherReplies, TestStreams,
    test_a_reply_is_the_servers_own_but_for_its_members, test_what_each_kind_of_member_says)

among, login, others, streams = (
    TestAmongOtherMessages, TestLogin, TestOtherReplies, TestStreams)
del TestAmongOtherMessages, TestLogin, TestOtherReplies, TestStreams


@pytest.fixture(scope="module")
def behind(certificates: Certificates) -> Iterator[Behind]:
    with contextlib.ExitStack() as stack:
        members = stack.enter_context(SecuredSet(
            certificates, "every", [{"priority": 5}, {}, PASSIVE, HIDDEN, ARBITER]))
        tls = certificates.access.tls
        assert tls
        taps = [stack.enter_context(Middleman(m.address, tls=(certificates.server_context(), tls)))
                for m in members.members]
        proxy = stack.enter_context(Proxy({
            "listen": certificates.listen(), "rules": [],
            "upstream": {"uri": certificates.access.uri(",".join(t.address for t in taps))},
            "id_store": {"uri": members.store_access.uri(members.address)}},
            access=certificates.access))
        yield Behind(members, taps, proxy)


@pytest.fixture(autouse=True)
def raw_clients_with_tls(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "WireClient",
                        functools.partial(wire.WireClient, tls=certificates.access.tls))


class TestSecured:
    test_each_reply_of_a_stream_is_mapped = streams.test_each_reply_is_mapped
    test_a_step_down_in_mid_stream = streams.test_a_step_down_in_mid_stream
    test_pymongo_monitors_by_streaming = streams.test_pymongo_monitors_by_streaming
    test_pipelined = among.test_pipelined
    test_one_that_wants_no_reply = among.test_one_that_wants_no_reply
    test_login_through_each_listener = login.test_by_a_driver_through_each_listener
    test_login_with_the_set = login.test_with_the_set
    test_login_by_hand = login.test_inside_of_hello_by_hand
