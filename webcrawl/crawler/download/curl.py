"""HTTP/2, and browser impersonation, by curl_cffi, with the crawl's resolver, address guard, limits and archive."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cachetools import LRUCache
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured, UnsupportedURLSchemeError
from scrapy.http import Headers, Response

from webcrawl.config import read
from webcrawl.config.libraries import missing
from webcrawl.crawler.download.failures import protocol_failure
from webcrawl.crawler.download.http import HTTPDownloadHandler
from webcrawl.crawler.download.proxies import Proxies
from webcrawl.crawler.download.receiving import BodyReceiver, limit_reading
from webcrawl.crawler.download.rendered_pages import RenderedPages
from webcrawl.crawler.errors import MalformedAnswer, ProxyFailed
from webcrawl.crawler.fetch import head_timeout, keep_exchange, paced_address, turn_to_send
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.dns import to_try
from webcrawl.http.requests import proxy_at
from webcrawl.urls.canonical import hostname, is_address, normalize, port, split, without_fragment

if TYPE_CHECKING:
    from webcrawl.crawler.download.curl_transfer import Head, Transfer

IMPERSONATE = "impersonate"
"""Request.meta key: the browser to impersonate, as curl_cffi names it, such as "chrome" or "firefox135"."""
_MOST_UNREADABLE = 10_000
_SCHEMES = ("http://", "https://")
_TLS_NAMES = ("TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_TLS_VERSIONS: dict[str | None, int] = {
    None: 0,
    **{name: number for number, name in enumerate(_TLS_NAMES, start=4)},
}
"""libcurl's numbers of TLS versions."""
_WITH_BODY = ("POST", "PUT", "PATCH")


