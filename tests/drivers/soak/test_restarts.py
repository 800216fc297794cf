"""Two proxies started anew, one after the other, while drivers of four languages write through them: with
retryable writes, none of their programs sees an error."""

from __future__ import annotations

import contextlib
import time
from collections import Counter

import pytest

from faults import Sidecar
from load import RAW, Foreign, held
from program import available
from support.full import FULL
from support.replica_set import ReplicaSet
from support.threads import Threads
from tables import DB
from test_soak import OWN

RESTARTS = 1000 if FULL else 4
# A driver with one thread that finds no server gives up at once, unless its user says that it is to wait.
PATIENCE = {"libmongoc": "&serverSelectionTryOnce=false"}


@pytest.mark.timeout(5400 if FULL else 300)
def test_drivers_of_four_languages_notice_nothing(request, tmp_path, record, long_run):
    with contextlib.ExitStack() as stack:
        three = stack.enter_context(ReplicaSet())
        sidecars: list[Sidecar] = []
        drivers = [
            Foreign(name, driver, lambda number=number, name=name:
                    sidecars[number % 2].proxy.set_uri(three.name) + PATIENCE.get(name, ""), OWN[name])
            for number, (name, driver) in enumerate(available(request, OWN).items())]
        for each in drivers:
            three.client[DB][each.table].create_index("n", unique=True)
        config = {"upstream": {"uri": three.uri}, "rules": [each.rule() for each in drivers],
                  "limits": {"drain": "20s"}}
        sidecars += [stack.enter_context(Sidecar(tmp_path, number, len(three.members), config, {}))
                     for number in range(2)]
        going = Threads(*(lambda each=each: each.work(going.over) for each in drivers), timeout=120)
        with going:
            for number in range(RESTARTS):
                sidecars[number % 2].stop()
                sidecars[number % 2].start()
                assert not going.failures, going.failures[:3]
                time.sleep(0.2)  # for requests to be under way
        told = sum((each.ledger.outcomes() for each in drivers), Counter())
        assert {*told} == {"ok"}, told
        for each in drivers:
            assert each.done, each.name
            stored = held(three.client, each.table).with_options(codec_options=RAW).find()
            assert each.ledger.violations(bytes(one.raw) for one in stored) == []
        record(f"{RESTARTS} rolling restarts: documents", told["ok"])
        long_run("restarts", server=three.client.server_info()["version"], faults={"restart": RESTARTS},
                 documents=told["ok"])
