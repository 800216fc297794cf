"""A mongod that knows users."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import pymongo

from .access import OPEN, Access
from .mongod import Mongod
from .secrets import PASSWORD


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
