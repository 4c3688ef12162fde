"""The pool of proxies: chooses the proxy of a request, and leaves out failing proxies for a while."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from xxhash import xxh3_64_intdigest

from webcrawl.config.records import setting_entries
from webcrawl.errors import ConfigurationError
from webcrawl.http.requests import PROXY_PORTS

logger = logging.getLogger(__name__)

Rotation = Literal["host", "request"]

_FIRST_PAUSE = 10.0
_LONGEST_PAUSE = 600.0
_MOST_DOUBTS = 5
"""Failed requests in a row, to any hosts, after which a proxy counts as failing."""


@dataclass(eq=False, slots=True)
class Proxy:
    """A proxy. `url` may contain credentials, so only `name` is shown."""

    url: str = field(repr=False)
    name: str
    failures: int = 0
    """How often in a row the proxy was left out."""
    doubts: int = 0
    """Failed requests in a row."""
    until: float = -math.inf
    """Time before which the proxy is not used."""


class ProxyPool:
    """The proxies of PROXIES. Times are seconds of one monotonic clock.

    With the rotation "host", a host and session keeps its proxy while it works: the proxies are ranked by a hash of
    both (rendezvous hashing, Thaler and Ravishankar 1998). So all workers choose the same proxy, and a failing proxy
    moves only its own hosts. With "request", each request takes the next proxy.
    """

    def __init__(self, proxies: Sequence[Proxy], rotation: Rotation = "host") -> None:
        self._proxies = proxies
        self._rotation = rotation
        self._numbers = itertools.count()

    def choose(self, session: str, attempt: int, now: float) -> Proxy | None:
        """Returns the proxy for a request; None while all are left out.

        `session` names the host and cookie jar that keep a proxy. Each `attempt` to fetch a URL takes another proxy.
        """
        usable = [proxy for proxy in self._proxies if proxy.until <= now]
        if not usable:
            return None
        if self._rotation == "request":
            return usable[next(self._numbers) % len(usable)]
        if not attempt % len(usable):
            return max(usable, key=lambda proxy: _rank(session, proxy))
        usable.sort(key=lambda proxy: _rank(session, proxy), reverse=True)
        return usable[attempt % len(usable)]

    @property
    def free_at(self) -> float:
        """The time from which a proxy may be used."""
        return min(proxy.until for proxy in self._proxies)

    def succeed(self, proxy: Proxy) -> None:
        """Records a response that came through a proxy."""
        proxy.failures = proxy.doubts = 0

    def doubt(self, proxy: Proxy, reason: str, now: float) -> None:
        """Records a failed request that may be the fault of its host or of the proxy."""
        proxy.doubts += 1
        if proxy.doubts >= _MOST_DOUBTS:
            self.fail(proxy, f"{proxy.doubts} requests in a row failed, the last one with: {reason}", now)

    def fail(self, proxy: Proxy, reason: str, now: float) -> None:
        """Leaves a proxy out, each time for twice as long."""
        if proxy.until > now:
            return  # requests that fail at the same time count as one failure
        pause = min(_FIRST_PAUSE * 2.0**proxy.failures, _LONGEST_PAUSE)
        proxy.failures, proxy.doubts, proxy.until = proxy.failures + 1, 0, now + pause
        level = logging.INFO if proxy.failures > 1 else logging.WARNING
        logger.log(
            level, "The proxy %s fails and is left out for %d seconds: %s", proxy.name, round(pause), reason
        )


def read_proxies(words: Sequence[str]) -> list[Proxy]:
    """Returns the proxies of PROXIES: URLs, or `@file` with a URL on each line.

    Raises ConfigurationError, without the URL, which may contain a password.
    """
    proxies: dict[str, Proxy] = {}
    for where, text in setting_entries("PROXIES", words, comment=" #"):
        proxy = _proxy(text if "://" in text else f"http://{text}", where)
        proxies.setdefault(proxy.url, proxy)
    if words and not proxies:
        raise ConfigurationError(f"PROXIES {','.join(words)}: the file names no proxy")
    return list(proxies.values())


def _proxy(url: str, where: str) -> Proxy:
    try:
        parts = urlsplit(url)
        name, number = parts.hostname, parts.port
    except ValueError:
        name, number = None, None
    if not name or parts.path not in ("", "/") or parts.query or parts.fragment or " " in url:
        raise ConfigurationError(
            f"PROXIES, {where}: not the URL of a proxy, such as http://user:password@proxy.example:3128"
        )
    if parts.scheme not in PROXY_PORTS:
        known = ", ".join(PROXY_PORTS)
        raise ConfigurationError(f"PROXIES, {where}: {parts.scheme}:// is not supported, only {known}")
    shown = f"[{name}]" if ":" in name else name
    return Proxy(url.rstrip("/"), f"{parts.scheme}://{shown}" + (f":{number}" if number else ""))


def _rank(session: str, proxy: Proxy) -> int:
    return xxh3_64_intdigest(f"{session}\n{proxy.url}".encode())
