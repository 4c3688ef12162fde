"""A certificate authority for servers on loopback."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAYS = 7


def issue(folder: Path, addresses: Iterable[str]) -> None:
    """Writes ca.pem, key.pem and an ADDRESS.pem for each address. Keys are ECDSA, like most on the web."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("webcrawl benchmark CA")
    builder = _builder(issuer, issuer, authority.public_key(), is_authority=True)
    _write(folder / "ca.pem", builder.sign(authority, hashes.SHA256()))
    for address in addresses:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        builder = _builder(_name(address), issuer, key.public_key(), is_authority=False)
        builder = builder.add_extension(names, critical=False)
        _write(folder / f"{address}.pem", builder.sign(authority, hashes.SHA256()))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, is_authority: bool
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
