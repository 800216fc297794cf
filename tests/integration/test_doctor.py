"""mongo-idproxy doctor, against mistakes that are prepared: each is found, and its remedy named."""

from __future__ import annotations

import datetime
import json
import pathlib
import re
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pymongo
import pytest
from pymongo.errors import PyMongoError

from support import wire
from support.admin import Admin
from support.certificates import Authority
from support.counters import key_of, set_counter
from support.doctor import (
    LEVELS, ROOT, Doctor, counter_rule, doctor, free_server, in_shell, line_of, no_proxies, ns, quiet, uuid_rule)
from support.guarded import Guarded
from support.middleman import Connection, Direction, Middleman
from support.mongod import Mongod
from support.process import eventually, free_port
from support.profiler import Profiler
from support.proxy import binary
from support.replica_set import ReplicaSet
from support.secrets import PASSWORD
from support.typed import create_index

PAGE = ROOT / "docs" / "troubleshooting.md"


class TestNothing:
    @pytest.mark.needs("collection_uuid")
    def test_is_wrong(self, replica_set, doctor, ns):
        done = doctor.write(quiet(replica_set, [uuid_rule(ns), counter_rule(ns)])).start()
        assert done.returncode == 0 and not done.stderr
        assert re.fullmatch(r"Nothing is wrong with configuration, descriptors, servers, user, rules.*\n",
                            done.stdout)
        found = doctor.examine()
        assert found.code == 0 and not found.document["findings"]

    @pytest.mark.needs("collection_uuid")
    def test_is_wrong_beside_a_proxy(self, replica_set, doctor, ns, start_proxy):
        admin = f"127.0.0.1:{free_port()}"
        listen = {"port": free_port(), "max_connections": 100}
        doctor.write(quiet(replica_set, [counter_rule(ns)], admin={"listen": admin}, listen=listen,
                           log={"format": "json"}, limits={"drain": "1s"}))
        start_proxy(doctor.path)
        eventually(lambda: replica_set.client.idproxy.proxies.find_one(), 30)
        found = doctor.examine()
        assert found.code == 0 and not found.document["findings"], found
        looked = {each["check"]: each for each in found.document["checks"]}
        assert looked["ports"]["looked_at"] == f"127.0.0.1:{listen['port']}, {admin} held by the running proxy"
        assert "ready" in looked["proxy"]["looked_at"] and looked["proxies"]["result"] == "ok"

    def test_is_written(self, replica_set, doctor, coll):
        """The rules want an index, a counter, ranges and reservations, none of which is there."""
        db = replica_set.client[coll]
        db.orders.insert_one({"x": 1})
        rules = [counter_rule(f"{coll}.orders", unique_index="create"),
                 {"ns": f"{coll}.ranged", "field": "r", "strategy": "counter-ranges",
                  "ranges": {"count": 5}},
                 {"ns": f"{coll}.gapless", "field": "g", "strategy": "gapless", "unique_index": "create"}]

        def state() -> dict[str, Any]:
            names = replica_set.client.list_database_names()
            return {name: replica_set.client[name].command("dbHash")["md5"]
                    for name in names if name not in ("local", "config")}

        with Profiler(replica_set, coll) as on_data, Profiler(replica_set, "idproxy") as on_store:
            before = state()
            doctor.write(quiet(replica_set, rules)).examine()
            after = state()
            sent = on_data.commands() + on_store.commands()
        assert {each["op"] for each in sent} <= {"query", "command", "getmore"}
        assert {next(iter(each["command"])) for each in sent} <= {
            "find", "aggregate", "explain", "listIndexes", "listCollections", "collStats", "getMore", "findAndModify"}
        # Whether a counter may be written, it asks with one that matches no document.
        assert not any(each.get(name) for each in sent for name in ("nModified", "ninserted", "ndeleted"))
        assert sent and after == before


