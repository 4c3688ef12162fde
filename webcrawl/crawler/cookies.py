"""The cookies of a crawl: jars in memory, shared by its workers and kept over restarts in the engine.

A jar is divided by registered domains, because no cookie is valid for two of them. A domain's part of a jar is read
from the engine at the first use in each lease of a host, since another worker may have changed it, and is written
after each response that changed it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Sequence
from http.cookiejar import Cookie

import msgpack
from cachetools import LRUCache
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.http.cookies import CookieJar

from webcrawl.config import read
from webcrawl.crawler.access import is_robots
from webcrawl.crawler.scheduling.values import pack, unpack
from webcrawl.engine.scripts import script_call
from webcrawl.errors import StoreError, Unserializable
from webcrawl.opened import Connection
from webcrawl.urls.canonical import hostname, is_public_suffix, normalize, registered_domain

logger = logging.getLogger(__name__)

MOST_SITES = 10_000
"""The most parts of jars that a worker keeps in memory."""
_MOST_MEMORY = 64 * 1024 * 1024
"""The most bytes of these parts, about."""
_MOST_SHARED = 100_000
"""The most parts of jars that the engine keeps."""
_MOST_SHARED_BYTES = 256 * 1024 * 1024
MOST_COOKIES = 180
"""The most cookies of one jar for one domain, as in browsers."""
MOST_RECEIVED = 50
"""The most cookies of a response that are read, as many as user agents should keep per domain (RFC 6265, 6.1)."""
_MOST_BYTES = 4096
"""The most bytes of one cookie's name and value (RFC 6265, 6.1)."""
_LONGEST_LINE = _MOST_BYTES + 1024
"""The most bytes of a header Set-Cookie with its attributes."""
_MOST_SITE_BYTES = 64 * 1024
"""The most bytes of one jar's cookies for one domain: more than servers accept in a header Cookie."""
_COOKIE_MEMORY = 1024
"""The bytes of memory that a Cookie takes besides its text."""


class CookieRules:
    """Decides which requests use a jar.

    If COOKIES_ENABLED is None and the spider has `keeps_cookies = False`, only requests that have cookies or name a jar
    do.
    """

    def __init__(self, crawler: Crawler) -> None:
        enabled = read(crawler.settings, "COOKIES_ENABLED")
        self.off = enabled is False
        self._keeps_all = enabled or (enabled is None and getattr(crawler.spidercls, "keeps_cookies", True))

    def wants(self, request: Request) -> bool:
        """Returns whether a request would use a jar if cookies were not off."""
        return self._keeps_all or bool(request.cookies) or "cookiejar" in request.meta

    def applies(self, request: Request) -> bool:
        """Returns whether a request uses a jar."""
        return (
            self.wants(request)
            and not self.off
            and not (request.meta.get("dont_merge_cookies") or is_robots(request))
        )


class SiteCookies:
    """The cookies of one jar for one registered domain."""

    def __init__(self, jar: Hashable, site: str) -> None:
        self.jar, self.site = jar, site
        self.cookies = CookieJar()
        self.changes = 0
        self.memory = 0
        """The bytes of memory that the cookies take, about."""
        self.lock = asyncio.Lock()
        self.leases: dict[str, int] = {}
        """Host -> the fencing token of the lease in which the cookies were read last."""
        try:
            self.field: bytes | None = pack([jar, site])
        except Unserializable:
            self.field = None  # a request with this jar cannot leave the worker either

    def accept(self, response: Response, request: Request, most: int = MOST_COOKIES) -> None:
        """Adds the last `most` cookies that a response may set; drops the oldest cookies if there are too many.

        Lines that are too long, and lines before the last `most`, are not even parsed.
        """
        lines = [line for line in response.headers.getlist("Set-Cookie") if len(line) <= _LONGEST_LINE]
        # a bounded copy, because a jar also parses Set-Cookie2, in quadratic time
        bounded = Response(response.url, headers={"Set-Cookie": lines[-most:]})
        before = list(self.cookies)
        owners: dict[str, str | None] = {}
        for cookie in self.cookies.make_cookies(bounded, request):
            if cookie.domain not in owners:
                owners[cookie.domain] = _owner(cookie.domain, request)
            domain = owners[cookie.domain]
            if domain is not None and len(cookie.name) + len(cookie.value or "") <= _MOST_BYTES:
                cookie.domain = domain
                self.cookies.set_cookie_if_ok(cookie, request)
        after = list(self.cookies)
        if not _are_same(before, after):
            self._trim(after)
            self.changes += 1

    def names(self) -> set[tuple[str, str, str]]:
        """Domain, path and name of each cookie."""
        return {(cookie.domain, cookie.path, cookie.name) for cookie in self.cookies}

    def dump(self) -> bytes:
        fields = [
            {"rest" if name == "_rest" else name: value for name, value in vars(cookie).items()}
            for cookie in self.cookies
        ]
        return bytes(msgpack.packb(fields))

    def load(self, data: bytes) -> None:
        """Replaces the cookies; raises StoreError if the data is damaged."""
        try:
            kept = [Cookie(**fields) for fields in unpack(data)]
        except TypeError as error:
            raise StoreError(f"the stored cookies of {self.site} cannot be read: {error}") from error
        self.cookies = CookieJar()
        for cookie in kept:
            self.cookies.set_cookie(cookie)
        self._trim(kept)

    def _trim(self, cookies: Sequence[Cookie]) -> None:
        """Drops the first cookies until the rest is within the limits; notes the memory of the rest."""
        kept = size = 0
        for cookie in reversed(cookies):
            more = _text_bytes(cookie)
            if kept == MOST_COOKIES or size + more > _MOST_SITE_BYTES:
                break
            kept, size = kept + 1, size + more
        for cookie in cookies[: len(cookies) - kept]:
            self.cookies.clear(cookie.domain, cookie.path, cookie.name)
        self.memory = kept * _COOKIE_MEMORY + size


