"""What it takes to get into a server, or into a proxy, besides its address."""

from __future__ import annotations

import dataclasses
import pathlib
import ssl
from dataclasses import dataclass


@dataclass(frozen=True)
class Access:
    """authority: whom to trust, and that TLS is to be used. certificate: one's own. Files, PEM."""

    authority: pathlib.Path | None = None
    certificate: pathlib.Path | None = None
    user: str = ""
    password: str = ""

    def uri(self, addresses: str, *options: str) -> str:
        """A connection string; options: "name=value" each."""
        login = f"{self.user}:{self.password}@" if self.user else ""
        files = {"tlsCAFile": self.authority, "tlsCertificateKeyFile": self.certificate}
        given = [f"{name}={path}" for name, path in files.items() if path]
        every = [*options, *(["tls=true"] if given else []), *given]
        return f"mongodb://{login}{addresses}" + ("/?" + "&".join(every) if every else "")

    @property
    def tls(self) -> ssl.SSLContext | None:
        """For sockets."""
        if not self.authority:
            return None
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.certificate:
            context.load_cert_chain(self.certificate)
        return context

    def without(self, *names: str) -> Access:
        """All but these, which are given by nobody."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **{name: defaults[name] for name in names})


OPEN = Access()
"""Whoever knows the address is in."""
