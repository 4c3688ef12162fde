"""Sets the User-Agent header for hosts whose rule in POLITENESS_RULES has a user agent."""

from __future__ import annotations

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.crawler.access import host_of
from webcrawl.crawler.download.curl import IMPERSONATE
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.urls.canonical import hostname


class UserAgentMiddleware(SessionComponent):
    """Sets the header of requests that have none, before Scrapy sets USER_AGENT.

    A request that impersonates a browser keeps the browser's user agent, which matches its other headers and handshake.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        if session.turns.rules is None:
            raise NotConfigured
        self._rules = session.turns.rules

    def process_request(self, request: Request) -> None:
        if request.meta.get(IMPERSONATE):
            return
        if agent := self._rules.of(hostname(host_of(request))).user_agent:
            request.headers.setdefault(b"User-Agent", agent)
