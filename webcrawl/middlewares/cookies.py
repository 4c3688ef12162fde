"""Stores and sends cookies as Scrapy's middleware does, in jars that the workers of a crawl share."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.crawler.access import host_of, tasks_of
from webcrawl.crawler.cookies import MOST_RECEIVED, CookieRules, Jars, SiteCookies
from webcrawl.crawler.responses import NEW_COOKIES
from webcrawl.crawler.session import Session, SessionComponent

logger = logging.getLogger(__name__)


class CookiesMiddleware(SessionComponent):
    """Supports `Request.cookies` and the keys `cookiejar` and `dont_merge_cookies` of Request.meta."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._jars = Jars(session.connection)
        self._rules = CookieRules(crawler)
        self._debug = crawler.settings.getbool("COOKIES_DEBUG")
        self._warned = False

    def process_request(self, request: Request) -> Awaitable[None] | None:
        # a broad crawl should not pay for a coroutine for each page
        return self._send(request) if self._applies(request) else None

    async def _send(self, request: Request) -> None:
        part = await self._part(request)
        if request.cookies:
            before = part.changes
            given = Response(request.url, headers={"Set-Cookie": list(_cookie_lines(request))})
            part.accept(given, request)
            if part.changes != before:  # the next lease of the host reads the jar from the engine
                await self._jars.write(part)
        request.headers.pop("Cookie", None)
        part.cookies.add_cookie_header(request)
        if self._debug and "Cookie" in request.headers:
            logger.debug("Sending cookies to %s: %r", request, request.headers.getlist("Cookie"))

    def process_response(self, request: Request, response: Response) -> Response | Awaitable[Response]:
        if not self._applies(request):
            if request.method == "POST" and not self._rules.off and "Set-Cookie" in response.headers:
                self._warn(
                    "%s: the cookies of the answer are not kept. For a login, name a jar in the requests that "
                    'belong to it, meta={"cookiejar": 1}, or set COOKIES_ENABLED to True.',
                    request,
                )
        elif "Set-Cookie" in response.headers:
            return self._keep(request, response)
        return response

    async def _keep(self, request: Request, response: Response) -> Response:
        # a jar that was dropped from memory meanwhile is read again, so that the engine's cookies are not lost
        part = await self._part(request)
        before, names = part.changes, part.names()
        part.accept(response, request, MOST_RECEIVED)
        if not part.names() <= names:
            response.flags.append(NEW_COOKIES)
        if self._debug:
            logger.debug("Received cookies from %s: %r", response, response.headers.getlist("Set-Cookie"))
        if part.changes != before:
            await self._jars.write(part)
        return response

    def _applies(self, request: Request) -> bool:
        """Returns whether a request uses a jar."""
        if self._rules.off and self._rules.wants(request):
            self._warn("%s: its cookies are not sent, because COOKIES_ENABLED is False.", request)
        return self._rules.applies(request)

    async def _part(self, request: Request) -> SiteCookies:
        part = self._jars.part(request.meta.get("cookiejar"), request.url)
        tasks = tasks_of(self._crawler)
        url = tasks.leased(request)
        await self._jars.read(part, host_of(request), tasks.worker.hosts.token(url.host) if url else 0)
        return part

    def _warn(self, message: str, request: Request) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(message, request)


def _cookie_lines(request: Request) -> Iterator[str]:
    """Yields the cookies of a request in the form of Set-Cookie; logs and skips a cookie without name or value."""
    cookies: Any = request.cookies
    if isinstance(cookies, Mapping):
        cookies = [{"name": name, "value": value} for name, value in cookies.items()]
    secure = request.url.lower().startswith("https:")
    for cookie in cookies:
        fields = {name: _text(cookie.get(name)) for name in ("name", "value", "path", "domain")}
        if not fields["name"] or fields["value"] is None:
            logger.warning("%s: the cookie %r has no name or no value and is not sent.", request, cookie)
            continue
        line = f"{fields['name']}={fields['value']}"
        line += "".join(f"; {name.title()}={fields[name]}" for name in ("path", "domain") if fields[name])
        yield f"{line}; Secure" if cookie.get("secure", secure) else line


def _text(value: Any) -> str | None:
    """Returns a part of a cookie as text; None if it is missing or has a type that Scrapy does not accept."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, str | bool | int | float) else None
