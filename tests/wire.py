"""A TCP server for tests that sends exact bytes, and records the exact bytes it receives."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.listener import Listener

SLOWEST = 10.0
NOT_YOU = b"HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n"
"""The refusal of a proxy that does not accept the credentials."""


@dataclass(frozen=True)
class Say:
    """One answer: pieces of bytes to write in order, and what happens to the connection afterwards.

    `then`: "stay" open, "close" it, "reset" it (RST), or "hang" (for SLOWEST seconds). `pause` seconds pass
    before each piece but the first. The request is read completely before the first piece.
    """

    pieces: Sequence[bytes]
    then: str = "stay"
    pause: float = 0.0


def plain(body: bytes, *lines: bytes, status: bytes = b"200 OK") -> Say:
    """A response with a Content-Length."""
    head = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *lines]
    return Say([b"\r\n".join([*head, b"", body])])


@dataclass
class Wire(Listener):
    """Serves on loopback as an async context manager: each answer in turn, then the last one repeatedly.

    `heads` and `bodies` are the raw heads and bodies of the requests; `connections` counts the connections.
    """

    answers: Sequence[Say | Callable[[bytes], Say]]
    tls: ssl.SSLContext | None = None
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        self.bodies.append(await reader.readexactly(_announced(head)))
        answer = self.answers[min(len(self.heads), len(self.answers)) - 1]
        say = answer if isinstance(answer, Say) else answer(head)
        for number, piece in enumerate(say.pieces):
            await asyncio.sleep(say.pause if number else 0)
            writer.write(piece)
            await writer.drain()
        if say.then == "hang":
            await asyncio.sleep(SLOWEST)
        if say.then == "reset":
            writer.transport.abort()
        return say.then == "stay"


def _announced(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@dataclass
class Proxy:
    """An HTTP proxy on loopback: forwards absolute URIs and CONNECT to the local port that `ways` maps a host to.

    `asked` lists the request lines, `credentials` the Proxy-Authorization of each request.
    """

    ways: dict[str, int]
    asked: list[bytes] = field(default_factory=list)
    credentials: list[bytes | None] = field(default_factory=list)
    refusal: bytes | None = None
    grant: bytes = b"HTTP/1.1 200 Go on\r\n\r\n"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._carry(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        self.asked.append(line)
        fields = [field.partition(b": ") for field in rest.split(b"\r\n")]
        found = [value for name, _, value in fields if name.lower() == b"proxy-authorization"]
        self.credentials.append(found[0] if found else None)
        if self.refusal:
            writer.write(self.refusal)
            return
        method, target, _ = line.split(b" ")
        host = target.split(b"/")[2] if b"://" in target else target
        there, back = await asyncio.open_connection("127.0.0.1", self.ways[host.decode()])
        if method == b"CONNECT":
            writer.write(self.grant)
        else:
            # one request a connection, since only the first one is read
            line = line.replace(b"http://" + host, b"", 1)
            back.write(line + b"\r\nConnection: close\r\n" + rest)
        await asyncio.gather(_copy(reader, back), _copy(there, writer))


@dataclass
class SocksProxy(Proxy):
    """A SOCKS proxy on loopback, of versions 4, 4a and 5; connects to the local port that `ways` maps a host to.

    `asked` lists the hosts with ports, `credentials` the user, or user and password, of each connection. It refuses
    other logins than `login`, answers `refusal` to a request if that is set, and `says` instead of anything.
    """

    login: bytes | None = None
    says: bytes | None = None

    @property
    def url(self) -> str:
        return f"socks5h://127.0.0.1:{self.port}"

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.says is not None:
            writer.write(self.says)
            return
        version = (await reader.readexactly(1))[0]
        target = await (self._asked_by_5(reader, writer) if version == 5 else self._asked_by_4(reader))
        if target is None:
            return
        self.asked.append(target)
        port = self.ways.get(target.decode())
        granted, unreachable = (b"\5\0\0\1", b"\5\4\0\1") if version == 5 else (b"\0\x5a", b"\0\x5b")
        reply = self.refusal or (granted if port else unreachable)
        writer.write(reply + bytes(6))
        if reply is granted:
            there, back = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))

    async def _asked_by_4(self, reader: asyncio.StreamReader) -> bytes:
        _, port, address = struct.unpack("!BH4s", await reader.readexactly(7))
        self.credentials.append((await reader.readuntil(b"\0"))[:-1])
        is_name = address[:3] == bytes(3) and address[3]
        host = (await reader.readuntil(b"\0"))[:-1] if is_name else socket.inet_ntoa(address).encode()
        return b"%s:%d" % (host, port)

    async def _asked_by_5(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """Returns the host and port asked for, None after a refused login."""
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        wanted = 0 if self.login is None else 2
        writer.write(bytes([5, wanted if wanted in methods else 255]))
        if wanted not in methods:
            return None
        if wanted:
            _, size = await reader.readexactly(2)
            user = await reader.readexactly(size)
            login = user + b":" + await reader.readexactly((await reader.readexactly(1))[0])
            self.credentials.append(login)
            writer.write(bytes([1, login != self.login]))
            if login != self.login:
                return None
        kind = (await reader.readexactly(4))[3]
        if kind == 3:
            host = await reader.readexactly((await reader.readexactly(1))[0])
        else:
            packed = await reader.readexactly(4 if kind == 1 else 16)
            host = str(ipaddress.ip_address(packed)).encode()
        return b"%s:%d" % (host, int.from_bytes(await reader.readexactly(2)))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
    sink.close()


Server = TypeVar("Server", bound=AbstractAsyncContextManager[Any])


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Runs a proxy or another server in a thread, for crawls in other processes."""
    ready = threading.Event()
    ends: list[Callable[[], Any]] = []

    async def serve() -> None:
        done = asyncio.Event()
        ends.append(partial(asyncio.get_running_loop().call_soon_threadsafe, done.set))
        async with server:
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield server
    finally:
        ends[0]()
        thread.join(5)
