"""Attacks with TLS, by the server of tests/tls13.py."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache, partial

from benchmarks.hostile_requests import Asked, Attack
from tests.tls13 import Identity, one_byte_records, tickets


async def _flood(
    attack: Callable[..., Awaitable[None]],
    identity: Identity,
    reader: asyncio.StreamReader,
    stream: asyncio.StreamWriter,
) -> None:
    with suppress(OSError, EOFError, ValueError):
        await attack(reader, stream, identity)
    stream.close()


@cache
def _starting(attack: Callable[..., Awaitable[None]]) -> asyncio.Future[asyncio.Server]:
    answer = partial(_flood, attack, Identity.made())
    return asyncio.ensure_future(asyncio.start_server(answer, "0.0.0.0", 0))


async def encrypted(asked: Asked) -> None:
    """Links to the TLS ports of the same host: one floods with tickets, the other one with records of one byte."""
    name = asked.authority.partition(":")[0]
    servers = [await _starting(attack) for attack in (tickets, one_byte_records)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    await asked.link(f"https://{name}:{port}/{number}" for number in range(20) for port in ports)


ENCRYPTED = {
    "tls": Attack(
        "20 hosts that send endless tickets of TLS, or records of one byte, at full speed",
        encrypted,
        hosts=20,
        settings={"DOWNLOAD_VERIFY_CERTIFICATES": False},
    )
}
"""These attacks by name."""
