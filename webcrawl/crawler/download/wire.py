"""Extends aiohttp: our resolver and guard, a check right before a request is sent, and the bytes for the archive."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, NamedTuple
from weakref import WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from scrapy import Request

from webcrawl.crawler.download.attempts import note_connected
from webcrawl.crawler.errors import ProxyFailed
from webcrawl.crawler.fetch import PacedCheck
from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.dns import Resolver, to_try
from webcrawl.metrics.observations import Observations
from webcrawl.urls.canonical import without_fragment

check_now: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)
"""Called right before the request is sent; may raise an exception to prevent that."""
held_up: ContextVar[float] = ContextVar("held up", default=0.0)
"""Seconds for which the request waited on its connection before it was sent."""
_used: WeakSet[object] = WeakSet()
"""Connections that have sent a request."""
over_kept: ContextVar[bool] = ContextVar("kept", default=False)
"""Whether the request is sent over a connection that has sent another request."""


class UsedConnection(NamedTuple):
    """A connection, and the bytes that it had received before a request was sent."""

    protocol: Any
    before: int

    @property
    def received(self) -> int:
        """Bytes received since the request was sent, with heads and framing."""
        return int(self.protocol.received) - self.before


connection_of: ContextVar[UsedConnection | None] = ContextVar("connection", default=None)
"""The connection over which the request is sent."""


@dataclass(slots=True)
class Sending:
    """The times when a request began, got its connection and was sent, by `time.monotonic`."""

    began: float
    connected: float = 0.0
    sent: float = 0.0
    is_kept: bool = False
    """The connection has sent another request before."""

    def observe(self, observed: Observations, url: str) -> None:
        """Observes the stages up to the head of the response, which is complete now."""
        if not self.is_kept:
            observed.stage("connect", url, self.began, self.connected)
        observed.stage("first_byte", url, self.sent)

    def fail(self, observed: Observations, url: str) -> None:
        """Adds the stage in which the request failed to the trace of its page; histograms have whole stages."""
        if observed.traces is not None:
            stage, began = ("first_byte", self.sent) if self.sent else ("connect", self.began)
            observed.traces.add(url, stage, began, time.monotonic())


sending_now: ContextVar[Sending | None] = ContextVar("sending", default=None)
"""The times of the request until the head of its response, if they are observed."""


class GuardedResolver(AbstractResolver):
    """Resolves names for aiohttp with the crawl's resolver, and checks each address when aiohttp connects.

    Returns only the addresses that are tried.
    """

    def __init__(self, resolver: Resolver, guard: AddressGuard) -> None:
        self._resolver = resolver
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answer = await self._resolver.resolve(host)
        self._guard.check_all(answer.addresses, hostname=host, port=port)
        results = []
        for address in to_try(answer.addresses):
            kind = socket.AF_INET6 if ":" in address else socket.AF_INET
            results.append(
                ResolveResult(
                    hostname=host, host=address, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST
                )
            )
        return results

    async def close(self) -> None:
        """Does nothing; the session closes the resolver."""


class WireRequest(aiohttp.ClientRequest):
    """A request that calls the check right before it is sent: connecting takes time, and a process can be suspended."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        note_connected()
        if (sending := sending_now.get()) is not None:
            sending.connected, sending.is_kept = time.monotonic(), conn.protocol in _used
        check = check_now.get()
        if not isinstance(check, PacedCheck):
            return await self._send_checked(conn, check, sending)
        began = time.monotonic()
        async with check.sending(_address_of(conn)):
            held_up.set(time.monotonic() - began)
            return await self._send_checked(conn, check, sending)

    async def _send_checked(
        self, conn: Any, check: Callable[[], None] | None, sending: Sending | None
    ) -> aiohttp.ClientResponse:
        if check is not None:
            check()
        over_kept.set(conn.protocol in _used)
        connection_of.set(UsedConnection(conn.protocol, conn.protocol.received))
        _used.add(conn.protocol)
        if sending is not None:
            sending.sent = time.monotonic()
        return await super().send(conn)


class WireResponse(aiohttp.ClientResponse):
    """A response that keeps the peer and its certificate, which aiohttp drops with the connection.

    `remarks` and `odd_head` are those of the connection; see `lenient_parser`.
    """

    peer: str | None = None
    certificate: bytes | None = None
    remarks: tuple[str, ...] = ()
    odd_head: bytes | None = None

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        if transport := connection.transport:
            self.peer = _address_of(connection)
            tls = transport.get_extra_info("ssl_object")
            self.certificate = tls.getpeercert(binary_form=True) if tls else None
        protocol = connection.protocol
        await super().start(connection)
        self.remarks, self.odd_head = protocol.remarks, protocol.odd_head
        return self


def _address_of(connection: Any) -> str | None:
    """Returns the address to which a connection leads."""
    peername = connection.transport.get_extra_info("peername") if connection.transport else None
    return peername[0].partition("%")[0] if peername else None


def check_proxied(received: WireResponse) -> None:
    """Raises ProxyFailed if the proxy itself answered. Forgets the peer, which is the proxy and not the host."""
    if received.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        raise ProxyFailed("it answers 407: user and password are wrong or missing")
    received.peer = None


def sent_headers(request: Request) -> list[tuple[str, str]]:
    """Returns the headers for aiohttp, which sends text as UTF-8; bytes that are not UTF-8 are read as Latin-1."""
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
    """Returns request and response as they went over the wire."""
    url = received.request_info.url
    sent: Mapping[str, str] = received.request_info.headers
    request_lines = [f"{request.method} {url.raw_path_qs or '/'} HTTP/1.1"]
    # the credentials for a proxy are not archived
    request_lines += [f"{name}: {value}" for name, value in sent.items() if name != "Proxy-Authorization"]
    version = received.version or aiohttp.HttpVersion11
    reason = received.reason or phrase(received.status)
    status_line = f"HTTP/{version.major}.{version.minor} {received.status} {reason}"
    response_lines = [
        status_line.encode("utf-8", "surrogateescape"),
        *(name + b": " + value for name, value in received.raw_headers),
    ]
    return Exchange(
        url=without_fragment(request.url),
        method=request.method,
        request_head="\r\n".join([*request_lines, "", ""]).encode(),
        request_body=request.body,
        status=received.status,
        response_head=received.odd_head or b"\r\n".join([*response_lines, b"", b""]),
        payload=payload,
        ip_address=received.peer,
        fetched_at=datetime.now(UTC),
        truncated=truncated,
    )


def phrase(status: int) -> str:
    """Returns the reason phrase of a status; empty for an unknown status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
