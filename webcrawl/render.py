"""Pages that a browser renders: Chromium by Playwright, its network behind the crawl's address guard.

scrapy-playwright needs Twisted's reactor, which this project does without; and the browser's requests have to go where
the guard lets them. A rendered page is the tree that its scripts left after the network came to rest, and is archived
as a resource, since no server sent it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from fnmatch import translate
from typing import Any, TypeAlias

from playwright.async_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Error,
    Page,
    TimeoutError as Late,
    async_playwright,
)
from scrapy import Request
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError
from scrapy.http import Headers, Response

from webcrawl.addresses import AddressGuard
from webcrawl.body import BodyWriter
from webcrawl.config import FetchConfig
from webcrawl.dns import Resolver
from webcrawl.errors import ConfigurationError
from webcrawl.exchange import Exchange
from webcrawl.guarded_proxy import GuardedProxy
from webcrawl.mime.sizes import Sizes
from webcrawl.responses import TRUNCATED, make_response
from webcrawl.urls import hostname

# The first takes a sixth of the time of the others, which are whole browsers.
_BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
_QUIET_SECONDS = 3.0
_CLOSE_SECONDS = 5.0
_MOST_BYTES = 1 << 28
_HTML = ("text/html", "application/xhtml+xml")
# What a page looks like is nobody's business here.
_UNWANTED = frozenset({"Image", "Media", "Font", "Ping", "Prefetch", "CSPViolationReport"})
_GONE = frozenset({"content-length", "content-encoding", "transfer-encoding", "content-type", "connection"})
_TREE = "n => (document.doctype ? '<!DOCTYPE html>\\n' : '') + document.documentElement.outerHTML.slice(0, n)"
_ARGUMENTS = (
    # no way around the proxy: names are not resolved, and nothing goes by UDP
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--js-flags=--max-old-space-size=512",
)


Rendered: TypeAlias = tuple[Response, Exchange | None]
"""The page, and what is archived of it; a redirect leaves nothing."""


class Rules:
    """RENDER: hosts ("example.org", with all below it) and patterns of URLs ("https://example.org/app/*")."""

    def __init__(self, rules: Sequence[str]) -> None:
        self._hosts = {rule.lower() for rule in rules if "/" not in rule}
        patterns = [translate(rule) for rule in rules if "/" in rule]
        self._patterns = re.compile("|".join(patterns)) if patterns else None

    def apply(self, url: str) -> bool:
        """Whether a URL is to be rendered."""
        if self._patterns and self._patterns.match(url):
            return True
        name = hostname(url)
        while name and name not in self._hosts:
            name = name.partition(".")[2]
        return bool(name)


class Renderer:
    """One browser for the pages of one crawl, each in a context of its own: no cookies, no cache, no storage.

    Who renders holds one of its `places`.
    """

    def __init__(
        self,
        rules: Sequence[str],
        browser: str | None,
        user_agent: str,
        resolver: Resolver,
        guard: AddressGuard,
        fetch: FetchConfig,
    ) -> None:
        self.rules = Rules(rules)
        self._proxy = GuardedProxy(resolver, guard)
        self._spool = fetch.spool
        self._most = Sizes(fetch.sizes).of("text/html")
        self._executable = _executable(browser)
        self._user_agent = user_agent
        self.places = asyncio.Semaphore(os.cpu_count() or 1)
        self._starting = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._browser: Browser | None = None

    async def close(self) -> None:
        with suppress(Error):
            await self._stack.aclose()

    async def render(
        self, request: Request, timeout: float, check: Callable[[], None] = lambda: None
    ) -> Rendered | None:
        """The rendered page, or the redirect that the host answered; None for what is no HTML.

        `check` is called right before the request goes out and may raise to keep it. Raises Scrapy's exceptions of
        downloads.
        """
        try:
            browser = await self._started()
            async with asyncio.timeout(timeout):
                return await self._in_context(request, browser, timeout, check)
        except (TimeoutError, Late) as error:
            raise DownloadTimeoutError(
                f"Rendering {request.url} took longer than {timeout} seconds."
            ) from error
        except Error as error:
            raise DownloadFailedError(f"rendering failed: {error.message.splitlines()[0]}") from error

    async def _in_context(
        self, request: Request, browser: Browser, timeout: float, check: Callable[[], None]
    ) -> Rendered | None:
        agent = _agent(request) or self._user_agent
        context = await browser.new_context(user_agent=agent, service_workers="block", accept_downloads=False)
        try:
            return await self._page(request, context, timeout, check)
        finally:
            with suppress(Error, TimeoutError):
                await asyncio.wait_for(context.close(), _CLOSE_SECONDS)

    async def _started(self) -> Browser:
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                await self.close()
                self._stack = AsyncExitStack()
                proxy = await self._stack.enter_async_context(self._proxy)
                playwright = await self._stack.enter_async_context(async_playwright())
                self._browser = await playwright.chromium.launch(
                    executable_path=self._executable,
                    args=list(_ARGUMENTS),
                    proxy={
                        "server": proxy.url,
                        "bypass": "<-loopback>",
                        "username": proxy.user,
                        "password": proxy.password,
                    },
                    # a sandbox needs a user of its own
                    chromium_sandbox=os.geteuid() != 0,
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
                self._stack.push_async_callback(self._browser.close)
            return self._browser

    async def _page(
        self, request: Request, context: BrowserContext, timeout: float, check: Callable[[], None]
    ) -> Rendered | None:
        page = await context.new_page()
        watch = await _Watch.over(page)
        check()
        try:
            answer = await page.goto(request.url, wait_until="load", timeout=timeout * 1000)
        except Error:
            if watch.redirect is not None:
                return _redirect(request, watch), None
            if watch.other:
                return None
            raise
        if answer is None:
            return None
        with suppress(Late):
            await page.wait_for_load_state("networkidle", timeout=_QUIET_SECONDS * 1000)
        headers = {name: value for name, value in answer.headers.items() if name not in _GONE}
        return await self._rendered(request, page, answer.status, headers)

    async def _rendered(self, request: Request, page: Page, status: int, headers: dict[str, str]) -> Rendered:
        limit = int(min(self._most, _MOST_BYTES))
        tree = str(await page.evaluate(_TREE, limit + 1)).encode("utf-8", "replace")
        writer = BodyWriter(self._spool, digests=True)
        writer.add(tree[:limit])
        body, truncated = writer.finish(), "length" if len(tree) > limit else None
        exchange = Exchange(
            url=request.url,
            method="GET",
            request_head=b"",
            request_body=b"",
            status=status,
            response_head=b"",
            payload=body,
            ip_address=None,
            fetched_at=datetime.now(UTC),
            truncated=truncated,
            mime_type="text/html",
        )
        kept = Headers({**headers, "Content-Type": "text/html; charset=utf-8"})
        flags = ["rendered", *([TRUNCATED] if truncated else [])]
        return make_response(body, request.url, kept, status=status, flags=flags), exchange


class _Watch:
    """Looks at all that a page asks for: no pictures, no redirect of the page itself, nothing but HTML."""

    def __init__(self, cdp: CDPSession, frame: str) -> None:
        self._cdp = cdp
        self._frame = frame
        self._tasks: set[asyncio.Task[None]] = set()
        self.redirect: tuple[int, str] | None = None
        self.other = False

    @classmethod
    async def over(cls, page: Page) -> _Watch:
        cdp = await page.context.new_cdp_session(page)
        tree = await cdp.send("Page.getFrameTree")
        watch = cls(cdp, tree["frameTree"]["frame"]["id"])
        cdp.on("Fetch.requestPaused", watch._paused)
        patterns = [
            {"urlPattern": "*", "requestStage": "Request"},
            {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"},
        ]
        await cdp.send("Fetch.enable", {"patterns": patterns})
        return watch

    def _paused(self, event: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._decide(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, event: dict[str, Any]) -> None:
        method, arguments = "Fetch.continueRequest", {"requestId": event["requestId"]}
        if self._is_unwanted(event):
            method, arguments = "Fetch.failRequest", {**arguments, "errorReason": "BlockedByClient"}
        with suppress(Error):  # the page is closed
            await self._cdp.send(method, arguments)

    def _is_unwanted(self, event: dict[str, Any]) -> bool:
        kind, status = event.get("resourceType"), event.get("responseStatusCode")
        if status is None:
            return kind in _UNWANTED or not event["request"]["url"].startswith(
                ("http:", "https:", "data:", "blob:")
            )
        if kind != "Document" or event.get("frameId") != self._frame:
            return False
        headers = {one["name"].lower(): one["value"] for one in event.get("responseHeaders", ())}
        if 300 <= status < 400 and "location" in headers:
            self.redirect = status, headers["location"]
            return True
        mime_type = headers.get("content-type", "text/html").partition(";")[0].strip().lower()
        self.other = mime_type not in _HTML
        return self.other


def _redirect(request: Request, watch: _Watch) -> Response:
    assert watch.redirect is not None
    status, location = watch.redirect
    return Response(request.url, status=status, headers={"Location": location})


def _agent(request: Request) -> str | None:
    value = request.headers.get("User-Agent")
    return None if value is None else value.decode("latin-1")


def _executable(browser: str | None) -> str | None:
    """The browser that is named, else that of the system, else None: the one that Playwright has installed."""
    for name in [browser] if browser else _BROWSERS:
        if path := shutil.which(name):
            return path
    if browser:
        raise ConfigurationError(f"RENDER_BROWSER {browser!r}: there is no such program")
    return None
