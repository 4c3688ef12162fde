"""Renders pages in a browser.

A rendered page is the HTML that its scripts left once the network was idle. It is archived as a WARC resource record,
because no server sent it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from playwright.async_api import Error, TimeoutError as Late
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError
from scrapy.http import Headers, Response, TextResponse
from scrapy.settings import BaseSettings

from webcrawl.config import FetchConfig, read
from webcrawl.crawler.errors import RenderingFailed
from webcrawl.crawler.render.browser import PlaywrightPages
from webcrawl.crawler.render.guarded_proxy import GuardedProxy
from webcrawl.crawler.render.rules import RenderRules
from webcrawl.crawler.render.visit import Allows, Visit
from webcrawl.crawler.responses import TRUNCATED, make_response
from webcrawl.documents.body_writer import BodyWriter
from webcrawl.documents.encodings import codec_of, encode_page
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.mime.sizes import SizeLimits
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.dns import Resolver
from webcrawl.hosts.local_addresses import LocalAddresses
from webcrawl.urls.canonical import without_fragment

# The headless shell takes a sixth of the time of the others, which are complete browsers.
_BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
_MOST_BYTES = 1 << 28
_GONE = frozenset({"content-length", "content-encoding", "transfer-encoding", "content-type", "connection"})
# Each of these settings would let the browser bypass the address guard, or would have no effect.
_UNSUPPORTED = (
    "PLAYWRIGHT_BROWSER_PROVIDER",
    "PLAYWRIGHT_BROWSER_TYPE",
    "PLAYWRIGHT_CDP_URL",
    "PLAYWRIGHT_CONNECT_URL",
    "PLAYWRIGHT_LAUNCH_OPTIONS",
    "PLAYWRIGHT_MAX_CONTEXTS",
)


Rendered: TypeAlias = tuple[Response, Exchange | None]
"""The response, and its record for the archive; None for a redirect, which is not archived."""


class Renderer:
    """The browser of a crawl. Each page has a context of its own, without cookies, cache or storage of other pages.

    Callers hold a slot of `slots` while they render. Raises ConfigurationError for a wrong setting.
    """

    def __init__(
        self,
        settings: BaseSettings,
        resolver: Resolver,
        guard: AddressGuard,
        fetch: FetchConfig,
        local_addresses: LocalAddresses,
    ) -> None:
        for name in _UNSUPPORTED:
            if settings.get(name):
                raise ConfigurationError(
                    f"{name} cannot be set: the crawl starts its own browser. Remove it."
                )
        self.rules = RenderRules(read(settings, "RENDER"))
        self._proxy = GuardedProxy(resolver, guard, local_addresses)
        self._spool = fetch.spool
        self._most = int(min(SizeLimits(fetch.sizes).of("text/html"), _MOST_BYTES))
        self._executable = _executable(read(settings, "RENDER_BROWSER"))
        self._user_agent = read(settings, "USER_AGENT")
        self.slots = asyncio.Semaphore(os.cpu_count() or 1)
        self._pages: PlaywrightPages | None = None

    async def close(self) -> None:
        if self._pages is not None:
            await self._pages.close()

    async def render(
        self,
        request: Request,
        crawler: Crawler,
        timeout: float,
        check: Callable[[], None] = lambda: None,
        allows: Allows | None = None,
    ) -> Rendered | None:
        """Returns the rendered page, or a redirect of the host or of the page itself; None if it is not HTML.

        `check` is called right before the request is sent and may raise to prevent it; `allows` decides which resources
        the page loads. Raises Scrapy's download exceptions, RenderingFailed, and what `check` and `allows` raise.
        """
        visit = Visit(request.url, check, None if request.meta.get("dont_obey_robotstxt") else allows)
        response: Response | None = None
        try:
            response = await self._load(request, visit, crawler, timeout)
        except Exception:
            if visit.redirect is None:
                raise
        if visit.redirect is not None:
            status, location = visit.redirect
            return Response(request.url, status=status, headers={"Location": location}), None
        if response is None or visit.is_other_type:
            return None
        if visit.ended:
            raise visit.ended
        return self._rendered(request, response, visit.encoding) if visit.answered else None

    async def _load(
        self, request: Request, visit: Visit, crawler: Crawler, timeout: float
    ) -> Response | None:
        """Returns the page as the browser has it; None if it is not HTML. Ends when the page goes elsewhere."""
        if self._pages is None:
            self._pages = PlaywrightPages(crawler, self._executable, self._proxy, self._most + 1)
        assert crawler.spider is not None
        try:
            await self._pages.start()
            async with asyncio.timeout(timeout) as limit:
                visit.leave = partial(_end, limit)
                return await self._pages.download(
                    request, visit, crawler.spider, _agent(request) or self._user_agent
                )
        except Error as error:
            if visit.is_other_type:
                return None
            raise visit.ended or _failure(error, visit) from error
        except TimeoutError as error:
            kind = RenderingFailed if visit.answered else DownloadTimeoutError
            raise kind(f"Rendering {request.url} took longer than {timeout} seconds.") from error
        except Exception as error:
            if not visit.answered:
                raise
            # a page method or an event handler of the spider failed
            raise RenderingFailed(f"{type(error).__name__}: {error}") from error

    def _rendered(self, request: Request, response: Response, encoding: str) -> Rendered:
        """Returns the page, truncated if it is too long, and its record for the archive.

        The page is in UTF-8, or in the encoding in which the host sent it if the queries of its links are in it.
        """
        text = (
            response.text if isinstance(response, TextResponse) else response.body.decode("utf-8", "replace")
        )
        tree = encode_page(text, codec_of(encoding))
        charset = "utf-8" if tree is None else encoding.lower()
        tree = text.encode() if tree is None else tree
        mime_type = "text/html" if charset == "utf-8" else f"text/html; charset={charset}"
        writer = BodyWriter(self._spool, digests=True)
        writer.add(tree[: self._most])
        body, truncated = writer.finish(), "length" if len(tree) > self._most else None
        url = without_fragment(request.url)
        exchange = Exchange.without_heads(url, body, mime_type, status=response.status, truncated=truncated)
        headers = Headers({"Content-Type": f"text/html; charset={charset}"})
        for name, values in response.headers.items():
            if name.decode().lower() not in _GONE:
                headers[name] = [line for value in values for line in value.split(b"\n")]
        flags = ["rendered", *([TRUNCATED] if truncated else [])]
        return make_response(body, request.url, headers, status=response.status, flags=flags), exchange


def _end(limit: asyncio.Timeout) -> None:
    """Ends a time limit now."""
    with suppress(RuntimeError):  # the limit has ended
        limit.reschedule(asyncio.get_running_loop().time())


def _failure(error: Error, visit: Visit) -> Exception:
    """Returns the exception to raise for an error of Playwright."""
    kind: type[Exception] = DownloadTimeoutError if isinstance(error, Late) else DownloadFailedError
    if visit.answered:
        kind = RenderingFailed
    return kind(f"rendering failed: {error.message.splitlines()[0]}")


def _agent(request: Request) -> str | None:
    value = request.headers.get("User-Agent")
    return None if value is None else value.decode("latin-1")


def _executable(browser: str | None) -> str | None:
    """Returns the path of the named or an installed browser; None for the browser that Playwright installs."""
    for name in [browser] if browser else _BROWSERS:
        if path := shutil.which(name):
            return path
    if browser:
        raise ConfigurationError(f"RENDER_BROWSER {browser!r}: there is no such program.")
    return None
