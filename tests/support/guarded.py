"""A mongod that knows users."""

from __future__ import annotations

from typing import Any

import pymongo

from .mongod import Mongod


class Guarded(Mongod):
    """root may do everything; the password of each user is "secret"."""

    def __init__(self) -> None:
        super().__init__(options=["--auth"])
        self.client.admin.command("createUser", "root", pwd="secret", roles=["root"])
        self.client.close()
        self.client = pymongo.MongoClient(self.uri_of("root"))

    def uri_of(self, user: str) -> str:
        return f"mongodb://{user}:secret@{self.address}/?authSource=admin&directConnection=true"

    def add_user(self, user: str, roles: list[Any], privileges: list[dict[str, Any]] = []) -> None:
        """With these roles, and one more of its own name if there are privileges."""
        if privileges:
            self.client.admin.command("createRole", user, privileges=privileges, roles=[])
            roles = [*roles, {"role": user, "db": "admin"}]
        self.client.admin.command("createUser", user, pwd="secret", roles=roles)
