"""For pytest: leaves of PyMongo's tests those that need a server, and are asked for."""

from __future__ import annotations

import os

import pytest


def _name(item: pytest.Item) -> str:
    """As JUnit's XML has it."""
    module, _, rest = item.nodeid.partition(".py::")
    return ".".join([module.replace("/", "."), *rest.split("::")])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from test import IntegrationTest  # PyMongo's

    wanted = os.environ["IDPROXY_SUITE_ONLY"].split("\n")

    def matches(item: pytest.Item) -> bool:
        name = _name(item)
        return any(name == each or each.endswith("*") and name.startswith(each[:-1])
                   for each in wanted)

    items[:] = [item for item in items
                if item.cls and issubclass(item.cls, IntegrationTest) and matches(item)]
