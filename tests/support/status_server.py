"""Something that answers as a proxy does at admin.listen, with a document that the test chooses."""

from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from .process import Closing

NOW = 1_764_260_000.0


def healthy(**more: Any) -> dict[str, Any]:
    """A document of a proxy with one server, one rule and one client, of which nothing is wrong."""
    limit = {"current": 1, "most": 4, "most_lately": 2, "limit": None}
    return {
        "version": "0.2.0", "commit": "abc123def456", "pid": 4711, "phase": "ready", "now": NOW,
        "started": NOW - 7_800,
        "configuration": {"file": "/etc/mongo-idproxy/mongo-idproxy.yaml", "hash": "0123456789ab",
                          "read": NOW - 7_800, "reloads": {"succeeded": 0, "failed": 0},
                          "last_reload": None},
        "wrong": [],
        "limits": {"clients": {**limit, "limit": 10_000}, "in_flight": limit, "waiting": limit,
                   "held_bytes": {**limit, "limit": 268_435_456}},
        "store": {"up": True, "reason": None, "round_trips": 12, "p50": 0.001, "p99": 0.004},
        "servers": [server()], "rules": [rule()], "rules_total": 1,
        "clients": {"total": 1, "list": [client()]},
        "proxies": [], "events": [],
        "history": {"every": 1, "end": NOW, "requests": [None, 10, 1234.0], "values": [3.5],
                    "duplicates": [0], "clients": [1], "p50": [None, 0.0004], "p99": [0.002],
                    "bytes": [1], "store_round_trips": [0]},
        **more}


def server(**more: Any) -> dict[str, Any]:
    return {"listener": "127.0.0.1:27117", "server": "127.0.0.1:27017", "me": None, "up": True,
            "state": "PRIMARY", "since": NOW - 60, "release": "MongoDB 6.0", "clients": 3,
            "in_flight": 1, "oldest": None, "requests": 1_234_567, "replies": 1_234_566,
            "bytes_sent": 1, "bytes_received": 2_048, "p50": 0.0004, "p99": 0.002,
            "round_trip": 0.0003, "connect_failures": 0, "last_failure": None, "fault": None, **more}


def rule(**more: Any) -> dict[str, Any]:
    return {"rule": 0, "ns": "shop.orders", "field": "number", "strategy": "counter", "ready": True,
            "reason": None, "not_ready_collections": 0, "values": 100, "values_per_second": 1.5,
            "last_value": NOW - 5, "duplicates": 2, "resent": 2, "given_up": 0, "forwarded": {},
            "next": 101, "held": 20, "left": 899, "fill": None, "max_fill": None,
            "full_at_hour_rate": None, "full_at_day_rate": None, "warning": None, **more}


def client(**more: Any) -> dict[str, Any]:
    return {"id": 17, "address": "127.0.0.1:51234", "application": "shop", "driver": "PyMongo 4.6",
            "user": "app", "server": "127.0.0.1:27017", "since": NOW - 30, "oldest": None,
            "requests": 12, "values": 3, "bytes_received": 1, "bytes_sent": 1, "tls": False,
            "port": 40_112, **more}


class StatusServer(Closing):
    """Answers from construction until close().

    answer: the document, or what makes it for a query (name -> value). raw: the bytes that each
    connection gets instead of an answer, and then nothing more until the client closes it.
    """

    def __init__(self, answer: dict[str, Any] | Callable[[dict[str, str]], dict[str, Any]] | str = {},
                 status: int = 200, port: int = 0, raw: bytes | None = None):
        self.answer = answer
        self.status = status
        self.asked: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                if raw is not None:
                    self.wfile.write(raw)
                    self.wfile.flush()
                    self.rfile.read(1)
                    return
                body = outer.text(self.path).encode()
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._http.server_address[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def text(self, path: str) -> str:
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(path).query))
        answer = self.answer(query) if callable(self.answer) else self.answer
        return answer if isinstance(answer, str) else json.dumps(answer)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def later(first: Any, then: Any, seconds: float) -> Callable[[dict[str, str]], Any]:
    """The first answer for as long, then the other one."""
    begun = time.monotonic()
    return lambda _: first if time.monotonic() - begun < seconds else then
