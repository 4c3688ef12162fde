"""Cookie walls: pages that redirect back to themselves, directly or over other pages, until they get a cookie back."""

from __future__ import annotations

from collections.abc import Callable

from cachetools import LRUCache
from scrapy import Request
from scrapy.http import Response

from webcrawl.crawler.responses import (
    COOKIES_KEPT,
    COOKIES_REFUSED,
    NEW_COOKIES,
    header_values,
)
from webcrawl.documents.page import WANTS_COOKIES
from webcrawl.urls.canonical import normalize

_MOST_SKIPS = 5
"""Redirects in a row that skip the seen test: two gates between a page and itself, and one more cookie."""
_MOST_GATES = 10_000

_SKIPS = "cookie_skips"
"""Request.meta key: how many redirects in a row have skipped the seen test."""
_KEPT = "cookies_kept"
"""Request.meta key: whether the cookie was kept that a redirect has set on the way here."""


class CookieWalls:
    """Decides what becomes of redirects that set cookies.

    A gate is a URL that leads back to the page that redirected to it. `fingerprint` is that of the seen test.
    """

    def __init__(self, fingerprint: Callable[[Request], int]) -> None:
        self._fingerprint = fingerprint
        self._gates: LRUCache[str, bool] = LRUCache(_MOST_GATES)
        """The known gates, without query."""

    def follow(self, request: Request, response: Response, target: Request) -> Request | None:
        """Returns the request for the target of a redirect, or None if the page wants cookies and gets none.

        If cookies are kept, a page that comes back and a known gate are fetched although their URLs were seen, and
        so is what follows a new cookie. Otherwise the response of the page, or of its last gate, is flagged.
        """
        sets = bool(header_values(response.headers, b"Set-Cookie"))
        if not sets and _KEPT not in request.meta:
            return target
        kept: bool = COOKIES_KEPT in response.flags if sets else request.meta[_KEPT]
        skips: int = request.meta.get(_SKIPS, 0)
        way_back = self._way_back(request, target)
        self._gates.update(dict.fromkeys(way_back or (), True))
        meets_wall = way_back is not None or (sets and _without_query(target.url) in self._gates)
        meta = {**target.meta, _KEPT: kept}
        if kept:
            if request.dont_filter and not skips:  # the spider wants each target
                return target.replace(meta=meta)
            if skips or meets_wall or NEW_COOKIES in response.flags:
                # the request skipped the seen test for the last cookie, not for its own sake
                return target.replace(dont_filter=skips < _MOST_SKIPS, meta={**meta, _SKIPS: skips + 1})
            return target.replace(meta=meta)
        if meets_wall or sets:
            response.flags.append(WANTS_COOKIES if meets_wall else COOKIES_REFUSED)
        return None if meets_wall else target.replace(meta=meta)

    def _way_back(self, request: Request, target: Request) -> list[str] | None:
        """The gates between a page and itself, none if it redirects to itself; None if the target is another page."""
        urls = [*request.meta.get("redirect_urls", ()), request.url]
        wanted = self._fingerprint(target)
        for number, url in enumerate(urls, 1):
            if self._fingerprint(request.replace(url=url)) == wanted:
                return [_without_query(gate) for gate in urls[number:]]
        return None


def _without_query(url: str) -> str:
    return normalize(url).partition("?")[0]
