"""Web servers and nameservers on loopback that a benchmark runs in a process of their own."""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import socket
import struct
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any, Protocol, cast

import uvloop

HTML = "text/html; charset=utf-8"
RULES = b"User-agent: *\nDisallow: /never\n"
"""The robots.txt of hosts that allow all pages."""
START_SECONDS = 60.0
MOST_HEAD = 65_536
Serve = Callable[..., Coroutine[Any, Any, None]]
Respond = Callable[[str, str, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def serving(serve: Serve, *arguments: object) -> Iterator[None]:
    """Runs `serve(*arguments, ready)` in a process, which calls `ready` once it answers."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_run, args=(serve, arguments, ready.set), daemon=True)
    process.start()
    try:
        if not ready.wait(START_SECONDS):
            raise SystemExit(f"The servers of {serve.__module__} do not start")
        yield
    finally:
        process.kill()
        process.join()


def _run(serve: Serve, arguments: tuple[object, ...], ready: Callable[[], None]) -> None:
    uvloop.run(serve(*arguments, ready))


def free_port(address: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A free port, because two benchmarks may run at the same time.

    It is below those of outgoing connections, which could take it before a server does.
    """
    while True:
        port = SystemRandom().randrange(15_000, 32_000)
        with suppress(OSError), socket.socket(type=kind) as server:
            server.bind((address, port))
            return port


def free_dns_port() -> int:
    """A free port of 127.0.0.1 for a nameserver."""
    return free_port("127.0.0.1", socket.SOCK_DGRAM)


def accepts(address: str, port: int) -> bool:
    """Whether a server accepts connections."""
    with socket.socket() as connection:
        return connection.connect_ex((address, port)) == 0


def wait_until(is_ready: Callable[[], bool], server: subprocess.Popen[bytes], log: Path) -> None:
    """Waits for a server that was started; prints its log if it ends or is not ready in time."""
    deadline = time.monotonic() + START_SECONDS
    while not is_ready():
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{server.args} does not start: {log.read_text()}")
        time.sleep(0.05)


def listening(port: int) -> socket.socket:
    """A socket for all addresses of the loopback device, and only for those."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    server.bind(("0.0.0.0", port))
    server.listen(4096)
    return server


def answer(status: str, body: bytes, kind: str = HTML, length: int | None = None) -> bytes:
    """A response with a body. `length` may lie about it."""
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n".encode() + body


async def serve_web(respond: Respond, port: int, names: Names, dns: int, ready: Callable[[], None]) -> None:
    """Serves requests at a port of all addresses of loopback, and names at the port `dns` unless that is 0."""
    server = await asyncio.start_server(partial(_converse, respond), sock=listening(port), limit=MOST_HEAD)
    if dns:
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: names, local_addr=("127.0.0.1", dns))
    ready()
    await server.serve_forever()


class PageWeb(Protocol):
    """A web of pages at a port, which may be pickled."""

    port: int

    def address(self, name: str) -> bytes | None:
        """Returns the IPv4 address of a name, None if it does not exist."""

    def page(self, host: str, path: str) -> str | None:
        """Returns a page, None if it does not exist; without a /robots.txt, RULES stand for it."""


async def serve_pages(web: PageWeb, dns: int, file: Path, ready: Callable[[], None]) -> None:
    """Serves a web, and names at the port `dns`. A line of the log is a request: time, host with port, path, status."""
    log = RequestLog(file)

    async def respond(authority: str, path: str, stream: asyncio.StreamWriter) -> None:
        page, status = web.page(authority.partition(":")[0], path), "200 OK"
        if page is None and path != "/robots.txt":
            page, status = "There is no such page", "404 Not Found"
        kind = {"txt": "text/plain", "xml": "application/xml"}.get(path.rpartition(".")[2], HTML)
        log.write(f"{authority} {path} {status[:3]}")
        stream.write(answer(status, RULES if page is None else page.encode(), kind))

    await serve_web(respond, web.port, Names(web.address), dns, ready)


async def _converse(respond: Respond, reader: asyncio.StreamReader, stream: asyncio.StreamWriter) -> None:
    """Passes on the requests of a connection, which have no bodies, as (authority, path, stream of the answer)."""
    with suppress(OSError, asyncio.IncompleteReadError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split(b" ", 2)[1].decode("latin-1")
            authority = re.search(rb"\r\nHost: ([^\r]*)", head, re.IGNORECASE)
            await respond(authority[1].decode("latin-1") if authority else "", path, stream)
    stream.close()


class RequestLog:
    """A file with a line for each request: time (monotonic), and what is said of the request."""

    def __init__(self, file: Path) -> None:
        self._lines = file.open("w", buffering=1)
        self._time = asyncio.get_running_loop().time

    def write(self, text: str) -> None:
        self._lines.write(f"{self._time()} {text}\n")


def requests(log: Path) -> list[tuple[float, str]]:
    """The requests of a log: times in seconds, and what was said of them."""
    lines = (line.partition(" ") for line in log.read_text().splitlines(keepends=True) if line.endswith("\n"))
    return [(float(moment), text.strip()) for moment, _, text in lines]


class Names(asyncio.DatagramProtocol):
    """Answers every question for IPv4 addresses of a host, and no other.

    `addresses_of` returns the bytes of a name's addresses, four of each; None if the name does not exist, b"" for no
    answer at all. `delay` returns the seconds after which a name is answered.
    """

    def __init__(
        self,
        addresses_of: Callable[[str], bytes | None],
        delay: Callable[[str], float] = lambda name: 0.0,
    ) -> None:
        self._addresses_of = addresses_of
        self._delay = delay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | int, int]) -> None:
        end = data.index(b"\0", 12) + 5
        name = _name(data[12 : end - 5])
        packed = self._addresses_of(name)
        if packed == b"":
            return
        kind = struct.unpack("!H", data[end - 4 : end - 2])[0]
        addresses = [packed[start : start + 4] for start in range(0, len(packed or b""), 4) if kind == 1]
        flags = 0x8183 if packed is None else 0x8180
        reply = data[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0) + data[12:end]
        for address in addresses:
            reply += b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 3600, 4) + address
        if delay := self._delay(name):
            asyncio.get_running_loop().call_later(delay, self._transport.sendto, reply, addr)
        else:
            self._transport.sendto(reply, addr)


def _name(labels: bytes) -> str:
    """A name from the labels of a question, without the root."""
    parts, start = [], 0
    while start < len(labels):
        parts.append(labels[start + 1 : start + 1 + labels[start]].decode("latin-1"))
        start += 1 + labels[start]
    return ".".join(parts)
