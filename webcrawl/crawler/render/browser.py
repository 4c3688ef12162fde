"""Pages by scrapy-playwright, without Twisted's reactor, in a Chromium behind the crawl's address guard.

scrapy-playwright's download handler wants a reactor only to be made and to be called; its work is plain coroutines.
Here it is made without one, gets its browser from us, and each of its pages a `Visit`, which watches over what the page
asks for.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from playwright.async_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Error,
    Page,
    Request as Asked,
    Route,
    TimeoutError as Late,
)
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotSupported
from scrapy.http import Response
from scrapy.utils.misc import load_object
from scrapy_playwright.handler import BrowserContextWrapper, Config, ScrapyPlaywrightDownloadHandler
from scrapy_playwright.provider import PlaywrightBrowserProvider

from webcrawl.crawler.errors import Postponed
from webcrawl.crawler.render.guarded_proxy import GuardedProxy
from webcrawl.errors import EngineUnavailable

Allows = Callable[[str], Awaitable[bool]]
"""Whether robots.txt lets a URL be loaded; Postponed, EngineUnavailable: the crawl ends before that is known."""

_QUIET_SECONDS = 3.0
_CLOSE_SECONDS = 5.0
_HTML = ("text/html", "application/xhtml+xml")
_EMPTY = (204, 205)
# What a page looks like is nobody's business here.
_UNWANTED = frozenset({"image", "media", "font", "ping", "prefetch", "cspviolationreport"})
_LOADED = ("http:", "https:")
_CARRIED = ("data:", "blob:")
# A page that is rendered is always wanted whole, and the browser says itself what it can decode.
_NOT_SENT = frozenset({"if-none-match", "if-modified-since", "accept-encoding"})
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

_visit: ContextVar[Visit] = ContextVar("visit")


class GuardedBrowser(PlaywrightBrowserProvider):
    """scrapy-playwright's provider of a Chromium that reaches the network through `proxy` alone."""

    playwright: Any
    playwright_context_manager: Any

    def __init__(self, config: Config, executable: str | None, proxy: GuardedProxy) -> None:
        super().__init__(config)
        self._executable = executable
        self._proxy = proxy

    async def launch_browser(self) -> Browser:
        """A new browser; what one that died has left is given up."""
        await self.close()
        proxy = await self._proxy.__aenter__()
        self.config.launch_options = {
            "executable_path": self._executable,
            "args": list(_ARGUMENTS),
            "proxy": {
                "server": proxy.url,
                "bypass": "<-loopback>",
                "username": proxy.user,
                "password": proxy.password,
            },
            # a sandbox needs a user of its own
            "chromium_sandbox": os.geteuid() != 0,
            "handle_sigint": False,
            "handle_sigterm": False,
            "handle_sighup": False,
        }
        await self.start()
        browser: Browser = await super().launch_browser()
        return browser

    async def launch_persistent_context(self, context_kwargs: dict[str, Any]) -> BrowserContext:
        raise NotSupported(
            "a context with a user_data_dir would be a browser of its own, past the address guard"
        )

    async def close(self) -> None:
        if self.playwright is not None:
            with suppress(Error):
                await super().close()
            self.playwright = self.playwright_context_manager = None
            await self._proxy.__aexit__()


