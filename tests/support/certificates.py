"""Throw-away certificates: authorities, and what they sign, right and wrong.

Files are PEM as mongod, the proxy and Python's ssl want them: key and certificates in one.
"""

from __future__ import annotations

import datetime
import ipaddress
import itertools
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

Days = tuple[float, float]
"""From when to when something is valid, counted from now."""
Extensions = Sequence[tuple[x509.ExtensionType, bool]]

LOCAL = ("127.0.0.1", "localhost", "::1")

_files = itertools.count()


@dataclass(frozen=True)
class Issued:
    """A certificate, and the file with it and its key."""

    certificate: x509.Certificate
    file: pathlib.Path

    @property
    def subject(self) -> str:
        """As RFC 2253 has it, and as mongod names a user of $external."""
        return self.certificate.subject.rfc4514_string()

    @property
    def serial(self) -> int:
        return self.certificate.serial_number


class Authority:
    """Signs certificates, and its own. Keeps files in `directory`."""

    def __init__(self, directory: pathlib.Path, name: str):
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name.from_rfc4514_string(f"CN={name}")
        self.certificate = _sign(
            subject, self._key, (-30, 3650), subject, self._key,
            [(x509.BasicConstraints(ca=True, path_length=None), True),
             (_key_usage(key_cert_sign=True, crl_sign=True), True)])
        self.file = _write(directory, "authority", self.certificate)
        """What is trusted by who trusts this authority."""

    def issue(self, subject: str, hosts: Sequence[str] = LOCAL, days: Days = (-1, 60),
              password: str | None = None) -> Issued:
        """subject: RFC 2253, the most specific part first: "CN=proxy,O=Example". hosts: names and
        addresses that it is for. password: of the key in its file."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign(x509.Name.from_rfc4514_string(subject), key, days,
                            self.certificate.subject, self._key, _of_a_host(hosts))
        return Issued(certificate, _write(self._directory, "issued", key, certificate,
                                          password=password))

    def except_for(self, *revoked: Issued) -> pathlib.Path:
        """As `file`, with the list of certificates that are revoked behind it."""
        return _write(self._directory, "revoked", self.certificate, self._list_of(*revoked))

    def revoked(self, *revoked: Issued) -> pathlib.Path:
        """That list alone."""
        return _write(self._directory, "list", self._list_of(*revoked))

    def answer(self, about: Issued,
               status: ocsp.OCSPCertStatus = ocsp.OCSPCertStatus.GOOD) -> bytes:
        """The OCSP response that says so, valid for a month."""
        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        builder = ocsp.OCSPResponseBuilder().add_response(
            about.certificate, self.certificate, hashes.SHA1(), status, now - day, now + 30 * day,
            now - day if status == ocsp.OCSPCertStatus.REVOKED else None, None)
        signed = builder.responder_id(ocsp.OCSPResponderEncoding.HASH, self.certificate).sign(
            self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.DER)

    def _list_of(self, *revoked: Issued) -> x509.CertificateRevocationList:
        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        builder = x509.CertificateRevocationListBuilder(
            self.certificate.subject, last_update=now - day, next_update=now + 30 * day)
        for each in revoked:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder(each.serial, now - day).build())
        return builder.sign(self._key, hashes.SHA256())


def _of_a_host(hosts: Sequence[str]) -> Extensions:
    """For either side of a connection: members of a set are each other's clients."""
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH,
                                   ExtendedKeyUsageOID.CLIENT_AUTH])
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True), (usage, False),
        (_key_usage(digital_signature=True), True)]
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(each) for each in hosts])
        extensions.append((names, False))
    return extensions


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(**allowed: bool) -> x509.KeyUsage:
    every = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
             "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{each: allowed.get(each, False) for each in every})


def _sign(subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: Days, issuer: x509.Name,
          issuers_key: ec.EllipticCurvePrivateKey, extensions: Extensions) -> x509.Certificate:
    now = datetime.datetime.now(datetime.timezone.utc)
    begin, end = (now + datetime.timedelta(days=each) for each in days)
    public = key.public_key()
    builder = x509.CertificateBuilder(
        issuer, subject, public, x509.random_serial_number(), begin, end)
    own = (x509.SubjectKeyIdentifier.from_public_key(public), False)
    theirs = (x509.AuthorityKeyIdentifier.from_issuer_public_key(issuers_key.public_key()), False)
    for extension, critical in [*extensions, own, theirs]:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuers_key, hashes.SHA256())


def _write(directory: pathlib.Path, name: str, *parts: x509.Certificate |
           x509.CertificateRevocationList | ec.EllipticCurvePrivateKey,
           password: str | None = None) -> pathlib.Path:
    path = directory / f"{name}-{next(_files)}.pem"
    path.write_bytes(b"".join(_pem(each, password) for each in parts))
    path.chmod(0o600)
    return path


def _pem(part: x509.Certificate | x509.CertificateRevocationList | ec.EllipticCurvePrivateKey,
         password: str | None) -> bytes:
    if not isinstance(part, ec.EllipticCurvePrivateKey):
        return part.public_bytes(serialization.Encoding.PEM)
    return part.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()) if password
        else serialization.NoEncryption())