class TestTheFile:
    def test_with_errors(self, doctor):
        doctor.write({"rules": [uuid_rule("shop.orders", digits=5), uuid_rule("shop.orders")]})
        found = doctor.examine()
        line = line_of(doctor.path, "digits")
        place = next(each["subject"] for each in found.document["findings"] if "digits" in each["text"])
        assert place.startswith(f"{doctor.path}:{line}:")
        found.one("config-error", "error", place, f"sudoedit {doctor.path}")
        assert [each["check"] for each in found.document["checks"]] == ["configuration"]

    def test_with_warnings(self, replica_set, doctor):
        found = doctor.write(quiet(replica_set, [])).examine()
        place = f"{doctor.path}:{line_of(doctor.path, 'rules')}:2"
        found.one("config-warning", "warning", place, f"sudoedit {doctor.path}")

    def test_with_pages_that_others_can_read(self, replica_set, doctor):
        listen = f"0.0.0.0:{free_port()}"
        config = {**quiet(replica_set, [uuid_rule("a.b")]), "admin": {"listen": listen}}
        found = doctor.write(config).examine()
        place = f"{doctor.path}:{line_of(doctor.path, listen)}:3"
        each = found.one("config-warning", "warning", place, f"sudoedit {doctor.path}")
        assert f"can reach {listen} can read, without a login, the configuration's hash" in each["text"]

    @pytest.mark.parametrize("text", ["{", "- a list", "text"])
    def test_that_is_none(self, doctor, text):
        doctor.path.write_text(text)
        done = doctor.start()
        assert done.returncode == 78 and not done.stdout and str(doctor.path) in done.stderr

    def test_that_cannot_be_read(self, tmp_path):
        assert Doctor(tmp_path / "none").start().returncode == 77

    def test_with_a_password_for_all_to_read(self, doctor):
        document = quiet(free_server(), [uuid_rule("a.b")], id_store={
            "uri": f"mongodb://store:{PASSWORD}@{free_server().address}/"})
        finding = doctor.write(document, mode=0o644).examine().one(
            "password-in-file", "warning", doctor.path, "systemctl edit mongo-idproxy")
        secret = doctor.path.parent / "store-uri"
        assert f"LoadCredential=store-uri:{secret}" in finding["text"]
        commands = [each["command"] for each in finding["commands"]]
        assert not any("chmod" in each and str(doctor.path) in each for each in commands)
        secret.write_text("of the service")
        for each in commands[:2]:
            in_shell(each)
        assert secret.read_text() == "of the service" and secret.stat().st_mode & 0o077 == 0


def edit(doctor: Doctor, before: str, after: str) -> None:
    """As its user does in the editor."""
    text = doctor.path.read_text()
    assert before in text
    doctor.path.write_text(text.replace(before, after))


class TestCertificates:
    def test_that_others_may_read(self, doctor, certificates, tmp_path):
        file = tmp_path / "server.pem"
        file.write_bytes(certificates.proxy.file.read_bytes())
        file.chmod(0o644)
        doctor.write(quiet(free_server(), [], listen={"tls": {
            "mode": "require", "certificate_key_file": str(file)}}))
        finding = doctor.examine().one("secret-file-open", "error", file, f"sudo chmod o-rwx {file}",
                                       "systemctl edit mongo-idproxy", f"sudoedit {doctor.path}")
        in_shell(finding["commands"][0]["command"])
        assert "secret-file-open" not in doctor.examine().ids

    def test_without_their_key(self, doctor, certificates, tmp_path):
        file = tmp_path / "server.pem"
        other = certificates.servers.file.read_text()
        key = other[:other.index("-----BEGIN CERTIFICATE")]
        own = certificates.proxy.file.read_text()
        file.write_text(key + own[own.index("-----BEGIN CERTIFICATE"):])
        file.chmod(0o600)
        doctor.write(quiet(free_server(), [], listen={"tls": {
            "mode": "require", "certificate_key_file": str(file)}}))
        each = doctor.examine().one("certificate-unusable", "error", file, f"openssl storeutl -noout {file}")
        in_shell(each["commands"][0]["command"])

    @pytest.mark.parametrize("key", ["ca_file", "crl_file"])
    def test_that_are_in_each_others_place(self, doctor, tmp_path, key):
        """The command fits each of them: a good file does not look broken."""
        authority = Authority(tmp_path, "authority")
        file = authority.revoked() if key == "ca_file" else authority.file
        doctor.write(quiet(free_server(), [], listen={"port": 0, "tls": {
            "mode": "require", "certificate_key_file": str(authority.issue("CN=own").file),
            "client_certificate": "require", "ca_file": str(authority.file), key: str(file)}}))
        each = doctor.examine().one("certificate-unusable", "error", file)
        for command in each["commands"]:
            in_shell(command["command"])

    def test_dates(self, doctor, tmp_path):
        authority = Authority(tmp_path, "authority")
        expired, soon, later = (authority.issue(f"CN={name},O=Example", days=days).file for name, days in (
            ("expired", (-10, -1)), ("soon", (-1, 20.5)), ("later", (2.5, 90))))
        tls = f"/?tls=true&tlsCAFile={authority.file}&tlsCertificateKeyFile="
        doctor.write({"listen": {"port": 0, "max_connections": 100, "tls": {
                          "mode": "require", "certificate_key_file": str(expired)}},
                      "upstream": {"uri": f"mongodb://{free_server().address}{tls}{soon}"},
                      "id_store": {"uri": f"mongodb://{free_server().address}{tls}{later}"},
                      "admin": {"listen": None}, "rules": [uuid_rule("a.b")]})
        found = doctor.examine()
        found.one("certificate-expired", "error", expired, f"openssl x509 -in {expired}", "reload")
        each = found.one("certificate-expires", "warning", soon, f"openssl x509 -in {soon}", "reload")
        assert "expires in 20 days" in each["text"] and "CN=soon" in each["text"]
        each = found.one("certificate-not-yet-valid", "error", later, "timedatectl")
        assert "2 days" in each["text"]
        about = [each for each in found.document["findings"] if each["check"] == "configuration"]
        assert not [each for each in about if "expire" in each["text"]], "each is told once"


