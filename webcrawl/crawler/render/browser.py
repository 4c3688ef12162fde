"""Renders pages by scrapy-playwright without Twisted's reactor, in a Chromium behind the crawl's address guard.

scrapy-playwright's download handler needs a reactor only in its constructor and its entry point; plain coroutines do
its work. Here it runs without a reactor, with a browser of our own, and a `Visit` filters what each page loads.
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
    Error,
    Page,
    Request as PageRequest,
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

from webcrawl.crawler.render.guarded_proxy import GuardedProxy
from webcrawl.crawler.render.visit import Visit

_QUIET_SECONDS = 3.0
_CLOSE_SECONDS = 5.0
# A rendered page is always fetched in full, and the browser decodes it.
_NOT_SENT = frozenset({"if-none-match", "if-modified-since", "accept-encoding"})
_TREE = r"""most => [
    document.characterSet,
    (document.doctype ? '<!DOCTYPE html>\n' : '') + document.documentElement.outerHTML.slice(0, most)
]"""

_ARGUMENTS = (
    # nothing bypasses the proxy: the browser resolves no names and sends nothing by UDP
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--js-flags=--max-old-space-size=512",
)

_visit: ContextVar[Visit] = ContextVar("visit")


class PlaywrightPages(ScrapyPlaywrightDownloadHandler):
    """scrapy-playwright's handler. `download` renders one page in a browser context of its own.

    A context that the meta of a request names is kept for other requests with that name.
    """

    def __init__(self, crawler: Crawler, executable: str | None, proxy: GuardedProxy, most: int) -> None:
        """Sets the attributes that the library's constructor sets, without its reactor and HTTP client.

        `most` is the number of characters of a page that are read.
        """
        settings = crawler.settings
        self.stats = crawler.stats
        self.config = Config.from_settings(settings)
        # the frontier retries, after another turn of the host
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
        """Starts the browser if it is not running."""
        async with self.context_launch_lock:
            if hasattr(self, "browser") and not self.browser.is_connected():
                self.context_wrappers.clear()
                del self.browser
            await self._maybe_launch_browser()

    async def close(self) -> None:
        with suppress(Error):
            await self._close()

    async def download(self, request: Request, visit: Visit, spider: Spider, user_agent: str) -> Response:
        """Returns the page as its scripts left it, with the status and headers that the host sent.

        Raises Playwright's errors, and NotSupported for options in the meta that are not supported.
        """
        named = request.meta.get("playwright_context")
        context = named or f"page {next(self._numbers)}"
        meta = {
            **request.meta,
            "playwright_context": context,
            "playwright_context_kwargs": self._context_kwargs(request, context, user_agent),
            # keeps the library from closing the page, which is closed below, also after an error
            "playwright_include_page": True,
        }
        _visit.set(visit)
        try:
            response: Response = await self._download_request(request.replace(meta=meta), spider)
            return response
        finally:
            wrapper = self.context_wrappers.get(context)
            opened = visit.page if named or wrapper is None else wrapper.context
            if opened is not None:
                with suppress(Error, TimeoutError):
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await opened.close()

    def _context_kwargs(self, request: Request, context: str, user_agent: str) -> dict[str, Any]:
        if request.meta.get("playwright_include_page"):
            raise NotSupported(
                "playwright_include_page is not supported: the page is closed after rendering. "
                "Use playwright_page_methods."
            )
        usual = self.config.startup_context_kwargs.get(context) or {}
        kwargs = {"user_agent": user_agent, **usual, **(request.meta.get("playwright_context_kwargs") or {})}
        if "proxy" in kwargs:
            raise NotSupported(
                "A proxy in playwright_context_kwargs is not supported: it would bypass the address guard."
            )
        return {**kwargs, "service_workers": "block", "accept_downloads": False}

    # --- what the library calls --------------------------------------------------------------------------------------

    async def _browser_disconnected_callback(self) -> None:
        """Does nothing; `start` checks the browser before each page, and the library's callback would race with it."""

    async def _create_browser_context(
        self, name: str, context_kwargs: dict[str, Any] | None, spider: Spider | None = None
    ) -> BrowserContextWrapper:
        wrapper = await super()._create_browser_context(name, context_kwargs, spider)
        # blocks windows that pages open; the route of a requested page takes precedence
        await wrapper.context.route("**", _abort)
        return wrapper

    async def _create_page(self, request: Request, spider: Spider) -> Page:
        page: Page = await super()._create_page(request, spider)
        # the caller limits the time
        page.set_default_navigation_timeout(self.config.navigation_timeout_ms or 0)
        # the library calls this; it would hold an endless page three times in memory
        vars(page)["content"] = partial(_content, page, self._most, _visit.get())
        vars(page)["goto"] = partial(_goto, page, page.goto, _visit.get())
        await _visit.get().attach(page)
        return page

    async def _get_response_and_download(self, request: Request, page: Page, spider: Spider) -> Any:
        _visit.get().check()
        response = await super()._get_response_and_download(request, page, spider)
        if "wait_until" not in (request.meta.get("playwright_page_goto_kwargs") or {}):
            await _quiet(page)
        return response

    async def _apply_page_methods(self, page: Page, request: Request, spider: Spider) -> None:
        _visit.get().is_steered = bool(request.meta.get("playwright_page_methods"))
        await super()._apply_page_methods(page, request, spider)

    def _make_request_handler(self, **details: Any) -> Callable[[Route, PageRequest], Awaitable[None]]:
        """Returns the library's handler for the requests of a page that the visit does not refuse."""
        handle, visit = super()._make_request_handler(**details), _visit.get()

        async def filter_request(route: Route, request: PageRequest) -> None:
            if await visit.refuses(request.resource_type, request.url, is_page=_is_page(request)):
                await _abort(route)
            else:
                await handle(route, request)

        return filter_request


