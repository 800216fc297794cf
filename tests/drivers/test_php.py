"""PHP's client, which has one thread, while the proxy restarts: docs/socket-activation.md has a section about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from program import Program, StepFailed, Steps
from support.activated import activated, listening
from support.mongod import Mongod
from support.process import eventually, free_port
from support.proxy import Proxy, configuration

RULES = [{"ns": "php.*", "field": "number", "strategy": "counter"}]
# As the page has them.
FAILURES = ("No suitable servers found", "No servers yet eligible for rescan")
COOLDOWN = 5.0


class Application:
    """A client with one thread, whose proxy can be away."""

    def __init__(self, client: Steps, coll: str, start: Callable[[], Proxy]):
        self._client, self._coll, self._start = client, coll, start
        self._k = 0
        self._proxy = start()

    def insert(self) -> str:
        """The error, "" if it was stored."""
        self._k += 1
        try:
            self._client("insert", coll=self._coll, first=self._k, count=1)
        except StepFailed as failure:
            return str(failure)
        return ""

    def stop(self) -> None:
        self._proxy.stop()

    def start(self) -> None:
        self._proxy = self._start()

    def insert_during_a_restart(self) -> str:
        self.stop()
        errors: list[str] = []
        inserting = threading.Thread(target=lambda: errors.append(self.insert()))
        inserting.start()
        inserting.join(0.5)  # so that it finds nobody; whether it does changes nothing
        self.start()
        inserting.join()
        return errors[0]


@pytest.fixture
def application(php: Program, replica_set: Mongod, coll: str):
    @contextmanager
    def make(option: str = "", owned: bool = False) -> Iterator[Application]:
        port = free_port()
        config = configuration(replica_set, RULES, listen={"address": "127.0.0.1", "port": port})
        uri = f"mongodb://127.0.0.1:{port}/?replicaSet={replica_set.replica_set}{option}"
        with php.steps(uri=uri, db="php") as client:
            if owned:
                with listening(("127.0.0.1", port)) as passed:
                    made = Application(client, coll, lambda: activated(config, [passed]))
                    yield made
                    made.stop()
            else:
                made = Application(client, coll, lambda: Proxy(config))
                yield made
                made.stop()
    return make


def check(server: Mongod, coll: str, count: int) -> None:
    found = [each["number"] for each in server.client.php[coll].find()]
    assert len(found) == len({*found}) == count


def test_errors_go_on_after_a_restart(application, replica_set, coll, record):
    with application() as php:
        assert not php.insert()
        php.stop()
        assert php.insert(), "nobody is there"
        began = time.monotonic()
        php.start()
        errors: list[str] = []

        def stored() -> bool:
            errors.append(php.insert())
            return not errors[-1]
        eventually(stored, 60, "an insert is stored")
        seconds = time.monotonic() - began
    record("seconds of errors of PHP after a restart", seconds)
    assert all(any(each in error for each in FAILURES) for error in errors[:-1]), errors
    assert len(errors) > 1 or seconds > COOLDOWN
    check(replica_set, coll, 2)


@pytest.mark.parametrize("way", [{"option": "&serverSelectionTryOnce=false"}, {"owned": True}],
                         ids=["option", "sockets of systemd"])
def test_no_error(application, replica_set, coll, way):
    with application(**way) as php:
        for insert in (php.insert, php.insert_during_a_restart, php.insert):
            assert insert() == ""
    check(replica_set, coll, 3)