class TestThisHost:
    def test_ports(self, replica_set, doctor, ns):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            doctor.write(quiet(replica_set, [uuid_rule(ns)], admin={"listen": f"127.0.0.1:{port}"},
                               listen={"address": "192.0.2.1", "port": 27117, "max_connections": 100}))
            found = doctor.examine()
            found.one("port-in-use", "error", f"127.0.0.1:{port}", f"sudo ss -ltnp 'sport = :{port}'")
            found.one("address-unavailable", "error", "192.0.2.1:27117", "ip -brief address")
            doctor.write(quiet(replica_set, [uuid_rule(ns)], listen={"port": port, "max_connections": 100}))
            finding = doctor.examine().one("port-in-use", "error", f"127.0.0.1:{port}", "sudo ss")
            assert "the proxy itself" in finding["text"]
        assert "port-in-use" not in doctor.examine().ids

    def test_descriptors(self, replica_set, doctor, ns):
        doctor.write(quiet(replica_set, [uuid_rule(ns)], listen={"port": 0, "max_connections": 5000}))
        found = doctor.examine(within=["prlimit", "--nofile=2000:2000"])
        each = found.one("descriptors-of-shell", "note", "listen.max_connections", "ulimit -n 10")
        assert "the unit has a limit of its own" in each["text"]
        assert not doctor.examine(within=["prlimit", "--nofile=11000:11000"]).ids


def changed(**fields: Any) -> Callable[[Connection, Direction, bytes], bytes]:
    """A script: the server says this in hello, and of it the version in buildInfo."""
    def script(_: Connection, direction: Direction, message: bytes) -> bytes:
        op_code, = struct.unpack_from("<i", message, 12)
        begin = {wire.OP_REPLY: 36, wire.OP_MSG: 21}.get(op_code)
        if direction == "to_server" or begin is None:
            return message
        body = bson.decode(message[begin:])
        if "maxWireVersion" in body and "localTime" in body:
            body |= {key: value for key, value in fields.items() if key != "version"}
        elif "versionArray" in body and "version" in fields:
            body["version"] = fields["version"]
        whole = message[4:begin] + bson.encode(body)
        return struct.pack("<i", len(whole) + 4) + whole
    return script


