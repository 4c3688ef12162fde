"""HTTP and HTTPS with the crawl's resolver and address guard; keeps the bytes for the archive."""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotSupported
from scrapy.http import Response
from scrapy.utils.ssl import _make_ssl_context

from webcrawl.crawler.download.failures import http_failure
from webcrawl.crawler.download.proxies import Proxies
from webcrawl.crawler.download.receiving import BodyReceiver
from webcrawl.crawler.download.rendered_pages import RenderedPages
from webcrawl.crawler.errors import KeptConnectionClosed, ProxyFailed
from webcrawl.crawler.fetch import PacedCheck, check_of, fetch_of, head_timeout, keep_exchange
from webcrawl.crawler.responses import received_headers
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange
from webcrawl.errors import Unconfirmed
from webcrawl.hosts.dns import to_try
from webcrawl.http.connection import HTTPConnection
from webcrawl.http.heads import Field, ResponseHead
from webcrawl.http.pool import Pool, Way
from webcrawl.http.requests import (
    STRAY_SECONDS,
    RequestTarget,
    expects_continue,
    head_of,
    proxy_at,
    target_of,
)
from webcrawl.metrics.observations import Observations
from webcrawl.urls.canonical import is_address, without_fragment

_NO_IMPERSONATION = (
    "Request.meta['impersonate'] needs another download handler: set DOWNLOAD_HANDLERS of http and https to "
    "webcrawl.crawler.download.curl.CurlDownloadHandler"
)

_AT_ONCE = nullcontext()
_OF_LEASE, _LEAST_UNCONFIRMED = 0.2, 0.5
"""The share of a lease, and the least seconds, for which the system sends a request again. The last request is sent
after 0.8 of a lease, so the system gives it up before the lease ends."""
_ssl_contexts = WeakKeyDictionary[Crawler, ssl.SSLContext]()


@dataclass(slots=True)
class Sending:
    """The times when a request began, got its connection and was sent, by `time.monotonic`.

    timeout   seconds after which it fails now
    is_kept   the connection has sent another request before
    received  bytes of the response
    """

    began: float
    timeout: float
    connected: float = 0.0
    sent: float = 0.0
    is_kept: bool = False
    received: int = 0

    def latency(self) -> float:
        """Returns the seconds up to the head of the response, which is complete now, without the wait for the turn."""
        return time.monotonic() - self.began - (self.sent - self.connected)

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


