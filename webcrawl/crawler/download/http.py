"""HTTP and HTTPS by aiohttp, with the crawl's resolver and address guard; keeps the bytes for the archive."""

from __future__ import annotations

import asyncio
import ssl
import time
from functools import partial
from typing import cast
from weakref import WeakKeyDictionary

import aiohttp
import yarl
from aiohttp.helpers import is_ip_address
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotSupported
from scrapy.http import Response
from scrapy.utils.ssl import _make_ssl_context

from webcrawl.crawler.download import lenient_parser
from webcrawl.crawler.download.attempts import Attempts, open_socket
from webcrawl.crawler.download.failures import http_failure
from webcrawl.crawler.download.proxies import Proxies
from webcrawl.crawler.download.receiving import BodyReceiver
from webcrawl.crawler.download.rendered_pages import RenderedPages
from webcrawl.crawler.download.wire import (
    GuardedResolver,
    Sending,
    WireRequest,
    WireResponse,
    check_now,
    check_proxied,
    connection_of,
    exchange_over,
    held_up,
    over_kept,
    sending_now,
    sent_headers,
)
from webcrawl.crawler.fetch import check_of, fetch_of, keep_exchange
from webcrawl.crawler.responses import received_headers
from webcrawl.crawler.session import Session, SessionComponent

_READ_BYTES = 64 * 1024
# most servers keep a connection for longer; a request that is sent while the server closes it is lost
_KEEPALIVE_SECONDS = 4.0
# aiohttp pauses reading at twice this size, or at a small chunk for every 16 bytes. This is more than PacedConnection
# holds back, because the bytes held back when the server closes must be parsed without a pause.
_READ_AHEAD = 2 * 1024 * 1024
# uvloop's TLS loses the end of a body if reading is paused when the server closes
_TLS_READ_AHEAD = 4 * 1024 * 1024
# the longest wait for a proxy to connect
_PROXY_SECONDS = 10.0
_LONGEST_HEADER = 64 * 1024
_MOST_HEADERS = 1000

_NO_IMPERSONATION = (
    "Request.meta['impersonate'] needs another download handler: set DOWNLOAD_HANDLERS of http and https to "
    "webcrawl.crawler.download.curl.CurlDownloadHandler"
)

_ssl_contexts = WeakKeyDictionary[Crawler, ssl.SSLContext]()


class HTTPDownloadHandler(SessionComponent):
    """A Scrapy download handler for http and https.

    It supports what Scrapy's handlers support: DOWNLOAD_TIMEOUT, DOWNLOAD_MAXSIZE, DOWNLOAD_WARNSIZE, the signals
    headers_received and bytes_received with StopDownload, data loss, proxies, certificates, `verbatim_url`, and the
    exceptions of Scrapy.
    """

    lazy = False

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        settings = crawler.settings
        self._guard = session.guard
        self._timeout = session.fetch.timeout
        self._observed = session.observed
        self._proxies = Proxies(crawler, session)
        bind = settings.get("DOWNLOAD_BIND_ADDRESS")
        self._local_address = (bind, 0) if isinstance(bind, str) else bind
        self._ssl_context = _ssl_context(crawler)
        self._resolver = GuardedResolver(session.resolver, session.guard)
        self._attempts = Attempts()
        self._receiver = BodyReceiver(crawler, session, aiohttp.ClientPayloadError)
        self._rendered = RenderedPages(crawler, session)
        self._opened: aiohttp.ClientSession | None = None

    @property
    def _client(self) -> aiohttp.ClientSession:
        """The client, opened at the first request, so that a crawl that fails to start has nothing to close."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> aiohttp.ClientSession:
        client = aiohttp.ClientSession(
            connector=lenient_parser.connector(
                resolver=self._resolver,
                use_dns_cache=False,
                limit=0,
                keepalive_timeout=_KEEPALIVE_SECONDS,
                local_addr=self._local_address,
                socket_factory=open_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            max_headers=_MOST_HEADERS,
            read_bufsize=_READ_AHEAD,
            request_class=WireRequest,
            response_class=WireResponse,
        )
        # aiohttp would repeat a request at once if a kept connection breaks, without a turn of its host
        client._retry_connection = False
        return client

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

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
        check_now.set(check_of(request))
        return await self._proxies.send(request, partial(self._download, request, timeout))

    async def _download(self, request: Request, timeout: float, proxy: str | None) -> Response:
        """Downloads a request through a proxy, or directly; raises Scrapy's exceptions instead of aiohttp's."""
        over_kept.set(False)
        connection_of.set(None)
        held_up.set(0.0)
        try:
            with self._attempts.of_request():
                return await self._fetch(request, timeout, proxy)
        except Exception as error:
            if self._observed is not None and (sending := sending_now.get()) is not None:
                sending.fail(self._observed, request.url)
            failure = http_failure(
                error, request.url, timeout, over_kept=over_kept.get(), proxied=proxy is not None
            )
            if failure is None:
                raise
            raise failure from error
        finally:
            if (connection := connection_of.get()) is not None:
                fetch_of(request).received += connection.received

    async def _fetch(self, request: Request, timeout: float, proxy: str | None) -> Response:
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self._observed is not None:
            sending_now.set(Sending(time.monotonic()))
        url = yarl.URL(request.url, encoded=True)
        self._check_literal(url)
        async with self._client.request(
            request.method,
            url,
            data=request.body or None,
            headers=sent_headers(request),
            timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=_PROXY_SECONDS if proxy else None),
            ssl=self._ssl_context,
            allow_redirects=False,
            proxy=proxy,
            read_bufsize=_TLS_READ_AHEAD if _is_encrypted(url, proxy) else None,
        ) as response:
            request.meta["download_latency"] = loop.time() - began - held_up.get()
            over_kept.set(False)
            if self._observed is not None and (sending := sending_now.get()) is not None:
                sending.observe(self._observed, request.url)
                sending_now.set(None)
            received = cast("WireResponse", response)
            if proxy is not None:
                check_proxied(received)
            return await self._response(request, received)

    def _check_literal(self, url: yarl.URL) -> None:
        """Checks a host that is an IP address, which aiohttp never passes to the resolver; raises AddressRefused.

        Applies aiohttp's own rule to aiohttp's own parse of the URL, which need not be normalized.
        """
        name = url.raw_host
        if name and is_ip_address(name):
            self._guard.check(name, hostname=name, port=url.port or 0)

    async def _response(self, request: Request, received: WireResponse) -> Response:
        headers = received_headers(received.raw_headers)
        content = received.content
        body = await self._receiver.receive(request, headers, partial(content.read, _READ_BYTES))
        missing = body.missing(at_end=content.at_eof())
        keep_exchange(request, exchange_over(request, received, body.body, missing))
        version = received.version
        return body.response(
            request,
            headers,
            received.status,
            received.peer,
            received.remarks,
            certificate=received.certificate,
            protocol=f"HTTP/{version.major}.{version.minor}" if version else None,
        )


def _is_encrypted(url: yarl.URL, proxy: str | None) -> bool:
    return url.scheme == "https" or (proxy is not None and proxy.startswith("https:"))


def _ssl_context(crawler: Crawler) -> ssl.SSLContext:
    """Returns the context of a crawl's TLS settings; reading the system's certificates takes about 20 ms."""
    if crawler not in _ssl_contexts:
        _ssl_contexts[crawler] = _make_ssl_context(crawler.settings)
    return _ssl_contexts[crawler]
