"""The proxy of a request: from PROXIES, or from Request.meta, as Scrapy's HttpProxyMiddleware sets it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import quote, urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
from scrapy.http import Response
from scrapy.utils.url import add_http_if_no_scheme

from webcrawl.crawler.access import host_of
from webcrawl.crawler.errors import Postponed, ProxyFailed
from webcrawl.crawler.session import Session
from webcrawl.hosts.proxies import Proxy, ProxyPool

_PROXY_OR_HOST = (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
"""Failures that may be the fault of the proxy or of the host behind it."""


class Proxies:
    """Sends requests through their proxies, for every handler of http and https.

    A handler calls `send` with a function that downloads through the proxy of a given URL, or directly for None. That
    function raises ProxyFailed if the proxy did not pass the request on, so that the host was not asked.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._pool = session.proxies
        self._turns = session.turns
        self._encoding = crawler.settings.get("HTTPPROXY_AUTH_ENCODING")

    async def send(self, request: Request, download: Callable[[str | None], Awaitable[Response]]) -> Response:
        """Returns the response; raises what `download` raises.

        If a proxy of PROXIES fails, the next proxy is asked within the same turn. If all fail, the request waits.
        """
        pool = self._pool
        if pool is None or has_own_proxy(request):
            return await download(proxy_of(request, self._encoding))
        clock = asyncio.get_running_loop().time
        while True:
            proxy = await self._choose(pool, request)
            try:
                response = await download(proxy.url)
            except ProxyFailed as error:
                pool.fail(proxy, str(error), clock())
            except _PROXY_OR_HOST as error:
                pool.doubt(proxy, f"{type(error).__name__}: {error}", clock())
                raise
            else:
                pool.succeed(proxy)
                return response

    async def _choose(self, pool: ProxyPool, request: Request) -> Proxy:
        """Waits for a proxy that is not left out; raises Postponed if the crawl ends first."""
        clock, ending = asyncio.get_running_loop().time, self._turns.ending
        session = f"{host_of(request)} {request.meta.get('cookiejar')!r}"
        while True:
            proxy = pool.choose(session, request.meta.get("retry_times", 0), clock())
            if proxy is not None:
                return proxy
            async with self._turns.disconnected(host_of(request)):
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(pool.free_at):
                        await ending.wait()
            if ending.is_set():
                raise Postponed(f"the crawl ends while all proxies fail: {request.url}")


def has_own_proxy(request: Request) -> bool:
    """Whether the spider has chosen a proxy for a request, or None; a proxy of the environment does not count."""
    return "proxy" in request.meta and "_scheme_proxy" not in request.meta


def is_proxied(session: Session, request: Request) -> bool:
    """Whether a request is sent through a proxy, which connects to the host by itself."""
    return (session.proxies is not None and not has_own_proxy(request)) or bool(request.meta.get("proxy"))


def proxy_of(request: Request, encoding: str) -> str | None:
    """Returns the URL of the proxy in Request.meta, with the credentials of Proxy-Authorization; None without one.

    `encoding` is for the credentials. Raises DownloadFailedError for any authorization but Basic.
    """
    proxy = request.meta.get("proxy")
    if not proxy:
        return None
    url = urlsplit(add_http_if_no_scheme(proxy))
    credentials = request.headers.get("Proxy-Authorization")
    if credentials is None:
        return url.geturl()
    scheme, _, token = credentials.decode("ascii").partition(" ")
    if scheme.lower() != "basic":
        raise DownloadFailedError(f"Proxy-Authorization scheme {scheme!r} is not supported, only Basic.")
    user, _, password = base64.b64decode(token).decode(encoding).partition(":")
    return url._replace(netloc=f"{quote(user, '')}:{quote(password, '')}@{url.netloc}").geturl()
