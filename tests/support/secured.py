"""Servers that take TLS and users only, and what the proxy needs to stand in front of them."""

from __future__ import annotations

import dataclasses
import pathlib
import ssl
from collections.abc import Sequence
from typing import Any

from .access import Access
from .certificates import Authority, Issued
from .replica_set import ReplicaSet
from .secrets import PASSWORD

STORE_ACTIONS = ["listCollections", "find", "listIndexes", "collStats"]
"""What the role in docs/tls-and-logins.md may do to databases with rules, but for createIndex."""


@dataclasses.dataclass(frozen=True)
class Certificates:
    """One authority, a certificate that all servers share, and one for the proxy's clients."""

    authority: Authority
    servers: Issued
    proxy: Issued

    @staticmethod
    def make(directory: pathlib.Path) -> Certificates:
        authority = Authority(directory, "authority")
        return Certificates(authority, authority.issue("CN=server,OU=servers,O=idproxy"),
                            authority.issue("CN=proxy,OU=proxies,O=idproxy"))

    @property
    def access(self) -> Access:
        """Of a client that trusts the authority."""
        return Access(authority=self.authority.file)

    @property
    def application(self) -> Access:
        """Of the application's user."""
        return dataclasses.replace(self.access, user="app", password=PASSWORD)

    @property
    def options(self) -> list[str]:
        """Of mongod's command line: TLS and nothing else, clients need no certificate."""
        return ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(self.servers.file),
                "--tlsCAFile", str(self.authority.file),
                "--tlsAllowConnectionsWithoutCertificates"]

    def listen(self, **more: str) -> dict[str, Any]:
        """The proxy's `listen`, with more of `listen.tls`."""
        return {"address": "127.0.0.1", "port": 0, "tls": {
            "mode": "require", "certificate_key_file": str(self.proxy.file), **more}}

    def server_context(self) -> ssl.SSLContext:
        """For a fake server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.servers.file)
        return context


class SecuredSet(ReplicaSet):
    """Members that know each other by a key file and take TLS only.

    Users: root; app, an application, which may read and write everywhere; idproxy, the store's,
    with the role of docs/tls-and-logins.md for all databases.
    """

    def __init__(self, certificates: Certificates, name: str = "rs3",
                 members: Sequence[dict[str, Any]] = ({}, {}, {})):
        self.certificates = certificates
        key = certificates.authority.file.with_name("key")
        key.write_text("idproxy" * 10)
        key.chmod(0o600)
        self._kinds = members
        super().__init__(name, members, options=[*certificates.options, "--keyFile", str(key)],
                         access=certificates.access)

    def _admit_users(self) -> None:
        client = self.primary.client
        # Whoever is on the server's host may make the first one.
        client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"])
        self.access = dataclasses.replace(self.access, user="root", password=PASSWORD)
        for member, kind in zip(self.members, self._kinds):
            member.store_access = self.store_access
            if not kind.get("arbiterOnly"):  # which knows no users
                member.client.close()
                member.access = self.access
                member._connect()
        client = self.primary.client
        client.admin.command("createUser", "app", pwd=PASSWORD,
                             roles=["readWriteAnyDatabase", "clusterMonitor"])
        client.admin.command(
            "createRole", "idproxy", roles=[{"role": "readWrite", "db": "idproxy"}],
            privileges=[{"resource": {"db": "", "collection": ""}, "actions": STORE_ACTIONS}])
        client.admin.command("createUser", "idproxy", pwd=PASSWORD, roles=["idproxy"])

    @property
    def store_access(self) -> Access:
        return dataclasses.replace(self.access, user="idproxy")

    @property
    def app_access(self) -> Access:
        return self.certificates.application