class PlaywrightPages(ScrapyPlaywrightDownloadHandler):
    """scrapy-playwright's handler: `download` is its `download_request` for one page in a context of its own.

    A context that the request names in its meta stays for others of that name.
    """

    def __init__(self, crawler: Crawler, executable: str | None, proxy: GuardedProxy, most: int) -> None:
        """What the library's own makes, but for the reactor and Scrapy's HTTP client. `most`: characters of a page."""
        settings = crawler.settings
        self.stats = crawler.stats
        self.config = Config.from_settings(settings)
        # a page that is asked for again waits for another turn of its host
        self.config.target_closed_max_retries = 0
        self.browser_provider = GuardedBrowser(self.config, executable, proxy)
        self.browser_launch_lock = asyncio.Lock()
        self.context_launch_lock = asyncio.Lock()
        self.context_wrappers: dict[str, BrowserContextWrapper] = {}
        self.process_request_headers: Any = _headers
        if "PLAYWRIGHT_PROCESS_REQUEST_HEADERS" in settings:
            named = settings["PLAYWRIGHT_PROCESS_REQUEST_HEADERS"]
            self.process_request_headers = None if named is None else load_object(named)
        abort = settings.get("PLAYWRIGHT_ABORT_REQUEST")
        self.abort_request = load_object(abort) if abort else None
        self._most = most
        self._numbers = itertools.count(1)

    async def start(self) -> None:
        """Have a browser that runs."""
        async with self.context_launch_lock:
            if hasattr(self, "browser") and not self.browser.is_connected():
                self.context_wrappers.clear()
                del self.browser
            await self._maybe_launch_browser()

    async def close(self) -> None:
        with suppress(Error):
            await self._close()

    async def download(self, request: Request, visit: Visit, spider: Spider, user_agent: str) -> Response:
        """The page that its scripts left, with the status and headers that the host sent.

        Raises Playwright's errors, and NotSupported for what the meta must not ask for.
        """
        named = request.meta.get("playwright_context")
        context = named or f"page {next(self._numbers)}"
        meta = {
            **request.meta,
            "playwright_context": context,
            "playwright_context_kwargs": self._context_kwargs(request, context, user_agent),
            # neither closed nor complained of by the library: that is done here, however it ends
            "playwright_include_page": True,
        }
        _visit.set(visit)
        try:
            response: Response = await self._download_request(request.replace(meta=meta), spider)
            return response
        finally:
            wrapper = self.context_wrappers.get(context)
            left = visit.page if named or wrapper is None else wrapper.context
            if left is not None:
                with suppress(Error, TimeoutError):
                    await asyncio.wait_for(left.close(), _CLOSE_SECONDS)

    def _context_kwargs(self, request: Request, context: str, user_agent: str) -> dict[str, Any]:
        if request.meta.get("playwright_include_page"):
            raise NotSupported(
                "playwright_include_page: a page is closed when it has been read; use playwright_page_methods"
            )
        usual = self.config.startup_context_kwargs.get(context) or {}
        kwargs = {"user_agent": user_agent, **usual, **(request.meta.get("playwright_context_kwargs") or {})}
        if "proxy" in kwargs:
            raise NotSupported(
                "a context with a proxy of its own would reach the network past the address guard"
            )
        return {**kwargs, "service_workers": "block", "accept_downloads": False}

    # --- what the library calls --------------------------------------------------------------------------------------

    async def _browser_disconnected_callback(self) -> None:
        """Nothing: `start` looks before each page, and would else be overtaken."""

    async def _create_browser_context(
        self, name: str, context_kwargs: dict[str, Any] | None, spider: Spider | None = None
    ) -> BrowserContextWrapper:
        wrapper = await super()._create_browser_context(name, context_kwargs, spider)
        # of windows that pages open nothing is wanted; a page that is asked for has its own route, which comes first
        await wrapper.context.route("**", _abort)
        return wrapper

    async def _create_page(self, request: Request, spider: Spider) -> Page:
        page: Page = await super()._create_page(request, spider)
        # bounded by the caller, who knows how long the request may take
        page.set_default_navigation_timeout(self.config.navigation_timeout_ms or 0)
        # the library takes what this gives; the whole of an endless page would be held three times
        setattr(page, "content", partial(_content, page, self._most))  # noqa: B010
        await _visit.get().over(page)
        return page

    async def _get_response_and_download(self, request: Request, page: Page, spider: Spider) -> Any:
        _visit.get().check()
        found = await super()._get_response_and_download(request, page, spider)
        if "wait_until" not in (request.meta.get("playwright_page_goto_kwargs") or {}):
            await _quiet(page)
        return found

    def _make_request_handler(self, **details: Any) -> Callable[[Route, Asked], Awaitable[None]]:
        """The library's, after the visit's own look: it sees the requests of all frames and workers of a page."""
        handle, visit = super()._make_request_handler(**details), _visit.get()

        async def look(route: Route, asked: Asked) -> None:
            if await visit.refuses(asked.resource_type, asked.url):
                await _abort(route)
            else:
                await handle(route, asked)

        return look


