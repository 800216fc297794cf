"""Three members of a replica set, to be stepped down, killed, cut off and brought back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymongo
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from .access import OPEN, Access
from .mongod import Mongod
from .process import Closing, eventually, free_ports

# Not as low as it goes: on a busy machine a primary that says nothing for a moment is no dead one.
SETTINGS = {"electionTimeoutMillis": 3000, "heartbeatIntervalMillis": 200,
             "heartbeatTimeoutSecs": 2, "catchUpTimeoutMillis": 2000}


# Why a change of the list is refused for a moment: NewReplicaSetConfigurationIncompatible (a member
# that joined gets its vote), ConfigurationInProgress, CurrentConfigNotCommittedYet,
# NotWritablePrimary, NodeNotFound, InterruptedDueToReplStateChange.
_FOR_NOW = {103, 109, 308, 10107, 74, 11602}

# What a member is besides an ordinary one, as its set's configuration has it.
ARBITER = {"arbiterOnly": True}
HIDDEN = {"hidden": True, "priority": 0}
PASSIVE = {"priority": 0}


class Member(Mongod):
    """One of a set. restart() brings it back after kill(), with its data."""

    def _await_writable(self) -> None:
        self._connect()  # the set sees to the rest

    def _connect(self) -> None:
        """Whoever asks a member that was just killed is not to wait for it."""
        self.client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=3_000)

    def restart(self) -> None:
        (self._directory / "mongod.log").unlink(missing_ok=True)
        self._start(self.port)
        self._connect()

    def move(self, port: int) -> None:
        """Brings it back elsewhere. Its set is not told."""
        self.kill()
        self.port = port
        self.restart()

    def wipe(self) -> None:
        """Kills it, and everything that it knows is gone."""
        self.kill()
        shutil.rmtree(self._directory)
        self._directory.mkdir()

    @contextmanager
    def outside_its_set(self) -> Iterator[pymongo.MongoClient]:
        """A client of the same data without a set, which then may be changed: whoever of the set
        is asked meanwhile does not answer. It is stopped afterwards."""
        self.kill()
        name, self.replica_set = self.replica_set, None
        options = self.options
        # Nothing may be written here that the others do not have.
        self.options = [*options, "--setParameter", "disableLogicalSessionCacheRefresh=true"]
        try:
            self.restart()
            yield self.client
            self.client.admin.command("fsync")
        finally:
            self.kill()
            self.replica_set, self.options = name, options

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


class ReplicaSet(Closing):
    """Runs from construction until close(). `members` says what is special about each (ARBITER and
    the like), `host`, `options` and `access` are those of a Mongod."""

    def __init__(self, name: str = "rs3", members: Sequence[dict[str, Any]] = ({}, {}, {}),
                 host: str = "127.0.0.1", options: Sequence[str] = (), access: Access = OPEN):
        self.name = name
        self._host, self._options = host, options
        self.access = access
        self.members: list[Member] = []
        try:
            for _ in members:
                self.members.append(self._new_member())
            self._initiate(members)
        except BaseException:
            self.close()
            raise

    def _new_member(self) -> Member:
        """Its port is none that somebody else's connection may have while it is down."""
        return Member(self.name, free_ports(1, self._host)[0], self._host, self._options,
                      self.access)

    def _initiate(self, members: Sequence[dict[str, Any]]) -> None:
        self.members[0].client.admin.command("replSetInitiate", {
            "_id": self.name, "settings": SETTINGS, "members": [
                {"_id": i, "host": m.address, **more}
                for i, (m, more) in enumerate(zip(self.members, members))]})
        eventually(self._primary, 60, "there is a primary")
        self._admit_users()
        self.client: pymongo.MongoClient = pymongo.MongoClient(
            self.uri, serverSelectionTimeoutMS=60_000)
        # With many arbiters it would be less, and then none could be added.
        self.client.admin.command("setDefaultRWConcern", defaultWriteConcern={"w": "majority"})
        self.await_health()

    def _admit_users(self) -> None:
        """There is a primary now, and who may do what can be stored."""

    @property
    def address(self) -> str:
        """All of them, as a connection string has them."""
        return ",".join(m.address for m in self.members)

    @property
    def app_access(self) -> Access:
        """How applications get in."""
        return self.access

    @property
    def uri(self) -> str:
        return self.access.uri(self.address, f"replicaSet={self.name}")

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
        """A primary, the others are secondaries or arbiters, and what is written reaches all."""
        def whole() -> bool:
            says = [m.hello() for m in self.members]
            if not all(s.get("isWritablePrimary") or s.get("secondary") or s.get("arbiterOnly")
                       for s in says) or not self._primary():
                return False
            bearing = sum(not s.get("arbiterOnly") for s in says)
            try:
                self.client.admin.command("appendOplogNote", data={"health": 1},
                                          writeConcern={"w": bearing, "wtimeout": 60_000})
            except AutoReconnect:
                return False  # another one was elected just now, or the client asked the old primary
            return True
        eventually(whole, 60, "the set is whole")

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

    def step_down(self) -> None:
        """The primary resigns and hands over to one that has caught up; three seconds later it
        may be elected again."""
        old = self.primary

        def resigned() -> bool:
            try:
                old.client.admin.command("replSetStepDown", 3, secondaryCatchUpPeriodSecs=2)
            except PyMongoError:
                pass  # nobody had caught up, or it is done and the reply was lost
            return not old.hello().get("isWritablePrimary")
        eventually(resigned, 60, "the primary resigns")

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

    def reconfigure(self, change: Callable[[list[dict[str, Any]]], None]) -> None:
        """Changes the set's list of members: by one voting member at a time, as the server has it.
        A member that joins has no vote for a while, so that the list changes twice."""
        refusals: list[PyMongoError] = []

        def accepted() -> bool:
            try:
                admin = self.primary.client.admin
                config = admin.command("replSetGetConfig")["config"]
                change(config["members"])
                config["version"] += 1
                admin.command("replSetReconfig", config, maxTimeMS=30_000)
                return True
            except AutoReconnect as error:
                refusals.append(error)
            except OperationFailure as error:
                if error.code not in _FOR_NOW:
                    raise
                refusals.append(error)
            return False

        try:
            eventually(accepted, 120, "the set has its new members")
        except TimeoutError as error:
            raise error from (refusals[-1] if refusals else None)

    def add(self, more: dict[str, Any] = {}) -> Member:
        """Starts a new member and admits it."""
        member = self._new_member()
        self.members.append(member)
        return self.admit(member, more)

    def admit(self, member: Member, more: dict[str, Any] = {}) -> Member:
        """Adds a member that runs already."""
        def change(members: list[dict[str, Any]]) -> None:
            if all(m["host"] != member.address for m in members):
                number = 1 + max(m["_id"] for m in members)
                members.append({"_id": number, "host": member.address, **more})
        self.reconfigure(change)
        return member

    def expel(self, member: Member) -> None:
        """It runs on, as one that belongs to no set."""
        def change(members: list[dict[str, Any]]) -> None:
            members[:] = [m for m in members if m["host"] != member.address]
        self.reconfigure(change)

    def remove(self, member: Member) -> None:
        """It is gone for good."""
        self.expel(member)
        self.members.remove(member)
        member.close()

    def move(self, member: Member, port: int) -> None:
        """It keeps its data and its _id, and has another address from now on."""
        old = member.address
        member.move(port)

        def change(members: list[dict[str, Any]]) -> None:
            for each in members:
                if each["host"] == old:
                    each["host"] = member.address
        self.reconfigure(change)

    def rename(self, name: str) -> None:
        """All of them are down meanwhile."""
        self.client.close()  # first: it says goodbye to a server, and would look for one
        for member in self.members:
            member.kill()
        for member in self.members:
            with member.outside_its_set() as client:
                stored = client.local["system.replset"]
                config = stored.find_one()
                stored.delete_one({"_id": config["_id"]})
                stored.insert_one({**config, "_id": name})
            member.replica_set = name
        self.name = name
        for member in self.members:
            member.restart()
        self.client = pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=60_000)
        self.await_health()

    def initiate_again(self) -> None:
        """As a new set of the same name and addresses, without data: its elections and the
        versions of its configuration count from the start."""
        self.client.close()
        for member in self.members:
            member.wipe()
        for member in self.members:
            member.restart()
        self._initiate([{} for _ in self.members])

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
