"""Certificates for tests of TLS, made when they are needed."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)


class Identity(NamedTuple):
    """Paths of files in PEM."""

    certificate: Path
    key: Path

    def read(self) -> tuple[bytes, bytes]:
        return self.certificate.read_bytes(), self.key.read_bytes()


class Authority:
    """Signs certificates for servers on this machine and for clients. `root` has its own."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} authority")])
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.root = folder / f"{name}-root.pem"
        self.root.write_bytes(builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def server(self, name: str = "server", days: int = 2) -> Identity:
        return self._issue(name, ExtendedKeyUsageOID.SERVER_AUTH, days)

    def client(self, name: str = "client") -> Identity:
        return self._issue(name, ExtendedKeyUsageOID.CLIENT_AUTH, 2)

    def _issue(self, name: str, usage: x509.ObjectIdentifier, days: int) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        hosts = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1")), x509.IPAddress(ip_address("::1"))]
        )
        builder = self._builder(subject, key, days).add_extension(hosts, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        identity = Identity(self._folder / f"{name}.pem", self._folder / f"{name}-key.pem")
        identity.certificate.write_bytes(builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        identity.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return identity

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 2) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return x509.CertificateBuilder(
            self._name, subject, key.public_key(), x509.random_serial_number(), now - 3 * _DAY, now + days * _DAY
        )

    def trusting(self, client: Identity | None = None, *protocols: str) -> ssl.SSLContext:
        """What a client of this authority's servers needs. `client` is the certificate that it shows."""
        context = ssl.create_default_context(cafile=str(self.root))
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context


def encrypted_key(path: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    return path
