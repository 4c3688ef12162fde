"""aiohttp with what it lacks: our resolver and guard, a last look before a request goes out, bytes for the archive."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from weakref import WeakSet

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult
from scrapy import Request

from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.dns import Resolver

check_now: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)
"""What is called right before the request goes out; it may raise."""
_used: WeakSet[object] = WeakSet()
"""Connections over which a request went."""
over_kept: ContextVar[bool] = ContextVar("kept", default=False)
"""Whether the request goes over one of these."""


class GuardedResolver(AbstractResolver):
    """The addresses that aiohttp may connect to: resolved by ours, each checked at the moment of connecting."""

    def __init__(self, resolver: Resolver, guard: AddressGuard) -> None:
        self._resolver = resolver
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answer = await self._resolver.resolve(host)
        results = []
        for address in answer.addresses:
            self._guard.check(address, hostname=host, port=port)
            kind = socket.AF_INET6 if ":" in address else socket.AF_INET
            results.append(
                ResolveResult(
                    hostname=host, host=address, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST
                )
            )
        return results

    async def close(self) -> None:
        """The resolver is the session's to close."""


class WireRequest(aiohttp.ClientRequest):
    """Asks at the last moment whether it may go out: connecting takes time, and a process may have been asleep."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        if check := check_now.get():
            check()
        over_kept.set(conn.protocol in _used)
        _used.add(conn.protocol)
        return await super().send(conn)


class WireResponse(aiohttp.ClientResponse):
    """Keeps what aiohttp forgets once the connection is given back: the peer and its certificate."""

    peer: str | None = None
    certificate: bytes | None = None

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        if transport := connection.transport:
            peername = transport.get_extra_info("peername")
            self.peer = peername[0].partition("%")[0] if peername else None
            tls = transport.get_extra_info("ssl_object")
            self.certificate = tls.getpeercert(binary_form=True) if tls else None
        return await super().start(connection)


def sent_headers(request: Request) -> list[tuple[str, str]]:
    """The headers as aiohttp wants them, which sends them as UTF-8: bytes that are not become so."""
    return [
        (name.decode("latin-1"), _text(value))
        for name, values in request.headers.items()
        if name != b"Proxy-Authorization"
        for value in values
    ]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def exchange_over(request: Request, received: WireResponse, payload: Body, truncated: str | None) -> Exchange:
    """What went over the wire, byte by byte."""
    url = yarl.URL(request.url, encoded=True)
    sent: Mapping[str, str] = received.request_info.headers
    request_lines = [f"{request.method} {url.raw_path_qs or '/'} HTTP/1.1"]
    # the credentials for a proxy are not for an archive
    request_lines += [f"{name}: {value}" for name, value in sent.items() if name != "Proxy-Authorization"]
    version = received.version or aiohttp.HttpVersion11
    reason = received.reason or _phrase(received.status)
    status_line = f"HTTP/{version.major}.{version.minor} {received.status} {reason}"
    response_lines = [
        status_line.encode("utf-8", "surrogateescape"),
        *(name + b": " + value for name, value in received.raw_headers),
    ]
    return Exchange(
        url=request.url,
        method=request.method,
        request_head="\r\n".join([*request_lines, "", ""]).encode(),
        request_body=request.body,
        status=received.status,
        response_head=b"\r\n".join([*response_lines, b"", b""]),
        payload=payload,
        ip_address=received.peer,
        fetched_at=datetime.now(UTC),
        truncated=truncated,
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
