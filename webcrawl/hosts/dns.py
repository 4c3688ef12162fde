"""Resolves host names with c-ares, behind a bounded cache that honors the time to live."""

from __future__ import annotations

import asyncio
import math
import random
import re
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from ipaddress import ip_address

import aiodns
import pycares
from cachetools import FIFOCache, LRUCache

from webcrawl.errors import ConfigurationError, NameNotResolved
from webcrawl.hosts.costs import Costs
from webcrawl.hosts.questions import Questions, SilentDomains
from webcrawl.urls.canonical import registered_domain

MOST_ADDRESSES = 32
"""The most addresses of either family kept for a name. A name may have thousands, and each request checks them all."""
MOST_TRIED = 4
"""The most addresses that are tried for one connection."""
FAILURE_TTL = 5.0
"""Seconds for which a temporary failure is cached, which spares the servers repeated queries but loses no host."""

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.ASCII)
_BRACKETED = re.compile(r"\[(?P<ip>[^\]]+)\](?::(?P<port>\d+))?")
# Host names in URLs are absolute: the search list of this machine's network must not complete them.
_FLAGS = pycares.ARES_FLAG_NOSEARCH | pycares.ARES_FLAG_NOALIASES | pycares.ARES_FLAG_EDNS
# ARES_AI_NOSORT of ares.h, which pycares does not export: sorting would open a socket for every address.
_NO_SORT = 1 << 7
# Errors about the name itself, not about reaching a server.
_NO_SUCH_NAME = frozenset(
    {aiodns.error.ARES_ENOTFOUND, aiodns.error.ARES_ENODATA, aiodns.error.ARES_EBADNAME}
)
# c-ares has a cache that cannot be turned off: it is unbounded and keeps an answer without TTL (empty, without SOA) for
# an hour. Reloading the configuration, which c-ares does in a thread, empties it.
_FLUSH_EVERY = 60.0
_SHORTEST_TRY = 0.25


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """The addresses of a name, IPv4 first, and when they expire by the resolver's clock."""

    addresses: tuple[str, ...]
    expires: float


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    permanent: bool
    expires: float


