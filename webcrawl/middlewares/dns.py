"""Resolves host names and checks addresses before a request waits for its host's turn."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError

from webcrawl.crawler.access import host_of, tasks_of
from webcrawl.crawler.errors import RequestRefused
from webcrawl.crawler.session import Session
from webcrawl.errors import AddressRefused, NameNotResolved
from webcrawl.hosts.dns import Answer
from webcrawl.urls.canonical import hostname, normalize, port


class DnsMiddleware:
    """Uses the session's resolver cache and address guard. The guard checks the address again on connection.

    A proxy resolves names by itself. Names that this machine can resolve too are checked before they are passed on.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._resolver = session.resolver
        self._session = session
        self._turns = session.turns

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, Session.of(crawler))

    async def process_request(self, request: Request) -> None:
        url = normalize(request.url)
        name, number = hostname(url), port(url)
        try:
            answer = await self._resolver.resolve(name)
            try:
                self._check(answer, name, number)
            except AddressRefused:
                if not await self._session.scope.is_seed_host(name, number):
                    raise
        except NameNotResolved as error:
            if self._session.proxies or request.meta.get("proxy"):
                return  # a name that only the proxy knows
            tasks, host = tasks_of(self._crawler), host_of(request)
            tasks.count("names_not_resolved")
            tasks.unreachable(host)
            if not error.permanent:
                self._turns.fail(host)
            raise CannotResolveHostError(str(error)) from error
        except AddressRefused as error:
            raise RequestRefused(str(error)) from error

    def _check(self, answer: Answer, name: str, number: int) -> None:
        for address in answer.addresses:
            self._session.guard.check(address, hostname=name, port=number)
