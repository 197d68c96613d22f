"""Fixtures for transports: a mail server, certificates, and a mail to send."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.transports.base import OutboundEmail
from tests.unit.transports.mailserver import MailServer


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as running:
        yield running


@pytest.fixture
def mail() -> Callable[..., OutboundEmail]:
    """Builds a mail; any attribute may be set."""

    def make(
        to: str = "ann@example.com",
        content: bytes = b"Subject: Hi\r\n\r\nHello Ann\r\n",
        envelope_from: str = "shop@main.example",
        uuid_: str | None = None,
    ) -> OutboundEmail:
        return OutboundEmail(uuid_ or str(uuid.uuid4()), envelope_from, to, content)

    return make


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate for localhost and 127.0.0.1."""

    path: Path
    server_context: ssl.SSLContext


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    certificate_path, key_path = folder / "certificate.pem", folder / "key.pem"
    certificate_path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_path, key_path)
    return Certificate(certificate_path, context)


@pytest.fixture
def trusted(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> Certificate:
    """The certificate, trusted by this machine during the test."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
    return certificate