class CurlDownloadHandler(SessionComponent):
    """A Scrapy download handler for http and https that negotiates HTTP/2.

    The key `impersonate` of Request.meta makes a request look like that of a browser: TLS, HTTP/2 and headers. The
    address guard, timeouts, limits, signals and exceptions are the same as in HTTPDownloadHandler, which gets the later
    requests to a host whose answer libcurl cannot read, because it reads what browsers read.
    """

    lazy = False

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        try:
            import curl_cffi  # the extras "http2" and "impersonate"

            from webcrawl.crawler.download.curl_transfer import Transfers, failure_of
        except ImportError as error:
            problem = missing(type(self).__name__, "curl_cffi", "impersonate")
            raise NotConfigured(str(problem)) from error
        self._option = curl_cffi.CurlOpt
        self._error = curl_cffi.CurlError
        self._failure_of = failure_of
        self._proxies = Proxies(crawler, session)
        self._browser_sends = _defaults(crawler)
        self._transfers = Transfers(
            _connection_options(crawler, curl_cffi.CurlOpt), ssl.get_default_verify_paths().cafile
        )
        self._receiver = BodyReceiver(crawler, session, curl_cffi.CurlError)
        self._rendered = RenderedPages(crawler, session)
        self._lenient = HTTPDownloadHandler(crawler, session)
        self._unreadable: LRUCache[str, bool] = LRUCache(_MOST_UNREADABLE)
        """Hosts whose answers libcurl could not read."""

    async def close(self) -> None:
        await self._transfers.close()
        await self._lenient.close()

    async def download_request(self, request: Request) -> Response:
        """Downloads one request without following redirects; raises Scrapy's download exceptions and our own."""
        timeout = request.meta.get("download_timeout", self._session.fetch.timeout)
        if self._rendered.wants(request) and (page := await self._rendered.download(request, timeout)):
            return page
        if not request.meta.get(IMPERSONATE) and urlsplit(request.url).netloc in self._unreadable:
            return await self._lenient.download_plainly(request, timeout)
        return await self._proxies.send(request, partial(self._fetch, request, timeout))

    async def _fetch(self, request: Request, timeout: float, proxy: str | None) -> Response:
        """Downloads a request through a proxy, or directly; raises Scrapy's exceptions instead of libcurl's."""
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._download(request, proxy, limit)
        except self._error as error:
            failed = self._failure_of(error, proxied=proxy is not None)
            if isinstance(failed, MalformedAnswer):
                self._unreadable[urlsplit(request.url).netloc] = True
            raise failed from error
        except ValueError as error:
            raise UnsupportedURLSchemeError(str(error)) from error
        except Exception as error:
            failure = protocol_failure(error, request.url, timeout)
            if failure is None:
                raise
            raise failure from error

    async def _download(self, request: Request, proxy: str | None, limit: asyncio.Timeout) -> Response:
        loop = asyncio.get_running_loop()
        options = [*self._request_options(request), *await self._way(request, proxy)]
        async with AsyncExitStack() as stack:
            async with turn_to_send(request) as is_awaited:
                began = loop.time()
                host = urlsplit(request.url).netloc
                sending = self._transfers.send(host, options, request.meta.get(IMPERSONATE))
                transfer = await stack.enter_async_context(sending)
                if is_awaited:
                    await transfer.is_sent()
            head = await _head(transfer, request)
            request.meta["download_latency"] = loop.time() - began
            if self._session.observed is not None:
                transfer.observe(self._session.observed, request.url)
            if proxy is not None:
                head = _check_proxied(head, request.url, proxy)
            return await self._response(request, head, transfer, limit)

    async def _way(self, request: Request, proxy: str | None) -> list[tuple[Any, Any]]:
        """Returns the options that lead to the host: the addresses that the guard allows, or the proxy.

        libcurl itself resolves no name. It gets the normalized host, so that it cannot read another host from the URL.
        Raises AddressRefused, NameNotResolved.
        """
        option, guard = self._option, self._session.guard
        host = split(normalize(request.url))[0]
        if not host.startswith(_SCHEMES):
            raise ValueError(f"not a URL of http or https: {request.url}")
        name, number = hostname(host), port(host)
        target = _target(request.url)
        way: list[tuple[Any, Any]] = [(option.URL, (host + target).encode())]
        if is_address(name):
            guard.check(name, hostname=name, port=number)
        # empty strings, so that the environment chooses no proxy
        way += [(option.PROXY, (proxy or "").encode()), (option.NOPROXY, b"")]
        server = proxy_at(proxy) if proxy else None
        tunnelled = server is None or server.is_socks or host.startswith("https:")
        # the target as it is written, because libcurl would change the case of escapes
        way.append((option.REQUEST_TARGET, (target if tunnelled else host + target).encode()))
        resolved = []
        if server is not None and server.is_socks and not server.resolves_names:
            tried = to_try(await self._addresses(name, number, paced_address(request)))
            resolved += _resolved(name, number, tried)
        if server is None:
            peer, peer_port = name, number
            addresses = await self._addresses(name, number, paced_address(request))
        else:  # the operator or the spider chose it, so it may be at an inner address
            peer, peer_port = server.host, server.port
            addresses = await self._addresses_of_any(peer)
        tried = to_try(self._session.local_addresses.together(addresses))
        resolved += _resolved(peer, peer_port, tried)
        if resolved:
            way.append((option.RESOLVE, resolved))
        if tried and (local := self._session.local_addresses.of(peer, tried[0])):
            way += [(option.INTERFACE, f"host!{local[0]}".encode()), (option.LOCALPORT, local[1])]
        return way

    async def _addresses(self, name: str, number: int, only: str | None = None) -> list[str]:
        """Returns the addresses of a host that the guard allows; an address is its own."""
        addresses = await self._addresses_of_any(name)
        if is_address(name):
            return addresses
        self._session.guard.check_all(addresses, hostname=name, port=number)
        return [address for address in addresses if only in (None, address)]

    async def _addresses_of_any(self, name: str) -> list[str]:
        return [name] if is_address(name) else list((await self._session.resolver.resolve(name)).addresses)

    def _request_options(self, request: Request) -> Iterator[tuple[Any, Any]]:
        """Yields method, headers and body; raises ValueError for a header with a line break."""
        option, method, body = self._option, request.method, request.body
        if method == "HEAD":
            yield option.NOBODY, 1
        elif body or method in _WITH_BODY:
            yield option.POSTFIELDS, body
            yield option.POSTFIELDSIZE, len(body)
        if method not in ("GET", "HEAD") or body:
            yield option.CUSTOMREQUEST, method.encode()
        yield option.HTTPHEADER, list(self._header_lines(request))

    def _header_lines(self, request: Request) -> Iterator[bytes]:
        """Yields the headers in libcurl's form.

        A browser's own headers are sent instead of headers that no spider set. "Name:" leaves out a header that libcurl
        would add, "Name;" sends an empty header.
        """
        impersonates = bool(request.meta.get(IMPERSONATE))
        for name, values in request.headers.items():
            if name == b"Proxy-Authorization" or (impersonates and self._browser_sends.get(name) == values):
                continue
            for value in values:
                if any(byte in name + value for byte in b"\r\n\0"):
                    raise ValueError(f"{request}: the header {name!r} contains a line break")
                yield name + b": " + value if value else name + b";"
        yield b"Expect:"
        if not impersonates and "Accept" not in request.headers:
            yield b"Accept:"
        if request.body and "Content-Type" not in request.headers:
            yield b"Content-Type:"

    async def _response(
        self, request: Request, head: Head, transfer: Transfer, limit: asyncio.Timeout
    ) -> Response:
        headers = Headers(head.headers)
        next_chunk = partial(_next_chunk, transfer, limit_reading(limit))
        body = await self._receiver.receive(request, headers, next_chunk)
        missing = body.missing(at_end=transfer.at_end)
        keep_exchange(request, _exchange(request, head, body.body, missing))
        return body.response(request, headers, head.status, head.peer, head.remarks, protocol=head.version)


