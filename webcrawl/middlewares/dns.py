"""Resolves host names and checks addresses before a request waits for its host's turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError

from webcrawl.config import read
from webcrawl.crawler.access import host_of, tasks_of
from webcrawl.crawler.download.proxies import is_proxied
from webcrawl.crawler.errors import RequestRefused
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.errors import AddressRefused, NameNotResolved
from webcrawl.hosts.dns import ResolvedName
from webcrawl.urls.canonical import hostname, is_address, normalize, port

_PROXY_HINT = (
    ", and PROXY_GUARDS_ADDRESSES is off: turn it on if the proxy knows the name and refuses inner addresses"
)


class DnsMiddleware(SessionComponent):
    """Uses the session's resolver cache and address guard. The guard checks the address again on connection.

    A proxy resolves names itself, so a name is checked before the request is passed to the proxy, unless
    PROXY_GUARDS_ADDRESSES states that the proxy refuses inner addresses.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._resolver = session.resolver
        self._turns = session.turns
        self._observed = session.observed
        self._proxy_guards = read(crawler.settings, "PROXY_GUARDS_ADDRESSES")

    async def process_request(self, request: Request) -> None:
        url = normalize(request.url)
        name, number = hostname(url), port(url)
        proxied = is_proxied(self._session, request)
        if proxied and self._proxy_guards and not is_address(name):
            return
        try:
            waiting = self._turns.aside if self._observed is None else partial(self._timed, request.url)
            answer = await self._resolver.resolve(name, waiting, host=host_of(request))
            await self._check(answer, name, number)
        except NameNotResolved as error:
            tasks, host = tasks_of(self._crawler), host_of(request)
            tasks.count("names_not_resolved")
            tasks.unreachable(host)
            if not error.permanent:
                self._turns.fail(host)
            hint = _PROXY_HINT if proxied else ""
            raise CannotResolveHostError(f"{error}{hint}") from error
        except AddressRefused as error:
            raise RequestRefused(str(error)) from error

    @contextmanager
    def _timed(self, url: str) -> Iterator[None]:
        """Waits like `Turns.aside`, and records the time of the wait."""
        assert self._observed is not None
        with self._turns.aside(), self._observed.timed("dns", url):
            yield

    async def _check(self, answer: ResolvedName, name: str, number: int) -> None:
        """Raises AddressRefused unless all addresses of the host are allowed."""
        scope, guard = self._session.scope, self._session.guard
        if scope.is_unsettled_seed(name, number):
            await scope.settle_seed(name, number, answer.addresses)
        try:
            guard.check_all(answer.addresses, hostname=name, port=number)
        except AddressRefused:
            # another worker may have admitted the host
            if not await scope.settle_seed(name, number, answer.addresses):
                raise
            guard.check_all(answer.addresses, hostname=name, port=number)
