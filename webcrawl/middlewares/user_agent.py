"""Sets the User-Agent header for hosts whose rule in POLITENESS_RULES has a user agent."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.crawler.access import host_of
from webcrawl.crawler.download.curl import IMPERSONATE
from webcrawl.crawler.session import Session
from webcrawl.hosts.rules import HostRules
from webcrawl.urls.canonical import hostname


class UserAgentMiddleware:
    """Sets the header of requests that have none, before Scrapy sets USER_AGENT.

    A request that impersonates a browser keeps the browser's user agent, which matches its other headers and handshake.
    """

    def __init__(self, rules: HostRules) -> None:
        self._rules = rules

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        rules = Session.of(crawler).turns.rules
        if rules is None:
            raise NotConfigured
        return cls(rules)

    def process_request(self, request: Request) -> None:
        if request.meta.get(IMPERSONATE):
            return
        if agent := self._rules.of(hostname(host_of(request))).user_agent:
            request.headers.setdefault(b"User-Agent", agent)