class Visit:
    """What the page of one request may ask for: no pictures, no redirect of the page itself, what robots.txt allows.

    `check` is called right before the request goes out and may raise to keep it. Without `allows` robots.txt is asked
    for nothing.
    """

    def __init__(self, url: str, check: Callable[[], None], allows: Allows | None) -> None:
        self._url = url
        self.check = check
        self._allows = allows
        self._tasks: set[asyncio.Task[None]] = set()
        self.page: Page | None = None
        self.answered = False
        """The host has answered: what goes wrong now is not its fault."""
        self.redirect: tuple[int, str] | None = None
        self.other = False
        """It is no HTML."""
        self.ended: Exception | None = None
        """The crawl ends, and a resource is missing for that."""

    async def over(self, page: Page) -> None:
        """Watch over a page.

        Playwright's routes tell nothing of answers, and of a resource's redirects neither.
        """
        self.page = page
        self._cdp: CDPSession = await page.context.new_cdp_session(page)
        tree = await self._cdp.send("Page.getFrameTree")
        self._frame = tree["frameTree"]["frame"]["id"]
        self._cdp.on("Fetch.requestPaused", self._paused)
        patterns = [
            {"urlPattern": "*", "requestStage": "Request"},
            {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"},
        ]
        await self._cdp.send("Fetch.enable", {"patterns": patterns})

    async def refuses(self, kind: str, url: str) -> bool:
        """Whether this must not be loaded; `kind` is Chromium's type of a resource, in lower case."""
        if kind in _UNWANTED or not url.startswith(_LOADED + _CARRIED):
            return True
        if self._allows is None or url.startswith(_CARRIED) or url == self._url:
            return False
        try:
            return not await self._allows(url)
        except (Postponed, EngineUnavailable) as error:
            self.ended = error
            return True

    def _paused(self, event: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._decide(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, event: dict[str, Any]) -> None:
        method, arguments = "Fetch.continueRequest", {"requestId": event["requestId"]}
        status, kind = event.get("responseStatusCode"), event.get("resourceType", "").lower()
        if status is not None:
            refused = self._is_unread(status, event)
        elif "redirectedRequestId" in event:
            refused = await self.refuses(kind, event["request"]["url"])
        else:
            refused = False
        if refused:
            method, arguments = "Fetch.failRequest", {**arguments, "errorReason": "BlockedByClient"}
        with suppress(Error):  # the page is closed
            await self._cdp.send(method, arguments)

    def _is_unread(self, status: int, event: dict[str, Any]) -> bool:
        """Whether the answer is for others than this browser: a redirect of the page, or no HTML."""
        if event.get("frameId") != self._frame:
            return False
        self.answered = True
        headers = {one["name"].lower(): one["value"] for one in event.get("responseHeaders", ())}
        if 300 <= status < 400 and "location" in headers:
            self.redirect = status, headers["location"]
            return True
        mime_type = headers.get("content-type", "text/html").partition(";")[0].strip().lower()
        is_file = headers.get("content-disposition", "").strip().lower().startswith("attachment")
        self.other = status in _EMPTY or is_file or mime_type not in _HTML
        return self.other


async def _headers(
    *, browser_type_name: str, playwright_request: Asked, scrapy_request_data: dict[str, Any]
) -> dict[str, str]:
    """The browser's headers, and of the page itself those of the request over them; frames of others get none."""
    headers = dict(playwright_request.headers)
    if playwright_request.is_navigation_request() and playwright_request.url == scrapy_request_data["url"]:
        said = scrapy_request_data["headers"].to_unicode_dict()
        headers |= {name.lower(): value for name, value in said.items() if name.lower() not in _NOT_SENT}
    return headers


async def _abort(route: Route) -> None:
    with suppress(Error):  # the page is closed
        await route.abort("blockedbyclient")


async def _quiet(page: Page) -> None:
    with suppress(Late):
        await page.wait_for_load_state("networkidle", timeout=_QUIET_SECONDS * 1000)


async def _content(page: Page, most: int) -> str:
    """The tree of a page, at most so many characters of it, in which all can be encoded."""
    return str(await page.evaluate(_TREE, most)).encode("utf-8", "replace").decode()
