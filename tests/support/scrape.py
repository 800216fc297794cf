"""What a proxy answers operators by HTTP."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

from .proxy import Proxy


def get(proxy: Proxy, path: str) -> tuple[int, str]:
    """Status and body. The proxy's admin.listen is set."""
    address = proxy.wait_event("admin_listening")["address"]
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def readiness(proxy: Proxy) -> tuple[int, str]:
    """Status and the first line: what it is about."""
    status, text = get(proxy, "/readyz")
    return status, text.splitlines()[0]


def metrics(proxy: Proxy) -> dict[str, float]:
    """By name with labels, as the page has them: 'idproxy_bytes_total{peer="client",…}'."""
    status, text = get(proxy, "/metrics")
    assert status == 200
    found = re.findall(r"^([a-z_]+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {series: float(value) for series, value in found}


def metric(proxy: Proxy, name: str) -> float:
    """The sum over the series of that name, or the one series if it has its labels."""
    series = [value for each, value in metrics(proxy).items()
              if each == name or each.startswith(name + "{")]
    assert series, f"no {name}"
    return sum(series)
