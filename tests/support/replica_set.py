"""Three members of a replica set, to be stepped down, killed, cut off and brought back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pymongo
from pymongo.errors import PyMongoError

from .mongod import Mongod
from .process import eventually

# Not as low as it goes: on a busy machine a primary that says nothing for a moment is no dead one.
_SETTINGS = {"electionTimeoutMillis": 3000, "heartbeatIntervalMillis": 200,
             "heartbeatTimeoutSecs": 2, "catchUpTimeoutMillis": 2000}


class Member(Mongod):
    """One of three. restart() brings it back after kill(), with its data."""

    def _await_writable(self) -> None:
        self._connect()  # the set sees to the rest

    def _connect(self) -> None:
        """Whoever asks a member that was just killed is not to wait for it."""
        self.client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=3_000)

    def restart(self) -> None:
        (self._directory / "mongod.log").unlink(missing_ok=True)
        self._start(self.port)
        self._connect()

    def hello(self) -> dict:
        """Empty if it does not answer."""
        if self.process.poll() is not None:
            return {}
        try:
            return self.client.admin.command("hello")
        except PyMongoError:
            return {}

    def fail_point(self, name: str, mode: str) -> int:
        """Returns how often it was entered so far."""
        return self.client.admin.command("configureFailPoint", name, mode=mode)["count"]


class ReplicaSet:
    """Runs from construction until close()."""

    def __init__(self, name: str = "rs3"):
        self.name = name
        self.members: list[Member] = []
        try:
            for _ in range(3):
                self.members.append(Member(name))
            self.members[0].client.admin.command("replSetInitiate", {
                "_id": name, "settings": _SETTINGS,
                "members": [{"_id": i, "host": m.address} for i, m in enumerate(self.members)]})
            self.client: pymongo.MongoClient = pymongo.MongoClient(
                self.uri, serverSelectionTimeoutMS=60_000)
            self.await_health()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """All of them, as a connection string has them."""
        return ",".join(m.address for m in self.members)

    @property
    def uri(self) -> str:
        return f"mongodb://{self.address}/?replicaSet={self.name}"

    @property
    def primary(self) -> Member:
        """The one that takes writes, once there is one."""
        return eventually(self._primary, 60, "there is a primary")

    def _primary(self) -> Member | None:
        return next((m for m in self.members if m.hello().get("isWritablePrimary")), None)

    @property
    def secondaries(self) -> list[Member]:
        return [m for m in self.members if m.hello().get("secondary")]

    def await_health(self) -> None:
        """A primary, two secondaries, and what is written reaches all of them."""
        eventually(lambda: self._primary() and len(self.secondaries) == 2, 60, "the set is whole")
        self.client.admin.command("appendOplogNote", data={"health": 1},
                                  writeConcern={"w": 3, "wtimeout": 60_000})

    def step_up(self, *members: Member) -> None:
        """Makes one of them the primary: gracefully, if the old one lives. Of two, the others may
        elect only the one that has got more from the last primary."""
        def elected() -> bool:
            for member in members:
                try:
                    member.client.admin.command("replSetStepUp")
                except PyMongoError:
                    pass  # not this time
            return any(m.hello().get("isWritablePrimary") for m in members)
        eventually(elected, 60, "one of them is elected")

    @contextmanager
    def replication_paused(self) -> Iterator[None]:
        """Meanwhile nothing reaches the secondaries, so that no write reaches a majority.

        Ends for those that then still are what they were.
        """
        paused = self.secondaries
        entered = [m.fail_point("stopReplProducer", "alwaysOn") for m in paused]
        try:
            for member, count in zip(paused, entered):
                member.client.admin.command("waitForFailPoint", "stopReplProducer",
                                            timesEntered=count + 1, maxTimeMS=30_000)
            yield
        finally:
            for member in paused:
                if member.process.poll() is None:
                    member.fail_point("stopReplProducer", "off")

    def heal(self) -> None:
        """Brings back whoever was killed."""
        for member in self.members:
            if member.process.poll() is not None:
                member.restart()
        self.await_health()

    def close(self) -> None:
        if client := getattr(self, "client", None):
            client.close()
        for member in self.members:
            member.close()

    def __enter__(self) -> ReplicaSet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
