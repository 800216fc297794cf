"""haproxy between the proxy and the server: it staples OCSP responses, and reads the PROXY protocol."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cryptography.x509.ocsp import OCSPCertStatus

from support.access import OPEN
from support.certificates import Issued
from support.mongod import Mongod
from support.process import eventually, free_port, start
from support.secured import Certificates
from support.wire import WireClient

RULES = [{"ns": "behind.*", "field": "n", "strategy": "counter"}]
PING = {"ping": 1, "$db": "admin"}


def listens(address: str) -> bool:
    try:
        WireClient(address).close()
    except ConnectionError:
        return False
    return True


class Haproxy:
    """bind: what its listener has beside its address. address: of that listener."""

    def __init__(self, directory: pathlib.Path, server: Mongod, bind: str):
        self.address = f"127.0.0.1:{free_port()}"
        self._log = directory / "haproxy.log"
        config = directory / "haproxy.cfg"
        config.write_text(f"""
global
    log stdout format raw daemon
defaults
    mode tcp
    log global
    log-format "client %ci:%cp"
    timeout connect 5s
    timeout client 60s
    timeout server 60s
listen all
    bind {self.address} {bind}
    server mongod {server.address}
""")
        with self._log.open("wb") as log:
            self._process = start(["haproxy", "-db", "-f", str(config)], stdout=log,
                                  stderr=subprocess.STDOUT)
        eventually(self._listens)

    def _listens(self) -> bool:
        assert self._process.poll() is None, self.log()
        return listens(self.address)

    def log(self) -> str:
        return self._log.read_text()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def haproxy(*arguments: Any) -> Iterator[Haproxy]:
    running = Haproxy(*arguments)
    try:
        yield running
    finally:
        running.stop()


def config(front: str, server: Mongod, *options: str, **upstream: Any) -> dict[str, Any]:
    return {"upstream": {"uri": OPEN.uri(front, "directConnection=true", *options), **upstream},
            "id_store": {"uri": f"mongodb://{server.address}"}, "rules": RULES}


@pytest.fixture(scope="module")
def authority_option(certificates: Certificates) -> str:
    return f"tlsCAFile={certificates.authority.file}"


class TestProxyProtocol:
    @pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
    def test_the_server_sees_the_client(self, tls, standalone, certificates, authority_option,
                                        start_proxy, tmp_path, coll):
        bind = "accept-proxy" + (f" ssl crt {certificates.servers.file}" if tls else "")
        with haproxy(tmp_path, standalone, bind) as front:
            options = ["tls=true", authority_option] if tls else []
            proxy = start_proxy(config(front.address, standalone, *options, proxy_protocol="v2"))
            with WireClient(proxy.address) as client:
                ip, port = client.socket.getsockname()
                for _ in range(3):
                    reply = client.call({"insert": coll, "documents": [{}], "$db": "behind"})
                    assert reply["n"] == 1, reply
            eventually(lambda: f"client {ip}:{port}\n" in front.log())
        numbers = sorted(each["n"] for each in standalone.client.behind[coll].find())
        assert numbers == [1, 2, 3]

    def test_a_server_that_expects_none(self, standalone, start_proxy):
        """mongod takes the header for a message, and closes."""
        proxy = start_proxy(config(standalone.address, standalone, proxy_protocol="v2"))
        event = proxy.wait_event("upstream_unreachable")
        assert "closed the connection" in event["reason"], event

    def test_a_server_that_expects_one(self, standalone, start_proxy, tmp_path):
        with haproxy(tmp_path, standalone, "accept-proxy") as front:
            proxy = start_proxy(config(front.address, standalone))
            event = proxy.wait_event("upstream_unreachable")
            assert "closed the connection" in event["reason"], event


@contextmanager
def s_server(shown: Issued, staple: pathlib.Path) -> Iterator[str]:
    """It staples whatever it is told to, and answers nothing."""
    address = f"127.0.0.1:{free_port()}"
    process = start(["openssl", "s_server", "-accept", address, "-cert", str(shown.file),
                     "-quiet", "-status_file", str(staple)],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: listens(address))
        yield address
    finally:
        process.kill()
        process.wait()


class TestStapling:
    def test_a_good_response(self, standalone, certificates, authority_option, start_proxy, tmp_path,
                             coll):
        shown = tmp_path / "shown.pem"
        shown.write_bytes(certificates.servers.file.read_bytes())
        (tmp_path / "shown.pem.ocsp").write_bytes(
            certificates.authority.answer(certificates.servers))
        (tmp_path / "shown.pem.issuer").write_bytes(certificates.authority.file.read_bytes())
        with haproxy(tmp_path, standalone, f"ssl crt {shown}") as front:
            said = subprocess.run(["openssl", "s_client", "-connect", front.address, "-status"],
                                  input="", capture_output=True, text=True).stdout
            assert "OCSP Response Status: successful" in said, "it staples"
            proxy = start_proxy(config(front.address, standalone, "tls=true", authority_option))
            with WireClient(proxy.address) as client:
                reply = client.call({"insert": coll, "documents": [{}], "$db": "behind"})
                assert reply["n"] == 1, reply

    @pytest.mark.parametrize("staple, why", [
        ("revoked", "says that it is revoked"), ("another's", "is about other certificates"),
        ("unknown", "says that its authority does not know it")])
    def test_a_bad_one(self, staple, why, standalone, certificates, authority_option, start_proxy,
                       tmp_path):
        file = tmp_path / "staple.der"
        authority, shown = certificates.authority, certificates.servers
        said = {"revoked": (shown, OCSPCertStatus.REVOKED),
                "another's": (authority.issue("CN=another"), OCSPCertStatus.GOOD),
                "unknown": (shown, OCSPCertStatus.UNKNOWN)}
        file.write_bytes(authority.answer(*said[staple]))
        with s_server(certificates.servers, file) as address:
            proxy = start_proxy(config(address, standalone, "tls=true", authority_option))
            event = proxy.wait_event("upstream_unreachable")
            assert event["reason"] == (
                "TLS: the stapled OCSP response for the server's certificate "
                f"'{certificates.servers.subject}' {why}")

    def test_that_nobody_asked_for(self, standalone, certificates, authority_option, start_proxy,
                                   tmp_path):
        file = tmp_path / "staple.der"
        file.write_bytes(certificates.authority.answer(
            certificates.servers, OCSPCertStatus.REVOKED))
        with s_server(certificates.servers, file) as address:
            proxy = start_proxy(config(address, standalone, "tls=true", authority_option,
                                       "tlsDisableCertificateRevocationCheck=true"))
            event = proxy.wait_event("upstream_unreachable")
            assert "stapled" not in event["reason"], "s_server is no mongod"
