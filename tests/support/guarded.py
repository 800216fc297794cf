"""A mongod that knows users."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import pymongo

from .access import OPEN, Access
from .mongod import Mongod
from .secrets import PASSWORD
from .wire import WireClient


class Guarded(Mongod):
    """root may do everything; the password of each user is PASSWORD. Options are those of a
    Mongod. key_file: it is a replica set of one member, rs0, with this file."""

    def __init__(self, options: Sequence[str] = (), access: Access = OPEN,
                 key_file: pathlib.Path | None = None) -> None:
        kind = ["--keyFile", str(key_file)] if key_file else ["--auth"]
        super().__init__("rs0" if key_file else None, options=[*kind, *options], access=access)
        self.client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
        self.client.close()
        self.client = pymongo.MongoClient(self.uri_of("root"))

    def uri_of(self, user: str) -> str:
        access = dataclasses.replace(self.access, user=user, password=PASSWORD)
        return access.uri(self.address, "authSource=admin", "directConnection=true")

    def add_user(self, user: str, roles: list[Any], privileges: list[dict[str, Any]] = []) -> None:
        """With these roles, and one more of its own name if there are privileges."""
        if privileges:
            self.client.admin.command("createRole", user, privileges=privileges, roles=[])
            roles = [*roles, {"role": user, "db": "admin"}]
        self.client.admin.command("createUser", user, pwd=PASSWORD, roles=roles)


def log_in(connection: WireClient, user: str) -> None:
    """By hand, with SCRAM-SHA-256 (RFC 5802, RFC 7677)."""
    bare = f"n={user},r={base64.b64encode(os.urandom(18)).decode()}"
    begun = connection.call({"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": f"n,,{bare}".encode(),
                             "options": {"skipEmptyExchange": True}, "$db": "admin"})
    first = begun["payload"].decode()
    said = dict(part.split("=", 1) for part in first.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(said["s"]), int(said["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    last = f"c=biws,r={said['r']}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{bare},{first},{last}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
    done = connection.call({"saslContinue": 1, "conversationId": begun["conversationId"],
                            "payload": f"{last},p={proof}".encode(), "$db": "admin"})
    assert done["ok"] == 1, done