class Resolver:
    """Resolves names for one event loop, with one query at a time for each name.

    `servers`: "ip", "ip:port" or "[ipv6]:port"; without any, this machine's configuration. /etc/hosts is used first in
    either case. An answer is cached for the smallest TTL of its chain of aliases, between `min_ttl` and `max_ttl`; with
    TTL 0 it is used only by callers already waiting. `timeout` applies to a query that was sent; at most
    `max_questions` are in flight, others wait (see Questions). A name that does not exist is remembered for
    `negative_ttl` (RFC 2308). Questions and waits are added to `costs`. Durations are in seconds.
    """

    def __init__(
        self,
        servers: Sequence[str] = (),
        timeout: float = 5.0,
        min_ttl: float = 0.0,
        max_ttl: float = 86400.0,
        negative_ttl: float = 60.0,
        max_names: int = 20_000,
        max_questions: int = 100,
        clock: Callable[[], float] = time.monotonic,
        costs: Costs | None = None,
    ) -> None:
        self._servers = [_server(text) for text in servers]
        self._timeout = timeout
        self._min_ttl = min_ttl
        self._max_ttl = max_ttl
        self._negative_ttl = negative_ttl
        self._clock = clock
        # two caches, so that names without an answer never evict names with an answer
        self._answers: LRUCache[str, ResolvedName] = LRUCache(max_names)
        self._failures: FIFOCache[str, _Failure] = FIFOCache(max_names)
        self._silent = SilentDomains(clock)
        self._asking: dict[str, asyncio.Task[ResolvedName | _Failure]] = {}
        self._channel: _Channel | None = None
        self._flush_at = 0.0
        self._questions = Questions(max_questions, costs or Costs())
        self._closed = False

    async def resolve(
        self,
        hostname: str,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        *,
        host: str | None = None,
    ) -> ResolvedName:
        """Returns the addresses of a host name (as in a normalized URL) or of an IP address.

        `waiting` makes a context for the time of a query; a cached name needs none. The query is charged to `host`
        ("https://example.org"), by default to the registered domain.
        Raises NameNotResolved: permanent if the name has no address, temporary if no server answered.
        """
        if literal := _literal(hostname):
            return ResolvedName((literal,), math.inf)
        name = hostname.removesuffix(".").lower()
        outcome = self._cached(name)
        if outcome is None:
            # shielded, so that a cancelled caller does not cancel the query for others
            with waiting():
                outcome = await asyncio.shield(self._question(name, host))
        if isinstance(outcome, _Failure):
            raise NameNotResolved(hostname, outcome.reason, permanent=outcome.permanent)
        return outcome

    async def close(self) -> None:
        """Stops all queries; callers that wait or call later get NameNotResolved."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close()
        if self._asking:
            await asyncio.wait(self._asking.values())

    def _cached(self, name: str) -> ResolvedName | _Failure | None:
        now = self._clock()
        answer = self._answers.get(name)
        if answer is not None and now < answer.expires:
            return answer
        failure = self._failures.get(name)
        return failure if failure is not None and now < failure.expires else None

    def _question(self, name: str, host: str | None) -> asyncio.Task[ResolvedName | _Failure]:
        """Returns the query in flight for a name, or a new query."""
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.ensure_future(self._ask(name, host))
            task.add_done_callback(lambda _: self._asking.pop(name, None))
        return task

    async def _ask(self, name: str, host: str | None) -> ResolvedName | _Failure:
        """Queries the servers and caches the outcome. Never raises, because all callers may have been cancelled."""
        if not _NAME.fullmatch(name):
            return self._failure("not a valid DNS name", True)
        domain, known = registered_domain(name), name in self._answers
        async with self._questions.turn(domain, known=known):
            if self._closed:
                return self._failure("the resolver is closed", False)
            if not known and (until := self._silent.until(domain)):
                return _Failure(f"the nameservers of {domain} do not answer", False, until)
            self._questions.costs.of(host or domain).questions += 1
            outcome = await self._look_up(name)
        self._silent.note(domain, answered=isinstance(outcome, ResolvedName) or outcome.permanent)
        self._remember(name, outcome)
        return outcome

    async def _look_up(self, name: str) -> ResolvedName | _Failure:
        if self._channel is None:
            # created at first use, because it belongs to the running loop
            self._channel = _Channel(
                self._servers, timeout=self._timeout / 4, tries=_tries(self._timeout), flags=_FLAGS
            )
            self._flush_at = self._clock() + _FLUSH_EVERY
        elif self._clock() >= self._flush_at:
            self._channel.flush()
            self._flush_at = self._clock() + _FLUSH_EVERY
        try:
            async with asyncio.timeout(self._timeout):
                info = await self._channel.getaddrinfo(name, type=socket.SOCK_STREAM, flags=_NO_SORT)
        except aiodns.error.DNSError as error:
            code, reason = error.args
            return self._failure(str(reason), code in _NO_SUCH_NAME)
        except TimeoutError:
            return self._failure("no answer in time", False)
        return self._answer(info)

    def _answer(self, info: pycares.AddrInfoResult) -> ResolvedName | _Failure:
        families: tuple[dict[str, None], ...] = {}, {}
        for node in info.nodes:
            families[node.family != socket.AF_INET][node.addr[0].decode()] = None
        addresses = [address for family in families for address in _kept(family)]
        if not addresses:
            return self._failure("no address", True)
        ttl = float(min([node.ttl for node in info.nodes] + [alias.ttl for alias in info.cnames]))
        if ttl > 0:
            ttl = max(min(ttl, self._max_ttl), self._min_ttl)
        return ResolvedName(tuple(addresses), self._clock() + ttl)

    def _failure(self, reason: str, permanent: bool) -> _Failure:
        ttl = self._negative_ttl if permanent else min(FAILURE_TTL, self._negative_ttl)
        return _Failure(reason, permanent, self._clock() + ttl)

    def _remember(self, name: str, outcome: ResolvedName | _Failure) -> None:
        if self._closed:
            return
        if isinstance(outcome, ResolvedName):
            # an expired address stays too: it shows that its name had an answer
            self._failures.pop(name, None)
            self._answers[name] = outcome
        elif outcome.expires > self._clock():
            self._failures[name] = outcome


def to_try(addresses: Sequence[str]) -> list[str]:
    """Returns the addresses for one connection, IPv4 first: at most MOST_TRIED, chosen at random.

    Another attempt then tries other addresses. Both families are chosen, because a machine may lack IPv4 or IPv6.
    """
    if len(addresses) <= MOST_TRIED:
        return list(addresses)
    old = [address for address in addresses if ":" not in address]
    new = [address for address in addresses if ":" in address]
    most = min(len(old), max(MOST_TRIED - len(new), MOST_TRIED // 2))
    return random.sample(old, most) + random.sample(new, min(len(new), MOST_TRIED - most))


def _kept(addresses: Collection[str]) -> Collection[str]:
    """Returns at most MOST_ADDRESSES addresses, always the same, because the addresses of a seed are remembered."""
    return addresses if len(addresses) <= MOST_ADDRESSES else sorted(addresses)[:MOST_ADDRESSES]


class _Channel(aiodns.DNSResolver):
    """The c-ares channel, with access to its cache."""

    def flush(self) -> None:
        self._channel.reinit()


def _tries(timeout: float) -> int:
    """Returns how many tries c-ares needs to use up `timeout`; each waits twice as long as the try before.

    The first try waits a quarter of `timeout`. Once c-ares knows the server, the first try waits five times the usual
    latency, at least _SHORTEST_TRY; two or three tries would then give up too early on names with slow servers.
    """
    return max(2, math.ceil(math.log2(timeout / _SHORTEST_TRY + 1)))


def _literal(hostname: str) -> str | None:
    """Returns the address of a host that is written as an address: "192.0.2.1", "[2001:db8::1]"."""
    try:
        return str(ip_address(hostname.removeprefix("[").removesuffix("]")))
    except ValueError:
        return None


def _server(text: str) -> str:
    """Returns a DNS server in the form of c-ares; raises ConfigurationError unless it is ip[:port]."""
    stripped = text.strip()
    if match := _BRACKETED.fullmatch(stripped):
        address, port = match["ip"], match["port"] or "53"
    elif stripped.count(":") == 1:
        address, _, port = stripped.partition(":")
    else:
        address, port = stripped, "53"
    try:
        ip = ip_address(address)
        if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{port!r} is not a port")
    except ValueError as error:
        raise ConfigurationError(f"DNS_SERVERS: {text!r} is not a server (ip[:port]): {error}") from error
    return f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"
