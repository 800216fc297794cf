"""What must never be in a log: credentials, what clients and servers prove them with, documents."""

from __future__ import annotations

import re
from collections.abc import Iterable

PASSWORD = "secret"
"""Of every user that tests make."""

CANARY = "canary-6e1f"
"""Tests put it into documents."""

_LITERALS = (
    PASSWORD, CANARY, "payload",
    # PEM: keys and certificates.
    "-----BEGIN", "PRIVATE KEY",
    # SCRAM (RFC 5802): what a client's first and last messages begin with, also in base64.
    "n,,n=", "c=biws", "biwsbj", "Yz1iaXdz",
)
_PATTERNS = re.compile(
    r"r=[!-+\--~]{16,},[si]="  # SCRAM's first message of a server, of which the client's is a part
    r"|\bcj[0-9][A-Za-z0-9+/]{40,}"  # the same in base64
    r"|\b[pv]=[A-Za-z0-9+/]{26,}="  # proof and signature
    r"|://[^/@\s]*:[^/@\s]+@")  # a connection string with a password


def passwords_in(text: str) -> set[str]:
    """Those of the connection strings in it."""
    return set(re.findall(r"://[^:/@\s]*:([^/@\s]+)@", text))


def secrets_in(lines: Iterable[str], passwords: Iterable[str] = ()) -> list[str]:
    """The lines that have any of it, or one of these passwords."""
    words = {*_LITERALS, *passwords}
    text = "\n".join(lines)
    if not any(word in text for word in words) and not _PATTERNS.search(text):
        return []
    return [line for line in text.split("\n")
            if any(word in line for word in words) or _PATTERNS.search(line)]