async def _head(transfer: Transfer, request: Request) -> Head:
    """Returns the head of the response; raises DownloadTimeoutError if a host that never answered is silent."""
    seconds = head_timeout(request, 0)
    try:
        async with asyncio.timeout(seconds):
            return await transfer.head()
    except TimeoutError as error:
        raise protocol_failure(error, request.url, seconds or 0) or error from error


def _defaults(crawler: Crawler) -> dict[bytes, list[bytes]]:
    """Returns the headers that requests have unless a spider sets them."""
    headers = Headers(read(crawler.settings, "DEFAULT_REQUEST_HEADERS"))
    headers.setdefault("Accept-Encoding", "gzip, deflate")
    headers["User-Agent"] = read(crawler.settings, "USER_AGENT")
    return {name: headers.getlist(name) for name in headers}


def _connection_options(crawler: Crawler, option: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the options of Scrapy's settings for connections."""
    verify = read(crawler.settings, "DOWNLOAD_VERIFY_CERTIFICATES")
    yield option.SSL_VERIFYPEER, int(verify)
    yield option.SSL_VERIFYHOST, 2 if verify else 0
    least, most = (crawler.settings.get(f"DOWNLOAD_TLS_{end}_VERSION") for end in ("MIN", "MAX"))
    if least or most:
        try:
            yield option.SSLVERSION, _TLS_VERSIONS[least] | _TLS_VERSIONS[most] << 16
        except KeyError as error:
            raise ConfigurationError(
                f"DOWNLOAD_TLS_MIN_VERSION, DOWNLOAD_TLS_MAX_VERSION: {error} is not one of {', '.join(_TLS_NAMES)}"
            ) from None
    ciphers = crawler.settings.get("DOWNLOADER_CLIENT_TLS_CIPHERS")
    if ciphers and ciphers != "DEFAULT":
        yield option.SSL_CIPHER_LIST, ciphers.encode()


def _resolved(name: str, number: int, addresses: Sequence[str]) -> list[str]:
    """Returns the addresses of a host as libcurl takes them; none for a host that is an address."""
    if is_address(name):
        return []
    tried = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
    return [f"+{spelling}:{number}:{tried}" for spelling in {name, name.rstrip(".")}]


def _check_proxied(head: Head, url: str, proxy: str) -> Head:
    """Returns the head without the peer, which is the proxy; raises ProxyFailed if the proxy itself answered."""
    is_tunnelled = url.lower().startswith("https:") or proxy_at(proxy).is_socks
    if head.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED and not is_tunnelled:
        raise ProxyFailed("it answers 407: user and password are wrong or missing")
    return replace(head, peer=None)


def _target(url: str) -> str:
    """Returns path and query as they are written, from the first slash on."""
    authority_and_rest = url.partition("://")[2].partition("#")[0]
    start = next((index for index, character in enumerate(authority_and_rest) if character in "/?"), None)
    rest = "" if start is None else authority_and_rest[start:]
    return rest if rest.startswith("/") else f"/{rest}"


async def _next_chunk(transfer: Transfer, end: float | None) -> bytes:
    """Returns the next bytes, b"" at the end; raises TimeoutError at the time `end` of the event loop's clock."""
    async with asyncio.timeout_at(end):
        return await transfer.read()


def _exchange(request: Request, head: Head, payload: Body, truncated: str | None) -> Exchange:
    """Returns request and response in the form of HTTP/1.1, in which archives store HTTP/2 too."""
    is_text = head.version.startswith("HTTP/1")
    version = head.version if is_text else "HTTP/1.1"
    request_line, _, lines = head.sent.partition(b"\r\n")
    # the credentials for a proxy are not archived
    kept = [line for line in lines.split(b"\r\n") if not line.lower().startswith(b"proxy-")]
    target = request_line.split(b" ")[1]
    if b"://" in target:  # the form for a proxy
        target = b"/" + target.partition(b"://")[2].partition(b"/")[2]
    status_line = head.line if is_text else f"{version} {head.status} {phrase(head.status)}".encode()
    return Exchange(
        url=without_fragment(request.url),
        method=request.method,
        request_head=b"\r\n".join([b"%s %s %s" % (request.method.encode(), target, version.encode()), *kept]),
        request_body=request.body,
        status=head.status,
        response_head=b"\r\n".join([status_line, *(b": ".join(field) for field in head.headers), b"", b""]),
        payload=payload,
        ip_address=head.peer,
        fetched_at=datetime.now(UTC),
        truncated=truncated,
        protocol=None if is_text else "h2",
    )


def phrase(status: int) -> str:
    """Returns the reason phrase of a status; empty for an unknown status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