async def _headers(
    *, browser_type_name: str, playwright_request: PageRequest, scrapy_request_data: dict[str, Any]
) -> dict[str, str]:
    """Returns the browser's headers, and for the page itself also the headers of the request."""
    headers = dict(playwright_request.headers)
    if playwright_request.is_navigation_request() and playwright_request.url == scrapy_request_data["url"]:
        own = scrapy_request_data["headers"].to_unicode_dict()
        headers |= {name.lower(): value for name, value in own.items() if name.lower() not in _NOT_SENT}
    return headers


def _is_page(request: PageRequest) -> bool:
    """Returns whether a request is for the page itself or a page that replaces it, not for a frame or resource."""
    return request.is_navigation_request() and request.frame.parent_frame is None


async def _goto(
    page: Page, goto: Callable[..., Awaitable[Any]], visit: Visit, *, wait_until: Any = "load", **options: Any
) -> Any:
    """Opens a page, and waits until it is loaded or tried to go elsewhere; returns Playwright's response."""
    response = await goto(**options, wait_until="commit")
    if wait_until == "commit":
        return response
    loaded = asyncio.ensure_future(page.wait_for_load_state(wait_until, timeout=options.get("timeout")))
    stayed = asyncio.ensure_future(visit.stayed.wait())
    try:
        await asyncio.wait((loaded, stayed), return_when=asyncio.FIRST_COMPLETED)
        if loaded.done():
            loaded.result()
    finally:
        loaded.cancel()
        stayed.cancel()
    return response


async def _abort(route: Route) -> None:
    with suppress(Error):  # the page is closed
        await route.abort("blockedbyclient")


async def _quiet(page: Page) -> None:
    with suppress(Late):
        await page.wait_for_load_state("networkidle", timeout=_QUIET_SECONDS * 1000)


async def _content(page: Page, most: int, visit: Visit) -> str:
    """Returns at most `most` characters of the HTML of a page, without surrogates that UTF-8 cannot encode."""
    visit.encoding, tree = await page.evaluate(_TREE, most)
    return str(tree).encode("utf-8", "replace").decode()


class GuardedBrowser(PlaywrightBrowserProvider):
    """scrapy-playwright's browser provider, for a Chromium behind `proxy`."""

    playwright: Any
    playwright_context_manager: Any

    def __init__(self, config: Config, executable: str | None, proxy: GuardedProxy) -> None:
        super().__init__(config)
        self._executable = executable
        self._proxy = proxy

    async def launch_browser(self) -> Browser:
        """Starts a browser, after closing what a crashed browser left open."""
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
            # Chromium's sandbox does not work for root
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
            "user_data_dir is not supported: it would start a browser that bypasses the address guard."
        )

    async def close(self) -> None:
        if self.playwright is not None:
            with suppress(Error):
                await super().close()
            self.playwright = self.playwright_context_manager = None
            await self._proxy.__aexit__()