def _owner(domain: str, request: Request) -> str | None:
    """Returns the domain for which a cookie of a request's host is kept; None if others may have hosts under it."""
    bare = domain.removeprefix(".")
    if not bare or not is_public_suffix(bare):
        return domain
    # only a host that is itself a public suffix may set a cookie for it
    name = hostname(normalize(request.url))
    return name if bare == name else None


def _are_same(before: Sequence[Cookie], after: Sequence[Cookie]) -> bool:
    return len(before) == len(after) and all(
        old is new or vars(old) == vars(new) for old, new in zip(before, after, strict=True)
    )


def _text_bytes(cookie: Cookie) -> int:
    """Returns the number of characters of a cookie's text, with its attributes."""
    attributes: dict[str, str | None] = vars(cookie)["_rest"]
    own = sum(len(value) for value in vars(cookie).values() if isinstance(value, str))
    return own + sum(len(name) + len(value or "") for name, value in attributes.items())


def returned(lines: Sequence[str], request: Request, target: Request) -> list[dict[str, str | bool]]:
    """Returns the cookies that an answer sets by these values of Set-Cookie, and that go to the target of its redirect.

    The cookies have the form of Request.cookies. Those that the request has sent already are left out.
    """
    part, probe = SiteCookies(None, site_of(request.url)), Request(target.url)
    for line in lines:  # in their order: a cookie may be removed after it was set
        part.accept(Response(request.url, headers={"Set-Cookie": line}), Request(request.url))
    part.cookies.add_cookie_header(probe)
    sent = _pairs(probe) - _pairs(request)
    return [_given(cookie) for cookie in part.cookies if f"{cookie.name}={cookie.value}" in sent]


def _given(cookie: Cookie) -> dict[str, str | bool]:
    """Returns a cookie in the form of Request.cookies."""
    fields: dict[str, str | bool] = {"name": cookie.name, "value": cookie.value or "", "path": cookie.path}
    fields["secure"] = cookie.secure
    if cookie.domain_specified:
        fields["domain"] = cookie.domain
    return fields


def _pairs(request: Request) -> set[str]:
    """Returns name and value of each cookie in the header of a request."""
    header = request.headers.get("Cookie") or b""
    return {pair.strip() for pair in header.decode("latin-1").split(";")} - {""}


class Jars:
    """All jars of a worker. If they take too much memory, the sites that were used longest ago are dropped."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sites: LRUCache[tuple[Hashable, str], SiteCookies]
        self._sites = LRUCache(_MOST_MEMORY, getsizeof=lambda part: min(part.memory, _MOST_MEMORY))
        self._is_full = False

    def __len__(self) -> int:
        return len(self._sites)

    def part(self, jar: Hashable, url: str) -> SiteCookies:
        """Returns the cookies of a jar for the site of a URL, as far as this worker knows them."""
        key = jar, site_of(url)
        part = self._sites.get(key)
        if part is None:
            part = self._sites[key] = SiteCookies(*key)
            if len(self._sites) > MOST_SITES:
                self._sites.popitem()
        return part

    def _count(self, part: SiteCookies) -> None:
        """Counts the memory of a part that has changed, unless it was dropped meanwhile."""
        key = part.jar, part.site
        if self._sites.get(key) is part:
            self._sites[key] = part

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
                self._count(part)
            if len(part.leases) > MOST_SITES:
                part.leases.clear()
            part.leases[host] = token

    async def write(self, part: SiteCookies) -> None:
        """Writes cookies that have changed to the engine; raises EngineUnavailable."""
        self._count(part)
        connection, field = self._connection, part.field
        if field is None:
            return
        shards, key = connection.keys.shards, connection.keys.cookies(part.site)
        async with part.lock:
            call = script_call(
                "keep_cookies",
                [key],
                field=field,
                cookies=part.dump(),
                most_jars=max(1, _MOST_SHARED // shards),
                most_bytes=max(1, _MOST_SHARED_BYTES // shards),
            )
            kept = await connection.retry_until_available(lambda: connection.engine.run(call))
        if not kept and not self._is_full:
            self._is_full = True
            logger.warning(
                "The engine has the cookies of %d sites, or %d MiB: those of further sites are kept in each worker's "
                "memory only. Set COOKIES_ENABLED to None to keep cookies only for requests that name a cookiejar.",
                _MOST_SHARED,
                _MOST_SHARED_BYTES >> 20,
            )


def site_of(url: str) -> str:
    """Returns the registered domain of a URL, or its host without such a domain."""
    return registered_domain(hostname(normalize(url)))
