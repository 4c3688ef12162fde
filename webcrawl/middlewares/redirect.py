"""Sends redirects through the frontier like links, so that the turns, robots.txt and scope apply to the target."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from cachetools import LRUCache
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware as ScrapyRedirectMiddleware
from scrapy.http import Response

from webcrawl.config import read
from webcrawl.crawler.access import host_of, is_robots, tasks_of
from webcrawl.crawler.cookies import CookieRules, returned
from webcrawl.crawler.responses import (
    COOKIES_REFUSED,
    NEW_COOKIES,
    body_of,
    header_values,
    length_of,
)
from webcrawl.crawler.scheduling.requests import OFFSITE, RESOURCE
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.html.links import refresh_address
from webcrawl.documents.html.script_redirects import refreshes, script_cookies
from webcrawl.documents.page import REDIRECTS_TO_ITSELF, WANTS_COOKIES, Page
from webcrawl.errors import EngineUnavailable, InvalidURL
from webcrawl.frontier.figures import REMARK
from webcrawl.urls.canonical import hostname, normalize, resolve, with_slashes, without_fragment

_VARIANT = "redirected_to_variant"
"""The Request.meta key of a request that skips the seen test, because its URL is a variant of the redirected URL."""
_MOST_SKIPS = 5
"""Redirects in a row that skip the seen test: two gates between a page and itself, and one more cookie."""
_MOST_GATES = 10_000
_LARGEST_WALL, _MOST_TEXT_OF_A_WALL = 32_768, 2_000
"""The bytes of a page that may be a wall, and of one with the header Refresh."""
_LEAST_SUCCESS, _LEAST_REDIRECT, _TEMPORARY = 200, 300, 307
_REFUSALS = (401, 403)
_CONDITIONS = ("If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range")
"""Headers whose values the redirected page has sent: another page would compare its own with them."""
_SKIPS = "cookie_skips"
"""Request.meta key: how many redirects in a row have skipped the seen test."""
_KEPT = "cookies_kept"
"""Request.meta key: whether the cookie was kept that a redirect has set on the way here."""


class RedirectMiddleware(SessionComponent):
    """Follows redirects as Scrapy does, stores a page for each hop, and applies URL filters to the target.

    The target of a redirected seed is added to the scope.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._redirects: ScrapyRedirectMiddleware = _Redirects.from_crawler(crawler)
        self._walls = CookieWalls(self._fingerprint, CookieRules(crawler))

    async def process_response(self, request: Request, response: Response) -> Request | Response:
        try:
            gate = self._walls.refreshed(request, response)
            redirect = gate.redirect if gate else _with_slashes(response) or response
            result = self._redirects.process_response(request, redirect)
            if not isinstance(result, Request):
                return response
            self._leave_out_headers(request, result)
            if is_robots(request):
                return result
            target = normalize(result.url)
            if request.method != result.method:
                # the answer to a form, such as the first page after a login, is fetched even if its URL was seen
                result = result.replace(dont_filter=True)
        except ValueError:  # the Location is not a URL: the response is a page like any other
            return response
        try:
            if request.meta.get("depth", 0) == 0 and tasks_of(self._crawler).leased(request):
                await self._session.scope.widen(target)
            await self._session.scope.update_for(target)
        except EngineUnavailable:
            # an exception raised here would drop the page
            tasks_of(self._crawler).postpone(request)
            return request
        scope = self._session.scope
        current = scope.current
        offsite = request.meta.get("allow_offsite") and current is not None and not current.allows(target)
        if current is not None and not offsite:
            allowed = self._allowed(request, target, result)
            if allowed is None:
                return response
            # otherwise a site that requires its session ID would never send the page
            if allowed not in (target, normalize(request.url)):
                result, target = result.replace(url=allowed), allowed
        after_cookies = self._walls.follow(request, response, result, gate.cookies if gate else [])
        if after_cookies is None:
            if not hasattr(self._crawler.spider, "page"):  # else the row of the page is counted
                tasks_of(self._crawler).count(f"{REMARK}{WANTS_COOKIES}")
            return response
        result = self._pass_seen_test(request, after_cookies)
        if target == normalize(request.url) and not result.dont_filter:
            response.flags.append(REDIRECTS_TO_ITSELF)
        result.meta["referrer"] = without_fragment(request.url)
        if not await self._is_error(request, response, target):
            self._link(request, target)
        return result

    def _leave_out_headers(self, request: Request, result: Request) -> None:
        """Removes the headers that were made for the redirected page or its host (RFC 9110, section 15.4)."""
        for name in _CONDITIONS:
            result.headers.pop(name, None)
        rules = self._session.turns.rules
        if rules is not None and (agent := request.headers.get("User-Agent")) is not None:
            usual = getattr(self._crawler.spider, "user_agent", read(self._crawler.settings, "USER_AGENT"))
            # the target gets its own: robots.txt is read by the user agent of its host
            if agent.decode("latin-1") in (rules.of(hostname(host_of(request))).user_agent, usual):
                del result.headers["User-Agent"]

    def _allowed(self, request: Request, target: str, result: Request) -> str | None:
        """Returns the URL to crawl for the target of a redirect, or None; marks a target outside the scope."""
        scope = self._session.scope
        if RESOURCE in request.meta:
            return scope.resource_filters.apply(target)
        allowed, hops = scope.filters.apply(target), request.meta.get(OFFSITE, 0) or 1
        result.meta.pop(OFFSITE, None)
        if allowed is None and (allowed := scope.offsite(target, hops)) is not None:
            result.meta[OFFSITE] = hops
        return allowed

    def _link(self, request: Request, target: str) -> None:
        """Passes the credit of the redirected URL to the target."""
        tasks = tasks_of(self._crawler)
        if (credit := tasks.worker.intake.credit) and (url := tasks.leased(request)):
            credit.link(url.url, [target], url.depth)

    def _pass_seen_test(self, request: Request, result: Request) -> Request:
        """Skips the seen test for a target whose canonical form is that of the redirected URL.

        The fingerprint of such a target counts as seen: for example, if `/page` redirects to `/page;jsessionid=1`. The
        next hop is tested again.
        """
        is_variant = normalize(result.url) != normalize(request.url) and self._fingerprint(
            result
        ) == self._fingerprint(request)
        if is_variant and not request.dont_filter:
            return result.replace(dont_filter=True, meta={**result.meta, _VARIANT: True})
        if request.meta.get(_VARIANT) and not is_variant:
            meta = {name: value for name, value in result.meta.items() if name != _VARIANT}
            return result.replace(dont_filter=False, meta=meta)
        return result

    def _fingerprint(self, request: Request) -> int:
        url = normalize(request.url)
        return self._session.canonicalizer.request_fingerprint(request.method, url, request.body)

    async def _is_error(self, request: Request, response: Response, target: str) -> bool:
        """Sends the hop through the pipelines if the spider stores pages; returns whether the hop is an error page."""
        make_page = getattr(self._crawler.spider, "page", None)
        if make_page is None:
            return False
        response.request = request
        page: Page = make_page(response)
        page.final_url = target
        await self._crawler.engine.scraper.start_itemproc_async(page, response=response)
        return page.soft_404


