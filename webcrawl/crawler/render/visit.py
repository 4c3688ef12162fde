"""Decides what the page of one request may load while a browser renders it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from playwright.async_api import CDPSession, Error, Page

from webcrawl.crawler.errors import Postponed
from webcrawl.errors import EngineUnavailable, StoreUnavailable

Allows = Callable[[str], Awaitable[bool]]
"""Returns whether robots.txt allows a URL; raises as `ResourceRules.allows` if the crawl ends before."""

_HTML = ("text/html", "application/xhtml+xml")
_EMPTY = (204, 205)
# Chromium's types of resources that do not change the text and links of a page.
_UNWANTED = frozenset({"image", "media", "font", "ping", "prefetch", "cspviolationreport"})
_LOADED = ("http:", "https:")
_INLINE = ("data:", "blob:")
_MOST_LOADS = 2
MOVED = 302
"""The status of a page that goes elsewhere by script or refresh."""


class Visit:
    """Filters the requests of one page: no images, no other page, and only URLs that robots.txt allows.

    `check` is called right before the page's own request is sent and may raise to prevent it. Without `allows`,
    robots.txt is not checked.
    """

    def __init__(self, url: str, check: Callable[[], None], allows: Allows | None) -> None:
        self._url = url
        self.check = check
        self._allows = allows
        self._tasks: set[asyncio.Task[None]] = set()
        self.page: Page | None = None
        self.answered = False
        """Whether the host has answered; a later failure is not the host's fault."""
        self.redirect: tuple[int, str] | None = None
        """Status and address of another page: a redirect of the host, or the page's own next page (status 302)."""
        self.is_steered = False
        """Whether the spider's page methods run, which may lead to other pages."""
        self.is_other_type = False
        """Whether the response is not HTML."""
        self.stayed = asyncio.Event()
        """Set when the page was kept from going elsewhere or loading itself again; `load` may then not fire."""
        self.leave: Callable[[], None] = lambda: None
        """Called when the page goes elsewhere."""
        self._loads: list[str] = []
        """The URL of the page as the browser spells it, once for each time that the browser requested it."""
        self.encoding = "UTF-8"
        """The encoding in which the host sent the page, as the browser names it."""
        self.ended: Exception | None = None
        """The exception that kept a resource from being loaded, because the crawl ends."""

    async def attach(self, page: Page) -> None:
        """Starts to filter the requests and responses of a page.

        Uses the DevTools protocol, because Playwright's routes see neither responses nor redirects of resources.
        """
        self.page = page
        self._cdp: CDPSession = await page.context.new_cdp_session(page)
        tree = await self._cdp.send("Page.getFrameTree")
        self._frame = tree["frameTree"]["frame"]["id"]
        self._cdp.on("Fetch.requestPaused", self._on_paused)
        patterns = [
            {"urlPattern": "*", "requestStage": "Request"},
            {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"},
        ]
        await self._cdp.send("Fetch.enable", {"patterns": patterns})

    async def refuses(self, kind: str, url: str, *, is_page: bool = False) -> bool:
        """Returns whether a resource must not be loaded; `kind` is Chromium's type of resource, in lower case.

        `is_page`: the resource would replace the page, which `_decide` prevents unless the spider's methods lead there.
        """
        if is_page and not self.is_steered:
            return False
        if kind in _UNWANTED or not url.startswith(_LOADED + _INLINE):
            return True
        if self._allows is None or url.startswith(_INLINE) or url == self._url:
            return False
        try:
            return not await self._allows(url)
        except (Postponed, EngineUnavailable, StoreUnavailable) as error:
            self.ended = error
            return True

    def _on_paused(self, event: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._decide(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, event: dict[str, Any]) -> None:
        """Continues or fails one paused request or response."""
        method, arguments = "Fetch.continueRequest", {"requestId": event["requestId"]}
        status, kind = event.get("responseStatusCode"), event.get("resourceType", "").lower()
        if status is not None:
            refused = self._is_unwanted_response(status, event)
        elif (
            kind == "document" and event.get("frameId") == self._frame and self._is_leaving(event["request"])
        ):
            # any other reason would replace the page by an error page
            method, arguments = "Fetch.failRequest", {**arguments, "errorReason": "Aborted"}
            refused = False
        elif "redirectedRequestId" in event:
            refused = await self.refuses(kind, event["request"]["url"])
        else:
            refused = False
        if refused:
            method, arguments = "Fetch.failRequest", {**arguments, "errorReason": "BlockedByClient"}
        with suppress(Error):  # the page is closed
            await self._cdp.send(method, arguments)

    def _is_leaving(self, request: dict[str, Any]) -> bool:
        """Returns whether the page goes elsewhere by script or refresh, which counts as a redirect.

        A page may load itself once more, because some pages do so after setting a cookie. A form that is sent by POST
        is refused without a redirect.
        """
        if self.is_steered:
            return False
        url = request["url"]
        if request["method"] == "GET" and (not self._loads or url == self._loads[0]):
            self._loads.append(url)
            if len(self._loads) <= _MOST_LOADS:
                return False
        elif request["method"] == "GET" and self.redirect is None and url.startswith(_LOADED):
            self.redirect = MOVED, url
            self.leave()
        self.stayed.set()
        return True

    def _is_unwanted_response(self, status: int, event: dict[str, Any]) -> bool:
        """Returns whether the page's own response is a redirect or not HTML, which the browser must not read."""
        if event.get("frameId") != self._frame:
            return False
        self.answered = True
        headers = {header["name"].lower(): header["value"] for header in event.get("responseHeaders", ())}
        if 300 <= status < 400 and "location" in headers:
            if self.is_steered:
                return False
            self.redirect = status, headers["location"]
            return True
        mime_type = headers.get("content-type", "text/html").partition(";")[0].strip().lower()
        is_file = headers.get("content-disposition", "").strip().lower().startswith("attachment")
        is_other_type = status in _EMPTY or is_file or mime_type not in _HTML
        if not self.is_steered:
            self.is_other_type = is_other_type
        return is_other_type
