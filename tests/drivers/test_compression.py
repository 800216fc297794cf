"""Drivers that compress, through a proxy that gives values. test_transactions.py and test_replica_set.py have
their transactions and replica sets."""

import uuid

import pytest

from stored import COUNTS, RULES, check_fields, check_ids  # noqa: F401 (RULES are for the fixture `proxy`)
from support.proxy import configuration
from support.scrape import metric
from support.wire import COMPRESSORS

# The first test of a driver may have to fetch its tool chain.
pytestmark = pytest.mark.timeout(600)


# How each compresses in the normal run.
DRIVERS = {"node": "zstd", "go": "snappy", "java": "zlib", "libmongoc": "zstd"}


@pytest.mark.parametrize("driver, compressor", [
    pytest.param(driver, compressor, marks=[pytest.mark.full][:compressor != its_own])
    for driver, its_own in DRIVERS.items() for compressor in COMPRESSORS], indirect=["driver"])
def test_inserts(replica_set, start_proxy, driver, compressor):
    def decompressed() -> int:
        network = replica_set.client.admin.command("serverStatus")["network"]
        return network["compression"][compressor]["decompressor"]["bytesIn"]

    proxy = start_proxy(configuration(replica_set, RULES, admin={"listen": "127.0.0.1:0"}))
    before, coll = decompressed(), f"compressed-{uuid.uuid4().hex}"
    tasks = [{"task": "insert", "uri": f"{proxy.uri}&compressors={compressor}",
              "db": "fields" if own else "ids", "coll": f"{coll}-{count}-{ordered}", "count": count,
              "ordered": ordered, "own": own}
             for own, ordered in [(False, True), (False, False), (True, True)] for count in COUNTS]
    assert driver.each(tasks) == [{"inserted": task["count"]} for task in tasks]
    for task in tasks:
        check = check_fields if task["own"] else check_ids
        check(replica_set, task["coll"], task["count"])
    counted = f'idproxy_requests_compressed_total{{compressor="{compressor}"}}'
    assert metric(proxy, counted) >= len(tasks), "from the driver to the proxy"
    assert decompressed() > before, "and from there to the server"
