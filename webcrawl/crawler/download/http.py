"""HTTP and HTTPS by aiohttp: names from our resolver, addresses past our guard, bytes kept for the archive."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import logging
import ssl
from functools import lru_cache, partial
from typing import Any, Self, cast
from urllib.parse import quote, urlsplit

import aiohttp
import yarl
from aiohttp.helpers import is_ip_address
from aiohttp.http_exceptions import HttpProcessingError
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    NotSupported,
    ResponseDataLossError,
    StopDownload,
    UnsupportedURLSchemeError,
)
from scrapy.http import Headers, Response
from scrapy.utils.ssl import _make_ssl_context
from scrapy.utils.url import add_http_if_no_scheme
from twisted.python.failure import Failure

from webcrawl.config import read
from webcrawl.crawler.components import Pacer, ResourceRules
from webcrawl.crawler.download import lenient_parser
from webcrawl.crawler.download.wire import (
    GuardedResolver,
    WireRequest,
    WireResponse,
    check_now,
    exchange_over,
    over_kept,
    sent_headers,
)
from webcrawl.crawler.errors import KeptConnectionClosed, MalformedAnswer, Postponed, RequestRefused
from webcrawl.crawler.fetch import TRUNCATE, check_of, keep_exchange, run_check
from webcrawl.crawler.responses import content_type, flags_of, make_response, says_nosniff
from webcrawl.crawler.session import Session
from webcrawl.crawler.signals import send
from webcrawl.documents.body import Body, BodyWriter
from webcrawl.documents.mime.sniff import SNIFF_BYTES
from webcrawl.errors import AddressRefused, ConfigurationError, NameNotResolved
from webcrawl.urls.canonical import DEFAULT_PORTS

logger = logging.getLogger(__name__)

_READ_BYTES = 64 * 1024
# less than servers keep a connection: one that they close while a request is on its way costs them and us another
_KEEPALIVE_SECONDS = 4.0
# uvloop's TLS loses the end of a body whose reading is paused when the server closes: aiohttp pauses at twice as much
_READ_AHEAD = 4 * 1024 * 1024
_LONGEST_HEADER = 64 * 1024
_MOST_HEADERS = 1000

# a host's pages come from one address
_ip_address = lru_cache(maxsize=1024)(ipaddress.ip_address)


class HTTPDownloadHandler:
    """A Scrapy download handler for http and https.

    It keeps what Scrapy's own promise: DOWNLOAD_TIMEOUT, DOWNLOAD_MAXSIZE, DOWNLOAD_WARNSIZE, the headers_received and
    bytes_received signals with StopDownload, data loss, proxies, certificates, `verbatim_url`, and Scrapy's exceptions.
    """

    lazy = False

    def __init__(self, crawler: Crawler, session: Session) -> None:
        settings = crawler.settings
        self.crawler = crawler
        self._guard = session.guard
        self._maxsize = session.fetch.maxsize
        self._sizes = session.sizes
        self._spool = session.fetch.spool
        self._warnsize = session.fetch.warnsize
        self._timeout = session.fetch.timeout
        self._fail_on_dataloss = read(settings, "DOWNLOAD_FAIL_ON_DATALOSS")
        self._proxy_encoding = settings.get("HTTPPROXY_AUTH_ENCODING")
        bind = settings.get("DOWNLOAD_BIND_ADDRESS")
        self._ssl_context: ssl.SSLContext = _make_ssl_context(settings)
        self._local_address = (bind, 0) if isinstance(bind, str) else bind
        self._resolver = GuardedResolver(session.resolver, session.guard)
        self._opened: aiohttp.ClientSession | None = None
        self._session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler))

    @property
    def _client(self) -> aiohttp.ClientSession:
        """Opened with the first request: a crawl that cannot start has nothing to close."""
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
        # aiohttp would repeat a request at once when a kept connection breaks, behind politeness's back
        client._retry_connection = False
        return client

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def download_request(self, request: Request) -> Response:
        """Fetch one request; redirects are not followed here."""
        timeout = request.meta.get("download_timeout", self._timeout)
        if self._is_rendered(request) and (rendered := await self._rendered(request, timeout)):
            return rendered
        loop = asyncio.get_running_loop()
        began = loop.time()
        check_now.set(check_of(request))
        over_kept.set(False)
        try:
            url = yarl.URL(request.url, encoded=True)
            self._check_literal(url)
            async with self._client.request(
                request.method,
                url,
                data=request.body or None,
                headers=sent_headers(request),
                timeout=aiohttp.ClientTimeout(total=timeout),
                ssl=self._ssl_context,
                allow_redirects=False,
                proxy=self._proxy(request),
            ) as received:
                request.meta["download_latency"] = loop.time() - began
                over_kept.set(False)
                return await self._read(request, cast("WireResponse", received))
        except TimeoutError as error:
            raise DownloadTimeoutError(
                f"Getting {request.url} took longer than {timeout} seconds."
            ) from error
        except aiohttp.ClientSSLError as error:  # a ValueError too, when it is about a certificate
            raise DownloadFailedError(str(error)) from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError) as error:
            raise UnsupportedURLSchemeError(str(error)) from error
        except AddressRefused as error:
            raise RequestRefused(str(error)) from error
        except NameNotResolved as error:
            raise CannotResolveHostError(str(error)) from error
        except aiohttp.ClientConnectorError as error:
            raise DownloadConnectionRefusedError(str(error)) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError) as error:
            kind = KeptConnectionClosed if over_kept.get() else DownloadFailedError
            raise kind(f"{type(error).__name__}: {error}") from error
        except aiohttp.ClientResponseError as error:
            if not isinstance(error.__cause__, HttpProcessingError):  # what a proxy says
                raise DownloadFailedError(f"{type(error).__name__}: {error}") from error
            raise MalformedAnswer(_in_one_line(error)) from error
        except aiohttp.ClientError as error:
            raise DownloadFailedError(f"{type(error).__name__}: {error}") from error

    def _is_rendered(self, request: Request) -> bool:
        """Whether a browser is wanted: `playwright` in its meta says so, else RENDER; raises NotSupported."""
        wanted, renderer = request.meta.get("playwright"), self._session.renderer
        if wanted is not None:
            if wanted and request.method != "GET":
                raise NotSupported(f"{request}: only GET is rendered")
            return bool(wanted)
        if renderer is None or request.method != "GET" or TRUNCATE in request.meta:
            return False
        return renderer.rules.apply(request.url)

    async def _rendered(self, request: Request, timeout: float) -> Response | None:
        """The page as a browser has it; None for what is no HTML, and to be fetched as it is."""
        try:
            renderer = self._session.need_renderer()
        except ConfigurationError as error:
            raise NotSupported(str(error)) from error
        session, loop = self._session, asyncio.get_running_loop()
        # who renders uses none of our connections; the robots.txt of what it loads may need one
        async with session.turns.disconnected(), renderer.places:
            if session.turns.ending.is_set():
                raise Postponed(f"the crawl ends before {request.url} is rendered")
            began = loop.time()
            check = partial(run_check, request)
            rules = session.components.get(ResourceRules)
            allows = rules.allows if rules else None
            found = await renderer.render(request, self.crawler, timeout, check, allows)
        request.meta["download_latency"] = loop.time() - began
        if found is None:
            if pacer := session.components.get(Pacer):
                await pacer.take_another_turn(request)
            return None
        response, exchange = found
        if exchange is not None:
            keep_exchange(request, exchange)
        return response

    def _check_literal(self, url: yarl.URL) -> None:
        """What aiohttp takes for an address never reaches the resolver: it is checked here; raises AddressRefused.

        Its own rule is asked about its own reading of the URL, which need not be a normalised one.
        """
        name = url.raw_host
        if name and is_ip_address(name):
            self._guard.check(name, hostname=name, port=url.port or 0)

    async def _read(self, request: Request, received: WireResponse) -> Response:
        headers = Headers(list(received.raw_headers))
        announced = headers.get("Content-Length")
        size = int(announced) if announced and announced.isdigit() else None
        limit = request.meta.get("download_maxsize", self._maxsize)
        cut = request.meta.get(TRUNCATE)
        if limit and size is not None and size > limit and not cut:
            raise DownloadCancelledError(
                f"{request.url} announces {size} bytes: more than DOWNLOAD_MAXSIZE {limit}"
            )
        if stopped := self._asked_to_stop(
            signals.headers_received, request, headers=headers, body_length=size
        ):
            return self._response(request, received, headers, Body(), None, stopped)
        writer = BodyWriter(self._spool, digests=True)
        most = cut or self._sizes.least
        truncated = stopped = None
        try:
            while chunk := await received.content.read(_READ_BYTES):
                if writer.size + len(chunk) > most:
                    most = cut or self._most(request, headers, writer.start(SNIFF_BYTES) + chunk)
                    if writer.size + len(chunk) > most:
                        chunk = chunk[: int(most) - writer.size]
                        truncated = "length"
                writer.add(chunk)
                if stopped := self._asked_to_stop(signals.bytes_received, request, data=chunk):
                    break
                if truncated:
                    break
                if limit and writer.size > limit and not cut:
                    raise DownloadCancelledError(f"{request.url} is larger than DOWNLOAD_MAXSIZE {limit}")
                if writer.is_full:
                    await asyncio.to_thread(writer.spill)
        except aiohttp.ClientPayloadError as error:
            if self._fails(request):
                raise ResponseDataLossError(str(error)) from error
            truncated = "disconnect"
        except TimeoutError:
            if not writer.size or self._fails(request):
                raise
            truncated = "time"
        self._warn_of_size(request, writer.size)
        return self._response(request, received, headers, writer.finish(), truncated, stopped)

    def _fails(self, request: Request) -> bool:
        """Whether a part of the body is as good as none."""
        return bool(request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss))

    def _most(self, request: Request, headers: Headers, start: bytes) -> float:
        """The most bytes of a body that begins so; while it is encoded only its header tells what it is."""
        if headers.get("Content-Encoding"):
            start = b""
        nosniff = says_nosniff(headers)
        return self._sizes.of_start(content_type(headers), start, request.url, nosniff=nosniff)

    def _response(
        self,
        request: Request,
        received: WireResponse,
        headers: Headers,
        body: Body,
        truncated: str | None,
        stopped: StopDownload | None,
    ) -> Response:
        unread = "length" if stopped is not None and not received.content.at_eof() else None
        keep_exchange(request, exchange_over(request, received, body, truncated or unread))
        version = received.version
        response = make_response(
            body,
            request.url,
            headers,
            status=received.status,
            flags=flags_of(truncated),
            certificate=received.certificate,
            ip_address=_ip_address(received.peer) if received.peer else None,
            protocol=f"HTTP/{version.major}.{version.minor}" if version else None,
        )
        if stopped is not None:
            response.flags.append("download_stopped")
            if stopped.fail:
                stopped.response = response
                raise stopped
        return response

    def _asked_to_stop(self, signal: object, request: Request, **details: Any) -> StopDownload | None:
        spider = self.crawler.spider
        results = send(self.crawler, signal, request=request, spider=spider, dont_log=StopDownload, **details)
        for _, result in results:
            if isinstance(result, Failure) and isinstance(result.value, StopDownload):
                return result.value
        return None

    def _warn_of_size(self, request: Request, size: int) -> None:
        limit = request.meta.get("download_warnsize", self._warnsize)
        if limit and size > limit:
            logger.warning("%s has %d bytes: more than DOWNLOAD_WARNSIZE %d", request.url, size, limit)

    def _proxy(self, request: Request) -> str | None:
        """The proxy of a request, with its credentials. An operator chose it: the guard lets it through."""
        proxy = request.meta.get("proxy")
        if not proxy:
            return None
        url = urlsplit(add_http_if_no_scheme(proxy))
        if url.hostname and not is_ip_address(url.hostname):
            self._guard.allow_host(url.hostname, url.port or DEFAULT_PORTS.get(url.scheme, 80))
        credentials = request.headers.get("Proxy-Authorization")
        if credentials is None:
            return url.geturl()
        scheme, _, token = credentials.decode("ascii").partition(" ")
        if scheme.lower() != "basic":
            raise DownloadFailedError(f"proxy authorisation by {scheme} is not supported, only Basic")
        user, _, password = base64.b64decode(token).decode(self._proxy_encoding).partition(":")
        return url._replace(netloc=f"{quote(user, '')}:{quote(password, '')}@{url.netloc}").geturl()


def _in_one_line(error: aiohttp.ClientResponseError) -> str:
    """What aiohttp's parser said, without the mark below the place that it means."""
    said = error.message or repr(error.__cause__ and error.__cause__.__cause__)
    return " ".join(said.split()).removesuffix("^").rstrip()
