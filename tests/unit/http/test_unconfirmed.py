"""Connections whose servers confirm nothing are given up in time."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import sys

import pytest

from webcrawl.http.pool import Pool, Way
from webcrawl.http.requests import Origin


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such option")
@pytest.mark.parametrize(("seconds", "ms"), [(0.0, 0), (0.8, 800), (12.0, 12_000)])
def test_the_system_does_not_send_again_after_the_limit(seconds: float, ms: int) -> None:
    assert asyncio.run(_user_timeout(seconds)) == ms


async def _user_timeout(seconds: float) -> int:
    async def resolve(host: str, port: int) -> list[str]:
        return [host]

    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    pool = Pool(resolve, ssl.create_default_context, unconfirmed_seconds=seconds)
    try:
        connection = await pool.take(Way(Origin("http", "127.0.0.1", server.sockets[0].getsockname()[1])))
        assert connection.transport is not None
        opened = connection.transport.get_extra_info("socket")
        return int(opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
    finally:
        await pool.close()
        server.close()


_CUT_OFF = """
import asyncio, ssl, subprocess, time
from webcrawl.errors import Unconfirmed
from webcrawl.http.pool import Pool, Way
from webcrawl.http.requests import Origin

async def ask() -> None:
    async def resolve(host, port):
        return [host]
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    pool = Pool(resolve, ssl.create_default_context, unconfirmed_seconds=0.5)
    connection = await pool.take(Way(Origin("http", "127.0.0.1", server.sockets[0].getsockname()[1])))
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    connection.send("GET", b"GET / HTTP/1.1\\r\\n\\r\\n")
    try:
        async with asyncio.timeout(60):
            await connection.head()
    except Unconfirmed as error:
        print("given up:", error)

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
asyncio.run(ask())
"""
_OWN_NETWORK = ("unshare", "--user", "--map-root-user", "--net")


def test_request_without_a_network_is_given_up() -> None:
    if not shutil.which("ip") or subprocess.run([*_OWN_NETWORK, "true"], capture_output=True).returncode:
        pytest.skip("no network namespaces here")
    words = [*_OWN_NETWORK, sys.executable, "-c", _CUT_OFF]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ended.stdout.startswith("given up:"), ended.stderr
