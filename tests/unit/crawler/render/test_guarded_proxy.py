"""The browser's proxy: what it forwards and what it blocks."""

from __future__ import annotations

import asyncio
import base64

from tests.cases import cases
from tests.downloads import names, run
from tests.wire import Wire, plain
from webcrawl.crawler.render.guarded_proxy import GuardedProxy
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.dns import Resolver

NOWHERE = ["127.0.0.1:9"]


async def exchange(proxy: GuardedProxy, request: bytes, further: bytes = b"", password: str = "") -> bytes:
    """Sends `request`, then `further` after the first response; returns all that the proxy sends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    token = base64.b64encode(f"{proxy.user}:{password or proxy.password}".encode())
    writer.write(request.replace(b"\r\n", b"\r\nProxy-Authorization: Basic %s\r\n" % token, 1))
    try:
        if further:
            answer = await asyncio.wait_for(reader.readuntil(b"page"), 60)
            writer.write(further)
            return answer + await asyncio.wait_for(reader.read(), 60)
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def test_request_is_forwarded_to_its_host_only() -> None:
    async def check() -> None:
        guard = AddressGuard(["127.0.0.0/8"])
        async with Wire([plain(b"page")]) as wire, GuardedProxy(Resolver(NOWHERE), guard) as proxy:
            head = b"Host: x\r\nConnection: keep-alive\r\nProxy-Connection: keep-alive\r\nX-A: b\r\n\r\n"
            line = b"GET http://127.0.0.1:%d/a?b HTTP/1.1\r\n" % wire.port
            # the second request is for another host and must not reach this one
            answer = await exchange(proxy, line + head, b"GET http://127.0.0.2/secret HTTP/1.1\r\n\r\n")
            assert answer.endswith(b"\r\n\r\npage")
            assert wire.heads == [b"GET /a?b HTTP/1.1\r\nConnection: close\r\nHost: x\r\nX-A: b\r\n\r\n"]
            post = b"POST http://127.0.0.1:%d/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody" % wire.port
            assert (await exchange(proxy, post)).endswith(b"page") and wire.bodies[-1] == b"body"

    run(check())


def test_wrong_password_is_rejected() -> None:
    async def check() -> None:
        guard = AddressGuard(["127.0.0.0/8"])
        async with Wire([plain(b"page")]) as wire, GuardedProxy(Resolver(NOWHERE), guard) as proxy:
            for line in (b"GET http://127.0.0.1:%d/ HTTP/1.1", b"CONNECT 127.0.0.1:%d HTTP/1.1"):
                request = line % wire.port + b"\r\n\r\n"
                assert (await exchange(proxy, request, password="guessed")).startswith(b"HTTP/1.1 407 ")
            assert wire.connections == 0

    run(check())


def test_connect_opens_a_tunnel() -> None:
    async def check() -> None:
        guard = AddressGuard(["127.0.0.0/8"])
        with names(site_example="127.0.0.1") as nameserver:
            async with Wire([plain(b"page")]) as wire, GuardedProxy(Resolver([nameserver]), guard) as proxy:
                question = (
                    b"CONNECT site.example:%d HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n" % wire.port
                )
                answer = await exchange(proxy, question)
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK") and answer.endswith(
                    b"page"
                )

    run(check())


@cases(
    "line",
    [
        b"GET http://127.0.0.1:{port}/ HTTP/1.1",
        b"GET http://localhost:{port}/ HTTP/1.1",
        b"GET http://rebind.example:{port}/ HTTP/1.1",
        b"GET http://[::ffff:127.0.0.1]:{port}/ HTTP/1.1",
        b"GET http://0x7f.1:{port}/ HTTP/1.1",
        b"GET http://user@127.0.0.1:{port}/ HTTP/1.1",
        b"CONNECT 127.0.0.1:{port} HTTP/1.1",
        b"CONNECT rebind.example:{port} HTTP/1.1",
        b"CONNECT [::1]:{port} HTTP/1.1",
        b"CONNECT 127.0.0.1:99999 HTTP/1.1",
        b"GET / HTTP/1.1",
        b"GET ftp://127.0.0.1:{port}/ HTTP/1.1",
        b"nonsense",
        b"GET http://" + b"x" * 100_000,
    ],
)
def test_blocked_or_invalid_request_gets_no_response(line: bytes) -> None:
    async def check() -> None:
        with names(rebind_example="127.0.0.1") as nameserver:
            resolver = Resolver([nameserver])
            async with Wire([plain(b"secret")]) as wire, GuardedProxy(resolver, AddressGuard()) as proxy:
                question = line.replace(b"{port}", b"%d" % wire.port) + b"\r\nHost: x\r\n\r\n"
                assert await exchange(proxy, question) == b""
                assert (wire.connections, wire.heads) == (0, [])
            await resolver.close()

    run(check())
