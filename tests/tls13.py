"""A server of TLS 1.3 for attacks: it makes a handshake, and then sends records as an attacker chooses them.

It serves tests and the benchmark of attacks.

Python's own `ssl` cannot send more messages of the handshake than its protocol needs, nor several in one record.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import hmac
import os
import struct
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509.oid import NameOID

HANDSHAKE, DATA = 22, 23
MOST = 16_384
"""Bytes of a record."""
# a NewSessionTicket with a ticket of one byte (RFC 8446, section 4.6.1)
TICKET = bytes([4, 0, 0, 14]) + struct.pack("!II", 7_200, 0) + bytes([0]) + b"\0\1t" + b"\0\0"
_AES_128_GCM_SHA256, _X25519, _ECDSA = b"\x13\x01", b"\x00\x1d", b"\x04\x03"
_VERSION = b"\x00\x2b\x00\x02\x03\x04"
_SIGNED = b" " * 64 + b"TLS 1.3, server CertificateVerify\0"


@dataclass(frozen=True, slots=True)
class Identity:
    """A key, and a certificate signed by it, in DER."""

    key: ec.EllipticCurvePrivateKey
    certificate: bytes

    @classmethod
    def made(cls) -> Identity:
        key, name = ec.generate_private_key(ec.SECP256R1()), x509.NameAttribute(NameOID.COMMON_NAME, "bad")
        now, names = datetime.datetime.now(datetime.UTC), x509.Name([name])
        made = x509.CertificateBuilder().subject_name(names).issuer_name(names).public_key(key.public_key())
        made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(1))
        encoded = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
        return cls(key, encoded)


class Records:
    """One direction of a connection: makes encrypted records."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(_expand(secret, b"key", b"", 16))
        self._iv = int.from_bytes(_expand(secret, b"iv", b"", 12))
        self._number = 0

    def record(self, content: bytes, kind: int) -> bytes:
        head = struct.pack("!BHH", DATA, 0x0303, len(content) + 17)
        nonce = (self._iv ^ self._number).to_bytes(12)
        self._number += 1
        return head + self._cipher.encrypt(nonce, content + bytes([kind]), head)


async def greet(reader: asyncio.StreamReader, stream: asyncio.StreamWriter, identity: Identity) -> Records:
    """Makes a handshake as a server; returns the direction to the client. The client's records are not read."""
    head = await reader.readexactly(5)
    hello = await reader.readexactly(int.from_bytes(head[3:]))
    ours = x25519.X25519PrivateKey.generate()
    shared = ours.exchange(x25519.X25519PublicKey.from_public_bytes(_share(hello)))
    share = b"\x00\x33" + _sized(_X25519 + _sized(ours.public_key().public_bytes_raw()))
    session = hello[39 : 39 + hello[38]]
    about = b"\x03\x03" + os.urandom(32) + bytes([len(session)]) + session + _AES_128_GCM_SHA256 + b"\0"
    answer = _message(2, about + _sized(_VERSION + share))
    stream.write(struct.pack("!BHH", HANDSHAKE, 0x0303, len(answer)) + answer)
    early = _extract(b"", bytes(32))
    handshake = _extract(_expand(early, b"derived", hashlib.sha256().digest()), shared)
    seen = hello + answer
    secret = _derived(handshake, b"s hs traffic", seen)
    certificate = b"\0" + _sized(_sized(identity.certificate, 3) + b"\0\0", 3)
    flight = _message(8, b"\0\0") + _message(11, certificate)
    signed = _SIGNED + hashlib.sha256(seen + flight).digest()
    flight += _message(15, _ECDSA + _sized(identity.key.sign(signed, ec.ECDSA(hashes.SHA256()))))
    finished = hmac.digest(_expand(secret, b"finished"), hashlib.sha256(seen + flight).digest(), "sha256")
    flight += _message(20, finished)
    stream.write(Records(secret).record(flight, HANDSHAKE))
    main = _extract(_expand(handshake, b"derived", hashlib.sha256().digest()), bytes(32))
    return Records(_derived(main, b"s ap traffic", seen + flight))


async def asked(reader: asyncio.StreamReader) -> None:
    """Waits for the request, which comes after the end of the client's handshake."""
    encrypted_records = 0
    while encrypted_records < 2:
        head = await reader.readexactly(5)
        await reader.readexactly(int.from_bytes(head[3:]))
        encrypted_records += head[0] == DATA


def _share(hello: bytes) -> bytes:
    """The key for X25519 in a ClientHello."""
    start = hello.index(_X25519 + b"\x00\x20", 40) + 4
    return hello[start : start + 32]


def _message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + _sized(body, 3)


def _sized(data: bytes, width: int = 2) -> bytes:
    return len(data).to_bytes(width) + data


def _extract(salt: bytes, key: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), key, "sha256")


def _expand(secret: bytes, label: bytes, context: bytes = b"", length: int = 32) -> bytes:
    """HKDF-Expand-Label of RFC 8446, section 7.1, for at most one block."""
    label = b"tls13 " + label
    about = length.to_bytes(2) + bytes([len(label)]) + label + bytes([len(context)]) + context
    return hmac.digest(secret, about + b"\x01", "sha256")[:length]


def _derived(secret: bytes, label: bytes, seen: bytes) -> bytes:
    return _expand(secret, label, hashlib.sha256(seen).digest())


async def tickets(reader: asyncio.StreamReader, stream: asyncio.StreamWriter, identity: Identity) -> None:
    """Sends tickets for later sessions at full speed, and never an answer."""
    to_client = await greet(reader, stream, identity)
    while True:
        stream.write(to_client.record(TICKET * (MOST // len(TICKET)), HANDSHAKE))
        await stream.drain()


async def one_byte_records(
    reader: asyncio.StreamReader, stream: asyncio.StreamWriter, identity: Identity
) -> None:
    """Sends an endless body in records of one byte."""
    to_client = await greet(reader, stream, identity)
    await asked(reader)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000000\r\n\r\n"
    stream.write(to_client.record(head, DATA))
    while True:
        stream.write(b"".join(to_client.record(b"a", DATA) for _ in range(1_000)))
        await stream.drain()