class TestServers:
    def test_that_are_not_there(self, doctor):
        gone = free_server()
        doctor.write({**quiet(gone, [counter_rule("a.b")]), "upstream": {
            "uri": f"mongodb://no-host.invalid:27017,{gone.address}"}})
        begun = time.monotonic()
        found = doctor.examine()
        assert time.monotonic() - begun < 15
        found.one("server-name-unknown", "error", "no-host.invalid:27017", "getent hosts no-host.invalid")
        each = found.one("server-unreachable", "error", gone.address, gone.address.replace(":", " "))
        assert "refused" in each["text"]
        assert found.result("user") == found.result("rules") == "skipped"

    def test_that_a_name_does_not_lead_to(self, doctor):
        doctor.write({**quiet(free_server(), [uuid_rule("a.b")]), "upstream": {
            "uri": "mongodb+srv://user:x@cluster.no-host.invalid/?tls=false"}})
        found = doctor.examine()
        found.one("server-name-unknown", "error", "upstream.uri", "_mongodb._tcp.cluster.no-host.invalid")
        assert "user" not in [each["check"] for each in found.document["checks"]]

    def test_tls(self, doctor, secured_by_tls, tmp_path):
        stranger = Authority(tmp_path, "stranger")
        address = secured_by_tls.address
        doctor.write({**quiet(secured_by_tls, [uuid_rule("a.b")]), "upstream": {
            "uri": f"mongodb://{address}/?tls=true&tlsCAFile={stranger.file}"}, "id_store": {}})
        doctor.examine().one("server-tls-fails", "error", address,
                             f"openssl s_client -connect {address} -CAfile {stranger.file}")
        doctor.write({**quiet(secured_by_tls, [uuid_rule("a.b")]), "upstream": {
            "uri": f"mongodb://{address}/"}, "id_store": {}})
        each = doctor.examine().one("server-tls-fails", "error", address, f"sudoedit {doctor.path}")
        assert "takes only connections with TLS: add tls=true" in each["text"]
        done = subprocess.run([binary(), "check", "--connect", "--config", doctor.path],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 69 and f"  {address}  wants TLS\n" in done.stdout, done.stdout
        assert "takes only connections with TLS: add tls=true" in done.stdout, done.stdout

    @pytest.mark.parametrize("said", [{"version": 7}, {"version": "x"},
                                      {"maxWireVersion": 0, "minWireVersion": 0, "version": ""}])
    def test_without_a_version(self, replica_set, doctor, ns, said):
        """It may be too old, or no server: it ends no run."""
        with Middleman(replica_set.address, script=changed(**said)) as server:
            document = quiet(replica_set, [counter_rule(ns)])
            document["upstream"] = {"uri": f"mongodb://{server.address}/?directConnection=true"}
            found = doctor.write(document).examine()
            assert server.address in next(
                each["looked_at"] for each in found.document["checks"] if each["check"] == "servers")
            done = subprocess.run([binary(), "check", "--connect", "--config", doctor.path],
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode in (0, 69) and server.address in done.stdout, done

    def test_another_set(self, replica_set, doctor, ns):
        doctor.write({**quiet(replica_set, [uuid_rule(ns)]), "upstream": {
            "uri": f"mongodb://{replica_set.address}/?replicaSet=wrong"}})
        finding = doctor.examine().one("set-name-differs", "error", "upstream.uri", f"sudoedit {doctor.path}")
        line = line_of(doctor.path, "wrong")
        assert finding["text"].endswith(f"write replicaSet=rs0, in line {line} of {doctor.path}")
        edit(doctor, "replicaSet=wrong", "replicaSet=rs0")
        in_shell(finding["commands"][1]["command"])
        assert doctor.examine().code == 0

    def test_no_set_where_one_is_named(self, standalone, doctor, coll):
        standalone.client[coll].x.create_index("code", unique=True)
        doctor.write({**quiet(standalone, [uuid_rule(f"{coll}.x")]), "upstream": {
            "uri": f"mongodb://{standalone.address}/?appName=x&replicaSet=wrong&w=1"}})
        finding = doctor.examine().one("set-name-differs", "error", "upstream.uri", f"sudoedit {doctor.path}")
        line = line_of(doctor.path, "wrong")
        assert f"has replicaSet=wrong: remove that, in line {line} of {doctor.path}" in finding["text"]
        edit(doctor, "&replicaSet=wrong", "")
        in_shell(finding["commands"][1]["command"])
        assert "set-name-differs" not in doctor.examine().ids

    def test_a_store_in_another_place(self, standalone, replica_set, doctor, ns):
        doctor.write(quiet(standalone, [uuid_rule(ns)], store=replica_set))
        doctor.examine().one("store-elsewhere", "error", "id_store.uri", "check --connect")

    def test_a_standalone_with_counters(self, standalone, doctor, coll):
        standalone.client[coll].x.create_index("n", unique=True)
        found = doctor.write(quiet(standalone, [counter_rule(f"{coll}.x")])).examine()
        found.one("standalone-server", "note", standalone.address, "rs.initiate()")
        assert found.code == 0 and found.ids <= {"standalone-server", "server-lacks"}

    def test_what_they_say_of_themselves(self, replica_set, doctor, ns):
        """Other releases, states and clocks than this host has."""
        hour = datetime.timedelta(hours=1)
        past = datetime.datetime.now(datetime.timezone.utc) - hour
        busy = dict(isWritablePrimary=False, ismaster=False, secondary=False, primary="")
        middlemen = {
            "old": changed(maxWireVersion=8, version="4.2.24"),
            "lacks": changed(maxWireVersion=13, version="5.0.4"),
            "busy": changed(**busy), "clock": changed(localTime=past),
        }
        servers = {name: Middleman(replica_set.address, script=script)
                   for name, script in middlemen.items()}
        try:
            everyone = ",".join(each.address for each in servers.values())
            document = quiet(replica_set, [uuid_rule(ns, version=7, unique_index="create")], id_store={
                "uri": replica_set.uri})
            document["upstream"] = {"uri": f"mongodb://{everyone}/?replicaSet=rs0"}
            found = doctor.write(document).examine()
            old, lacks, busy_one, clock = (each.address for each in servers.values())
            found.one("server-too-old", "error", old, "db.version()")
            found.one("member-not-ready", "warning", busy_one, "rs.status()")
            each = found.one("clock-skew", "warning", clock, "timedatectl set-ntp true")
            assert re.search("59 min|1 h ", each["text"])
            found.one("member-unlisted", "note", replica_set.address, "rs.conf()")
            each = found.one("server-releases-differ", "note", "upstream.uri", "db.version()")
            assert "4.2.24" in each["text"] and "5.0.4" in each["text"]
            each = found.one("server-lacks", "note", old, "db.version()")
            assert f"0 ({ns}, code)" in each["text"]
        finally:
            for each in servers.values():
                each.shut()

    @pytest.mark.parametrize("strategy, matters", [("ulid", True), ("snowflake", True), ("nanoid", False)])
    def test_seconds_matter_where_values_have_the_time(self, replica_set, doctor, ns, strategy, matters):
        past = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=10)
        server = Middleman(replica_set.address, script=changed(localTime=past))
        try:
            rule = {"ns": ns, "field": "code", "strategy": strategy, "unique_index": "create"}
            document = quiet(replica_set, [rule], id_store={"uri": replica_set.uri})
            document["upstream"] = {"uri": f"mongodb://{server.address}/?replicaSet=rs0"}
            assert ("clock-skew" in doctor.write(document).examine().ids) == matters
        finally:
            server.shut()

    def test_without_a_primary(self, own_set, doctor, coll):
        own_set.client[coll].x.create_index("code", unique=True)
        try:
            own_set.client.admin.command("replSetStepDown", 60, force=True)
        except PyMongoError:
            pass  # it may close the connection
        doctor.write(quiet(own_set, [uuid_rule(f"{coll}.x")]))
        found = doctor.examine()
        found.one("primary-missing", "error", "own", "rs.status()")
        own_set.client.admin.command("replSetFreeze", 0)
        eventually(lambda: own_set.client.admin.command("hello")["isWritablePrimary"], 30)
        assert "primary-missing" not in doctor.examine().ids

    def test_a_secondary_that_is_meant(self, doctor, coll, start_proxy):
        """directConnection=true: without rules, that is all well."""
        admin = f"127.0.0.1:{free_port()}"
        with ReplicaSet("direct", [{"priority": 5}, {"priority": 0}]) as members:
            secondary = members.members[1]
            document = quiet(secondary, [], admin={"listen": admin}, log={"format": "json"},
                             id_store={"uri": f"mongodb://{members.members[0].address}/?replicaSet=direct"})
            document["upstream"] = {"uri": f"mongodb://{secondary.address}/?directConnection=true"}
            proxy = start_proxy(doctor.write(document).path)
            eventually(lambda: "SECONDARY" in Admin(proxy).get("/status.json").text, 30)
            found = doctor.examine()
            assert not found.ids & {"primary-missing", "proxy-error"}, found
            assert not json.loads(Admin(proxy).get("/status.json").text)["wrong"]
            document["rules"] = [uuid_rule(f"{coll}.x", unique_index="create")]
            each = doctor.write(document).examine().one("primary-missing", "error", "direct", "rs.status()")
            assert "directConnection=true" in each["text"]

    def test_an_upgrade_that_is_not_finished(self, own_set, doctor, coll):
        own_set.client[coll].x.create_index("code", unique=True)
        admin = own_set.client.admin
        may = admin.command({"getParameter": 1, "featureCompatibilityVersion": 1})[
            "featureCompatibilityVersion"]["version"]
        before = {"4.4": "4.2", "5.0": "4.4", "6.0": "5.0"}[may]
        admin.command("setFeatureCompatibilityVersion", before)
        finding = doctor.write(quiet(own_set, [uuid_rule(f"{coll}.x")])).examine().one(
            "fcv-behind", "note", "featureCompatibilityVersion",
            f'db.adminCommand({{setFeatureCompatibilityVersion: "{may}"}})')
        assert before in finding["text"]
        admin.command("setFeatureCompatibilityVersion", may)
        assert "fcv-behind" not in doctor.examine().ids

    def test_a_set_that_was_never_made(self, doctor):
        with NoSet("none") as mongod:
            doctor.write(quiet(mongod, [uuid_rule("a.b")]))
            doctor.examine().one("set-not-initiated", "error", mongod.address, "rs.initiate()")


class NoSet(Mongod):
    """Was started for a set, and nobody has made it."""

    def _await_writable(self) -> None:
        pass


@pytest.fixture(scope="module")
def own_set() -> Iterator[Mongod]:
    """Whose state the test changes."""
    with Mongod("own") as mongod:
        yield mongod


@pytest.fixture(scope="module")
def secured_by_tls(certificates) -> Iterator[Guarded]:
    with Guarded(certificates.options, certificates.access) as mongod:
        yield mongod


class TestTheUser:
    @staticmethod
    def write(doctor: Doctor, mongod: Guarded, login: str, rules: list[dict[str, Any]]) -> Doctor:
        access = mongod.access
        uri = access.uri(mongod.address, "authSource=admin")
        document = quiet(mongod, rules, id_store={"uri": uri.replace("://", f"://{login}@") if login else uri})
        document["upstream"] = {"uri": access.uri(mongod.address)}
        return doctor.write(document)

    def test_with_a_wrong_password(self, secured_by_tls, doctor):
        secured_by_tls.add_user("typo", ["root"])
        self.write(doctor, secured_by_tls, "typo:wrong", [uuid_rule("shop.a")])
        found = doctor.examine()
        found.one("login-refused", "error", "id_store.uri", 'changeUserPassword("typo", passwordPrompt())')
        assert "server-unreachable" not in found.ids
        self.write(doctor, secured_by_tls, f"typo:{PASSWORD}", [counter_rule("shop.a", unique_index="create")])
        assert not {"login-refused", "role-missing"} & doctor.examine().ids, "root may do everything"

    def test_that_is_not_named(self, secured_by_tls, doctor):
        self.write(doctor, secured_by_tls, "", [uuid_rule("shop.a", unique_index="create")])
        found = doctor.examine()
        each = found.one("login-missing", "error", "id_store.uri", "createRole", "createUser", '"createIndex"', '"dropIndex"')
        type_in_mongosh(secured_by_tls.client, [command["command"] for command in each["commands"]])
        self.write(doctor, secured_by_tls, f"idproxy:{PASSWORD}", [uuid_rule("shop.a", unique_index="create")])
        assert not {"login-missing", "role-missing"} & doctor.examine().ids

    def test_without_roles(self, secured_by_tls, doctor):
        secured_by_tls.add_user("poor", [])
        rules = [counter_rule("shop.a", unique_index="create"), uuid_rule("bank.*"),
                 {"ns": "shop.b", "field": "d", "strategy": "random-digits"}]
        self.write(doctor, secured_by_tls, f"poor:{PASSWORD}", rules)
        found = doctor.examine()
        missing = [each for each in found.document["findings"] if each["id"] == "role-missing"]
        assert {each["level"] for each in missing} == {"warning"} == {LEVELS["role-missing"]}
        assert {each["subject"] for each in missing} == {"poor@admin"}
        commands = [command["command"] for each in missing for command in each["commands"]]
        assert 'grantRolesToUser("poor", [{role: "readWrite", db: "idproxy"}])' in " ".join(commands)
        type_in_mongosh(secured_by_tls.client, commands)
        found = doctor.examine()
        assert not {"role-missing", "rule-not-ready"} & found.ids, found

    def test_with_a_role_that_lacks_something(self, secured_by_tls, doctor):
        secured_by_tls.add_user("almost", [{"role": "readWrite", "db": "idproxy"}], [
            {"resource": {"db": "shop", "collection": ""}, "actions": ["find", "listIndexes"]}])
        self.write(doctor, secured_by_tls, f"almost:{PASSWORD}", [uuid_rule("shop.a")])
        each = doctor.examine().one(
            "role-missing", "warning", "almost@admin", 'grantPrivilegesToRole("almost", [{resource: '
            '{db: "shop", collection: ""}, actions: ["listCollections"]}])')
        type_in_mongosh(secured_by_tls.client, [command["command"] for command in each["commands"]])
        assert "role-missing" not in doctor.examine().ids


def type_in_mongosh(client: pymongo.MongoClient, commands: list[str]) -> None:
    """What creates users and roles, and grants them something."""
    for command in commands:
        found = re.fullmatch(r"db\.getSiblingDB\((.*?)\)\.(\w+)\((.*)\)", command)
        assert found, command
        # As JavaScript has them, keys need no quotes.
        text = re.sub(r"([{,]\s*)(\w+):", r'\1"\2":', found[3]).replace("passwordPrompt()", f'"{PASSWORD}"')
        arguments = json.loads(f"[{text}]")
        db, name = client[json.loads(found[1])], found[2]
        if name in ("createRole", "createUser"):
            options = arguments[0]
            value = options.pop("role" if name == "createRole" else "user")
            db.command(name, value, **options)
        else:
            key = {"grantRolesToUser": "roles", "grantPrivilegesToRole": "privileges"}[name]
            db.command(name, arguments[0], **{key: arguments[1]})


class TestRules:
    def test_that_demand_an_index(self, replica_set, doctor, coll):
        doctor.write(quiet(replica_set, [uuid_rule(f"{coll}.a", unique_index="require")]))
        each = doctor.examine().one("rule-not-ready", "error", f"{coll}.a, code", "createIndex")
        create_index(replica_set.client, each["commands"][0]["command"])
        assert doctor.examine().code == 0

    @pytest.mark.parametrize("index, why", [
        (None, ""), ({}, "it is not unique")], ids=["none", "not unique"])
    def test_whose_index_is_wrong(self, replica_set, doctor, coll, index, why):
        orders = replica_set.client[coll].orders
        orders.insert_many([{"code": "a"}, {"code": "b"}, {}])
        if index is not None:
            orders.create_index(**{"keys": "code", **index})
        doctor.write(quiet(replica_set, [uuid_rule(f"{coll}.orders")]))
        each = doctor.examine().one("index-missing", "warning", f"{coll}.orders, code", "createIndex")
        assert why in each["text"]
        create_index(replica_set.client, each["commands"][0]["command"])
        assert doctor.examine().code == 0

    @pytest.mark.parametrize("unique_index", ["warn", "create"])
    def test_with_duplicates(self, replica_set, doctor, coll, unique_index):
        orders = replica_set.client[coll].orders
        orders.insert_many([{"code": "a"}, {"code": "a"}, {"code": "b"}, {}, {}])
        doctor.write(quiet(replica_set, [uuid_rule(f"{coll}.orders", unique_index=unique_index)]))
        found = doctor.examine()
        found.one("duplicates-stored", "warning", f"{coll}.orders, code",
                  f"mongo-idproxy verify --ns {coll}.orders --field code --config {doctor.path}")
        orders.delete_one({"code": "a"})
        assert "duplicates-stored" not in doctor.examine().ids

    def test_whose_numbers_end(self, replica_set, doctor, coll, ns):
        client = replica_set.client
        rules = [counter_rule(ns, max=1000), counter_rule(f"{coll}.full", max=9)]
        client[coll].full.create_index("n", unique=True)
        set_counter(client, ns, 995)
        set_counter(client, f"{coll}.full", 10)
        found = doctor.write(quiet(replica_set, rules)).examine()
        each = found.one("numbers-run-out", "warning", f"{ns}, n", "reload")
        assert "6 numbers are left" in each["text"]
        found.one("numbers-run-out", "warning", f"{coll}.full, n", "reload")

    def test_whose_ranges_end(self, replica_set, doctor, coll):
        """One after the other, as it is usual; all of them are one finding."""
        db, ns = replica_set.client[coll], f"{coll}.orders"
        db.orders.create_index("n", unique=True)
        rule = {"ns": ns, "field": "n", "strategy": "counter-ranges", "ranges": {"count": 3, "width": 10},
                "store": {"db": coll, "collection": "ranges"}}
        db.ranges.insert_many({"_id": f"COUNTER DOCUMENT NUMBER {i}", "COUNT": 10 * i + 10, "MAX_VALUE": 10 * i + 9} for i in (0, 1))
        db.ranges.insert_one({"_id": "COUNTER DOCUMENT NUMBER 2", "COUNT": 25, "MAX_VALUE": 29})
        found = doctor.write(quiet(replica_set, [rule])).examine()
        assert "numbers-run-out" not in found.ids, found
        db.ranges.update_one({"_id": "COUNTER DOCUMENT NUMBER 2"}, {"$set": {"COUNT": 30}})
        each = doctor.examine().one("numbers-run-out", "warning", f"{ns}, n", "reload")
        assert "in all ranges" in each["text"] and "ranges.count" in each["text"] and "max" not in each["text"]
        rule["ranges"]["count"] = 4
        db.ranges.insert_one({"_id": "COUNTER DOCUMENT NUMBER 3", "COUNT": 30, "MAX_VALUE": 39})  # as a proxy does
        assert doctor.write(quiet(replica_set, [rule])).examine().code == 0

    def test_whose_period_has_ended(self, replica_set, doctor, coll, ns):
        """Its numbers, too: nobody wants more of them."""
        client, year = replica_set.client, datetime.datetime.now(datetime.timezone.utc).year
        rule = counter_rule(ns, reset="yearly", max=9, timezone="UTC")
        replica_set.client[coll].orders.drop_indexes()
        client.idproxy.uniqueIdentifierCounter.insert_one({"_id": {"c": key_of(ns), "p": str(year - 1)}, "COUNT": 10})
        found = doctor.write(quiet(replica_set, [rule])).examine()
        assert "numbers-run-out" not in found.ids, found
        client.idproxy.uniqueIdentifierCounter.insert_one({"_id": {"c": key_of(ns), "p": str(year)}, "COUNT": 10})
        doctor.examine().one("numbers-run-out", "warning", f"{ns}, n", "reload")

    def test_whose_counter_is_behind(self, replica_set, doctor, coll, ns):
        replica_set.client[coll].orders.insert_many([{"n": n} for n in range(1, 51)])
        set_counter(replica_set.client, ns, 7)
        doctor.write(quiet(replica_set, [counter_rule(ns)]))
        each = doctor.examine().one(
            "counter-behind", "warning", key_of(ns),
            f"mongo-idproxy counters sync {key_of(ns)} --config {doctor.path}")
        in_shell(each["commands"][0]["command"])
        assert doctor.examine().code == 0


class TestTheReport:
    @pytest.mark.needs("collection_uuid")
    def test_for_people(self, replica_set, doctor, coll, ns):
        doctor.write(quiet(replica_set, [uuid_rule(ns), uuid_rule(f"{coll}.bare"),
                                         uuid_rule(f"{coll}.none", unique_index="require")]))
        replica_set.client[coll].bare.insert_one({})
        done = doctor.start()
        assert done.returncode == 1 and not done.stderr and "\x1b" not in done.stdout
        head, *lines = done.stdout.splitlines()
        assert head.split() == ["RESULT", "CHECK", "LOOKED", "AT"]
        assert re.search(r"(?m)^  ok       servers  +127\.0\.0\.1:\d+ primary \d\.\d", done.stdout)
        assert re.search(r"(?m)^  error    rules  +3 rules$", done.stdout)
        error, warning = done.stdout.index("\nerror: rule-not-ready:"), done.stdout.index("\nwarning: index-missing:")
        assert error < warning
        assert "\n  mongosh> db.getSiblingDB(" in done.stdout
        assert lines[-1] == "1 error, 1 warning; docs/troubleshooting.md explains each under its name"

    def test_for_programs_is_as_documented(self, replica_set, doctor, coll):
        replica_set.client[coll].bare.insert_one({})
        document = doctor.write(quiet(replica_set, [uuid_rule(f"{coll}.bare")])).examine().document
        section = (ROOT / "docs/doctor.md").read_text()
        example = json.loads(re.search(r"(?ms)^```json\n(.*?)^```", section)[1])
        assert document.keys() == example.keys()
        assert {type(each) for each in document.values()} == {type(each) for each in example.values()}
        assert document["checks"][0].keys() == example["checks"][0].keys()
        finding = document["findings"][0]
        assert finding.keys() == example["findings"][0].keys()
        assert finding["commands"][0].keys() == example["findings"][0]["commands"][0].keys()
        names = re.findall(r"(?m)^\| `(\w+)` \|", section)
        assert [each["check"] for each in document["checks"]] == names


class TestTheCatalogue:
    """Each finding has a place in the page, and a mistake here that leads to it."""

    def test_is_in_the_page(self):
        rows = dict(re.findall(r'(?m)^\| <a id="([\w-]+)"></a>`\1` \| (error|warning|note) \|', PAGE.read_text()))
        assert rows == LEVELS
        assert list(rows) == list(LEVELS)

    def test_is_found_here(self):
        """Or in the unit test, for what a running proxy says: root believes no stand-in."""
        here = pathlib.Path(__file__)
        text = "".join(path.read_text() for path in here.parent.glob(f"{here.stem}*.py"))
        text += "".join((here.parents[1] / "unit/app" / name).read_text()
                        for name in ("doctor/doctor_test.cpp", "findings_test.cpp"))
        assert len(LEVELS) > 25
        assert [name for name in LEVELS if f'"{name}"' not in text] == []
