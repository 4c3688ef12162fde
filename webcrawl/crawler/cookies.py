"""The cookies of a crawl: jars in memory, shared by its workers and kept over restarts in the engine.

A jar is divided by registered domains, because no cookie is valid for two of them. A domain's part of a jar is read
from the engine at the first use in each lease of a host, since another worker may have changed it, and is written
after each response that changed it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from http.cookiejar import Cookie
from typing import Any

import msgpack
from scrapy import Request
from scrapy.http.cookies import CookieJar

from webcrawl.crawler.connection import Connection
from webcrawl.crawler.scheduling.values import pack, unpack
from webcrawl.engine.scripts import Call
from webcrawl.errors import StoreError, Unserializable
from webcrawl.urls.canonical import hostname, is_public_suffix, normalize, registered_domain

logger = logging.getLogger(__name__)

MOST_SITES = 10_000
"""Parts of jars that a worker keeps in memory."""
_MOST_SHARED = 100_000
"""Parts of jars that the engine keeps."""
_MOST_COOKIES = 180
"""Cookies of one jar for one domain, as in browsers."""
_MOST_BYTES = 4096
"""Bytes of one cookie's name and value (RFC 6265, section 6.1)."""


class SiteCookies:
    """The cookies of one jar for one registered domain."""

    def __init__(self, jar: Hashable, site: str) -> None:
        self.site = site
        self.cookies = CookieJar()
        self.changes = 0
        self.lock = asyncio.Lock()
        self.leases: dict[str, int] = {}
        """Host -> the fencing token of the lease in which the cookies were read last."""
        try:
            self.field: bytes | None = pack([jar, site])
        except Unserializable:
            self.field = None  # a request with this key cannot leave the worker either

    def accept(self, cookies: Iterable[Cookie], request: Request) -> None:
        """Adds the cookies that may be set by or for a request; drops those that are too large or too many."""
        name = hostname(normalize(request.url))
        before = self._state()
        for cookie in cookies:
            domain = cookie.domain.removeprefix(".")
            if domain and is_public_suffix(domain):
                # only a host that is itself a public suffix may set a cookie for it
                if domain != name:
                    continue
                cookie.domain = name
            if len(cookie.name) + len(cookie.value or "") <= _MOST_BYTES:
                self.cookies.set_cookie_if_ok(cookie, request)
        for cookie in list(self.cookies)[: max(0, len(self.cookies) - _MOST_COOKIES)]:
            self.cookies.clear(cookie.domain, cookie.path, cookie.name)
        if self._state() != before:
            self.changes += 1

    def dump(self) -> bytes:
        return bytes(msgpack.packb(self._state()))

    def load(self, data: bytes) -> None:
        """Replaces the cookies; raises StoreError if the data is damaged."""
        try:
            kept = [Cookie(**fields) for fields in unpack(data)]
        except TypeError as error:
            raise StoreError(f"the stored cookies of {self.site} cannot be read: {error}") from error
        self.cookies = CookieJar()
        for cookie in kept:
            self.cookies.set_cookie(cookie)

    def _state(self) -> list[dict[str, Any]]:
        return [
            {"rest" if name == "_rest" else name: value for name, value in vars(cookie).items()}
            for cookie in self.cookies
        ]


class Jars:
    """All jars of a worker. The site that was used longest ago is dropped from memory when there are too many."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sites: OrderedDict[tuple[Hashable, str], SiteCookies] = OrderedDict()
        self._is_full = False

    def __len__(self) -> int:
        return len(self._sites)

    def part(self, jar: Hashable, url: str) -> SiteCookies:
        """Returns the cookies of a jar for the site of a URL, as far as this worker knows them."""
        site = site_of(url)
        part = self._sites.get((jar, site))
        if part is None:
            part = self._sites[jar, site] = SiteCookies(jar, site)
            if len(self._sites) > MOST_SITES:
                self._sites.popitem(last=False)
        else:
            self._sites.move_to_end((jar, site))
        return part

    async def read(self, part: SiteCookies, host: str, token: int) -> None:
        """Reads the cookies from the engine, once in each lease of a host; raises EngineUnavailable."""
        if part.leases.get(host) == token or part.field is None:
            return
        connection, field = self._connection, part.field
        key = connection.keys.cookies(part.site)
        async with part.lock:
            before = part.changes
            data = await connection.retry_until_available(lambda: connection.engine.client.hget(key, field))
            if data is not None and part.changes == before:
                try:
                    part.load(data)
                except StoreError as error:
                    logger.warning("%s", error)
            if len(part.leases) > MOST_SITES:
                part.leases.clear()
            part.leases[host] = token

    async def write(self, part: SiteCookies) -> None:
        """Writes the cookies to the engine; raises EngineUnavailable."""
        connection, field = self._connection, part.field
        if field is None:
            return
        most = max(1, _MOST_SHARED // connection.keys.shards)
        key = connection.keys.cookies(part.site)
        async with part.lock:
            call = Call("keep_cookies", [key], (field, part.dump(), most))
            kept = await connection.retry_until_available(lambda: connection.engine.run(call))
        if not kept and not self._is_full:
            self._is_full = True
            logger.warning(
                "The engine has the cookies of %d sites: those of further sites are kept in each worker's memory "
                "only. Set COOKIES_ENABLED to None to keep cookies only for requests that name a cookiejar.",
                _MOST_SHARED,
            )


def site_of(url: str) -> str:
    """Returns the registered domain of a URL, or its host if it has none."""
    return registered_domain(hostname(normalize(url)))
