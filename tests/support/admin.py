"""The pages that a proxy has for operators, on admin.listen."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass

from .proxy import Proxy

LISTEN = {"listen": "127.0.0.1:0"}
"""`admin` of a configuration: any free port."""

_SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Page:
    status: int
    headers: dict[str, str]
    text: str


class Metrics:
    """One scrape."""

    def __init__(self, text: str):
        self.text = text
        self._samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            found = _SAMPLE.fullmatch(line)
            assert found, line
            labels = frozenset(_LABEL.findall(found[2] or ""))
            assert (found[1], labels) not in self._samples, f"twice: {line}"
            self._samples[found[1], labels] = float(found[3])

    def __call__(self, name: str, **labels: str) -> float:
        """The one sample of this name that has these labels."""
        found = [value for (each, its), value in self._samples.items()
                 if each == name and labels.items() <= dict(its).items()]
        assert len(found) == 1, f"{len(found)} samples of {name} {labels}"
        return found[0]

    def sum(self, name: str) -> float:
        return sum(value for (each, _), value in self._samples.items() if each == name)


class Admin:
    """Asks a proxy for its pages, over a new connection each time."""

    def __init__(self, proxy: Proxy):
        self.address = proxy.wait_event("admin_listening")["address"]

    def get(self, path: str, method: str = "GET", host: str | None = None) -> Page:
        """host: that of the request, if it is not the address it is sent to."""
        connection = http.client.HTTPConnection(self.address, timeout=10)
        try:
            connection.request(method, path, headers={"Host": host} if host else {})
            answer = connection.getresponse()
            return Page(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    def rules(self) -> list[str]:
        """What /readyz says of each rule: "ready", "not ready: it has no index", "ready; 37 numbers …"."""
        lines = self.get("/readyz").text.splitlines()
        states = []
        for line in lines:
            if not (rule := re.fullmatch(r"(rule \d+ \(.*), [\w-]+\): (.*)", line)):
                continue
            about = [each.partition(f": {rule[1]})")[2] for each in lines if f": {rule[1]})" in each]
            not_ready = [each.removeprefix(" is ") for each in about if each.startswith(" is not ready: ")]
            more = [each.removeprefix(": ") for each in about if each.startswith(": ")]
            states.append("; ".join((not_ready or [rule[2]]) + more))
        return states

    def metrics(self) -> Metrics:
        page = self.get("/metrics")
        assert page.status == 200
        return Metrics(page.text)