class HTTPDownloadHandler(SessionComponent):
    """A Scrapy download handler for http and https.

    It supports what Scrapy's handlers support: DOWNLOAD_TIMEOUT, DOWNLOAD_MAXSIZE, DOWNLOAD_WARNSIZE, the signals
    headers_received and bytes_received with StopDownload, data loss, proxies, certificates, `verbatim_url`, and the
    exceptions of Scrapy.
    """

    lazy = False

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._guard = session.guard
        self._resolver = session.resolver
        self._timeout = session.fetch.timeout
        self._observed = session.observed
        self._proxies = Proxies(crawler, session)
        context = _ssl_context(crawler)  # now, because wrong settings end the crawl at its start
        self._pool = Pool(
            self._addresses,
            lambda: context,
            session.local_addresses.of,
            self._addresses_of_proxy,
            unconfirmed_seconds=max(_LEAST_UNCONFIRMED, _OF_LEASE * session.config.lease_seconds),
        )
        self._receiver = BodyReceiver(crawler, session)
        self._rendered = RenderedPages(crawler, session)

    async def close(self) -> None:
        await self._pool.close()

    async def download_request(self, request: Request) -> Response:
        """Downloads one request without following redirects; raises Scrapy's download exceptions and our own."""
        timeout = request.meta.get("download_timeout", self._timeout)
        if self._rendered.wants(request) and (page := await self._rendered.download(request, timeout)):
            return page
        if request.meta.get("impersonate"):
            raise NotSupported(_NO_IMPERSONATION)
        return await self.download_plainly(request, timeout)

    async def download_plainly(self, request: Request, timeout: float) -> Response:
        """Downloads one request without a browser; see `download_request`."""
        return await self._proxies.send(request, partial(self._download, request, timeout))

    async def _download(self, request: Request, timeout: float, proxy: str | None) -> Response:
        """Downloads a request through a proxy, or directly; raises Scrapy's exceptions instead of the client's."""
        sending = Sending(time.monotonic(), timeout)
        try:
            return await self._fetch(request, proxy, sending)
        except Exception as error:
            if self._observed is not None:
                sending.fail(self._observed, request.url)
            if isinstance(error, Unconfirmed):  # the turn ends when the request can no longer arrive
                await asyncio.sleep(STRAY_SECONDS)
            # a server that has begun to answer has seen the request (RFC 9110, section 9.2.2)
            over_kept = sending.is_kept and not sending.received
            failure = http_failure(
                error, request.url, sending.timeout, over_kept=over_kept, proxied=proxy is not None
            )
            if failure is None:
                raise
            if isinstance(failure, KeptConnectionClosed):
                self._pool.note_closed(_way(target_of(request.url), proxy))
            raise failure from error

    async def _fetch(self, request: Request, proxy: str | None, sending: Sending) -> Response:
        target = target_of(request.url)
        way = _way(target, proxy)
        if proxy is not None and is_address(target.server.host):
            self._guard.check(target.server.host, hostname=target.server.host, port=target.server.port)
        connection, timeout, loop = None, sending.timeout, asyncio.get_running_loop()
        end = loop.time() + timeout if timeout else None
        seconds = head_timeout(request, timeout)
        short = None if seconds == timeout else seconds
        sending.timeout = seconds or timeout
        try:
            async with asyncio.timeout(seconds) as limit:
                connection = await self._pool.take(way)
                before = connection.received
                if short:  # the wait for a turn is not the host's
                    limit.reschedule(end)
                sent = await self._send(request, way, target, connection, sending)
                if short:
                    limit.reschedule(min(end or math.inf, loop.time() + short))
                head = await connection.head()
            sending.timeout = timeout
            request.meta["download_latency"] = sending.latency()
            if self._observed is not None:
                sending.observe(self._observed, request.url)
            return await self._response(request, way, connection, sent, head, end)
        finally:
            if connection is not None:
                sending.received = connection.received - before
                fetch_of(request).received += sending.received
                self._pool.give(way, connection)

    async def _send(
        self, request: Request, way: Way, target: RequestTarget, connection: HTTPConnection, sending: Sending
    ) -> bytes:
        """Sends a request when its turn has come, because connecting takes time; returns its head for the archive."""
        sending.connected, sending.is_kept = time.monotonic(), connection.requests > 0
        method, fields, size = request.method.encode(), sent_fields(request), len(request.body)
        head = sent = head_of(method, target.path, target.server, fields, size)
        if way.proxy is not None and not way.is_tunnelled:
            # the credentials for a proxy are not archived
            credentials = [(b"Proxy-Authorization", way.proxy.credentials)] if way.proxy.credentials else []
            sent = head_of(method, target.absolute, target.server, [*credentials, *fields], size)
        check = check_of(request)
        async with check.sending(connection.peer) if isinstance(check, PacedCheck) else _AT_ONCE:
            if check is not None:
                check()
            sending.sent = time.monotonic()
            connection.send(request.method, sent, request.body, waits=expects_continue(fields))
        return head

    async def _response(
        self,
        request: Request,
        way: Way,
        connection: HTTPConnection,
        sent: bytes,
        head: ResponseHead,
        end: float | None,
    ) -> Response:
        """Receives the body until the time `end`."""
        if (
            way.proxy is not None
            and not way.is_tunnelled
            and head.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
        ):
            raise ProxyFailed("it answers 407: user and password are wrong or missing")
        headers = received_headers(head.fields)
        expiry = None
        if end is not None and not connection.is_complete:
            expiry = asyncio.get_running_loop().call_at(end, connection.fail, TimeoutError())
        try:
            body = await self._receiver.receive(request, headers, connection.read)
        finally:
            if expiry is not None:
                expiry.cancel()
        peer = connection.peer if way.proxy is None else None
        missing = body.missing(at_end=connection.is_at_end)
        keep_exchange(request, exchange_over(request, sent, head, peer, body.body, missing))
        return body.response(
            request,
            headers,
            head.status,
            peer,
            head.remarks,
            certificate=connection.certificate,
            protocol=f"HTTP/{head.version}",
        )

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        """Returns the addresses of a host to try; raises AddressRefused, NameNotResolved."""
        if is_address(host):
            self._guard.check(host, hostname=host, port=port)
            return [host]
        answer = await self._resolver.resolve(host)
        self._guard.check_all(answer.addresses, hostname=host, port=port)
        return to_try(answer.addresses)

    async def _addresses_of_proxy(self, host: str, port: int) -> Sequence[str]:
        """Returns the addresses of a proxy to try, which may be inner ones; raises NameNotResolved.

        The guard is not asked, because the operator or the spider chose the proxy. As a target of a link, the same name
        and port are refused at an inner address like any others.
        """
        return [host] if is_address(host) else to_try((await self._resolver.resolve(host)).addresses)


def _way(target: RequestTarget, proxy: str | None) -> Way:
    return Way(target.server, proxy_at(proxy) if proxy else None)


def _ssl_context(crawler: Crawler) -> ssl.SSLContext:
    """Returns the context of a crawl's TLS settings; reading the system's certificates takes about 20 ms."""
    if crawler not in _ssl_contexts:
        _ssl_contexts[crawler] = _make_ssl_context(crawler.settings)
    return _ssl_contexts[crawler]


def sent_fields(request: Request) -> list[Field]:
    """Returns the headers of a request; those for a proxy are sent to no server."""
    return [
        (name, value)
        for name, values in request.headers.items()
        if name != b"Proxy-Authorization"
        for value in values
    ]


def exchange_over(
    request: Request, sent: bytes, head: ResponseHead, peer: str | None, payload: Body, truncated: str | None
) -> Exchange:
    """Returns request and response; `sent` is the head of the request, `peer` the address of the server."""
    return Exchange(
        url=without_fragment(request.url),
        method=request.method,
        request_head=sent,
        request_body=request.body,
        status=head.status,
        response_head=head.sent,
        payload=payload,
        ip_address=peer,
        fetched_at=datetime.now(UTC),
        truncated=truncated,
    )