class _Redirects(ScrapyRedirectMiddleware):
    def handle_referer(self, request: Request, response: Response) -> None:
        """Sends the Referer of Scrapy, but none after a request without one of a spider whose links have none."""
        if "Referer" in request.headers or not hasattr(self.crawler.spider, "page"):
            super().handle_referer(request, response)


class CookieGate(NamedTuple):
    """A page that is a redirect in all but its status."""

    redirect: Response
    cookies: list[dict[str, str | bool]]
    """The cookies that its scripts set for the target, in the form of Request.cookies."""


class CookieWalls:
    """Decides what becomes of redirects that set cookies, and of pages that amount to such redirects.

    A gate is a URL that leads back to the page that redirected to it. `fingerprint` is that of the seen test.
    """

    def __init__(self, fingerprint: Callable[[Request], int], rules: CookieRules) -> None:
        self._fingerprint, self._rules = fingerprint, rules
        self._gates: LRUCache[str, bool] = LRUCache(_MOST_GATES)
        """The known gates, without query."""

    def follow(
        self, request: Request, response: Response, target: Request, cookies: list[dict[str, str | bool]]
    ) -> Request | None:
        """Returns the request for the target of a redirect, or None if the page wants cookies and gets none.

        If cookies are kept, a page that comes back and a known gate are fetched although their URLs were seen, and
        so is what follows a new cookie. Otherwise the response of the page, or of its last gate, is flagged. `cookies`
        are those of the gate's scripts.
        """
        sets = bool(cookies) or bool(header_values(response.headers, b"Set-Cookie"))
        if not sets and _KEPT not in request.meta:
            return target
        kept: bool = self._rules.applies(request) if sets else request.meta[_KEPT]
        skips: int = request.meta.get(_SKIPS, 0)
        way_back = self._way_back(request, target)
        self._gates.update(dict.fromkeys(way_back or (), True))
        meets_wall = way_back is not None or (sets and _without_query(target.url) in self._gates)
        meta = {**target.meta, _KEPT: kept}
        if kept:
            if cookies:
                target = target.replace(cookies=cookies)
            if request.dont_filter and not skips:  # the spider wants each target
                return target.replace(meta=meta)
            if skips or meets_wall or NEW_COOKIES in response.flags:
                # the request skipped the seen test for the last cookie, not for its own sake
                return target.replace(dont_filter=skips < _MOST_SKIPS, meta={**meta, _SKIPS: skips + 1})
            return target.replace(meta=meta)
        if meets_wall or sets:
            response.flags.append(WANTS_COOKIES if meets_wall else COOKIES_REFUSED)
        return None if meets_wall else target.replace(meta=meta)

    def refreshed(self, request: Request, response: Response) -> CookieGate | None:
        """Returns the gate that a page amounts to, or None if it is a page like any other.

        Such a page sets a cookie by header or script, has nothing to read, and leads back by the header Refresh,
        `<meta>` or script.
        """
        if not _may_be_a_wall(response) or is_robots(request):
            return None
        sets = bool(header_values(response.headers, b"Set-Cookie"))
        is_new = sets and (NEW_COOKIES in response.flags or not self._rules.applies(request))
        body = body_of(response).start(_LARGEST_WALL)
        if not is_new and b"cookie" not in body:
            return None
        markup = body.decode("latin-1")
        lines = script_cookies(markup)
        if not is_new and not lines:
            return None
        addresses = [
            refresh_address(value.decode("latin-1"))
            for value in header_values(response.headers, b"Refresh")[:1]
        ]
        if addresses and len(markup) > _MOST_TEXT_OF_A_WALL:
            return None
        for address in addresses or refreshes(markup):
            with suppress(InvalidURL):
                target = resolve(address, response.url) if address.strip() else response.url
                there = request.replace(url=target or response.url)
                if target and self._way_back(request, there) is not None:
                    cookies = returned(lines, request, there)
                    if is_new or cookies:
                        redirect = Response(response.url, status=_TEMPORARY, headers={"Location": target})
                        return CookieGate(redirect, cookies)
        return None

    def _way_back(self, request: Request, target: Request) -> list[str] | None:
        """The gates between a page and itself, none if it redirects to itself; None if the target is another page."""
        urls = [*request.meta.get("redirect_urls", ()), request.url]
        wanted = self._fingerprint(target)
        for number, url in enumerate(urls, 1):
            if self._fingerprint(request.replace(url=url)) == wanted:
                return [_without_query(gate) for gate in urls[number:]]
        return None


def _with_slashes(response: Response) -> Response | None:
    """Returns the redirect of a response with backslashes in its Location; None for other responses."""
    location = response.headers.get("Location")
    if location is None or (slashed := with_slashes(location)) == location:
        return None
    return Response(response.url, status=response.status, headers={"Location": slashed})


def _may_be_a_wall(response: Response) -> bool:
    is_page = _LEAST_SUCCESS <= response.status < _LEAST_REDIRECT or response.status in _REFUSALS
    return is_page and 0 < length_of(response) <= _LARGEST_WALL


def _without_query(url: str) -> str:
    return normalize(url).partition("?")[0]
