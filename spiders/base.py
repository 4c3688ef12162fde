"""The base of spiders that crawl from seeds along links and store pages."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from scrapy import Request, Spider
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.settings import BaseSettings
from twisted.python.failure import Failure

from webcrawl.config import read
from webcrawl.crawler.components import Reads
from webcrawl.crawler.pages.from_response import (
    failed_page,
    failed_request,
    followed_links,
    page_directives,
    page_of,
)
from webcrawl.crawler.session import Session
from webcrawl.documents.html.links import PageLinks
from webcrawl.errors import ConfigurationError, CrawlError, InvalidURL
from webcrawl.page import Page
from webcrawl.urls.scope import Scope, ScopeKind
from webcrawl.urls.seeds import read_seeds, seed_url

logger = logging.getLogger(__name__)

_ARGUMENTS = ("seeds", "scope")


class BroadSpider(Spider):
    """Give it a `name`, and a `parse` that yields what it wants of:

    `self.page(response)`   the page, to be stored: yield it once a response
    `self.links(response)`  its links, to be followed within the scope
    items                   yours, for your pipelines and feeds
    requests                Scrapy's, with callbacks of yours

    Arguments: `seeds` (URLs separated by commas or white space, or @file), `scope` (host, domain or web).
    """

    reads = Reads.NOTHING
    """What it reads of an HTML page beside its links, such as `Reads.TREE` for `document_of(response).html`."""

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Pages of every status reach `parse`, to be stored, unless a spider's own settings say otherwise."""
        super().update_settings(settings)
        if not settings.getpriority("HTTPERROR_ALLOW_ALL"):
            settings.set("HTTPERROR_ALLOW_ALL", True, priority="spider")

    def __init__(self, seeds: str = "", scope: ScopeKind = "domain", **kwargs: Any) -> None:
        self._refuse_typos(kwargs)
        super().__init__(**kwargs)
        self.seeds = seeds
        self.scope = Scope(scope)

    async def start(self) -> AsyncIterator[Request]:
        session = Session.of(self.crawler)
        try:
            urls = list(self._good_seeds())
        except CrawlError as error:
            # to go on with what an earlier run left would hide that these are not crawled
            logger.error("%s", error)
            raise CloseSpider("no_seeds") from error
        if not urls and not session.connection.joined.has_urls:
            logger.error(
                "There is nothing to crawl: give at least one good seed, -a seeds=https://example.org/"
            )
            raise CloseSpider("no_seeds")
        for url in urls:
            self.scope.add(url)
        await session.scope.set(self.scope)
        # all at once: pages of the first ones may lead to the hosts of the last
        await session.scope.admit_seeds(urls)
        for url in urls:
            yield Request(url, errback=self.errback, priority=10)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield self.page(response)
        yield self.links(response)

    @contextmanager
    def making(self, what: str) -> Iterator[None]:
        """Around what a spider makes of its crawl when that ends: if it fails, so does `scrapy crawl`.

        What takes long in it belongs into a thread: others share the event loop.
        """
        try:
            yield
        except (CrawlError, OSError) as error:
            logger.error("No %s: %s", what, error)
            self.crawler.stats.set_value("exit_status", 1)

    def errback(self, failure: Failure) -> Iterator[Page]:
        """A URL that could not be fetched gets its row too, with the error in it."""
        yield failed_page(failed_request(failure), failure.value)

    def page(self, response: Response) -> Page:
        """The page of a response, as it goes through the pipelines into the stores."""
        page = page_of(response)
        if agent := self._robots_agent:
            said = page_directives(response, agent)
            page.noindex, page.noarchive, page.nofollow = said.noindex, said.noarchive, said.nofollow
        return page

    def links(self, response: Response) -> PageLinks:
        """The links to follow of a response; none where the page says nofollow or is no HTML."""
        return followed_links(response, obey=self._robots_agent)

    @cached_property
    def _robots_agent(self) -> str | None:
        """Whom a page's robots directives must concern, or None when they are not obeyed."""
        settings = self.settings
        if not read(settings, "ROBOTS_META_OBEY"):
            return None
        return str(settings.get("ROBOTSTXT_USER_AGENT") or read(settings, "USER_AGENT"))

    def _good_seeds(self) -> Iterator[str]:
        for seed in read_seeds(self.seeds):
            try:
                url = seed_url(seed)
                if "://" not in seed:
                    logger.warning("Seed %r is taken for %s", seed, url)
                yield url
            except InvalidURL as error:
                logger.error("Seed left out: %s", error)

    def _refuse_typos(self, arguments: Iterable[str]) -> None:
        """An argument that nobody knows may be a spider's own, but hardly one that is nearly one of ours."""
        for name in arguments:
            if not hasattr(self, name) and (
                meant := get_close_matches(name.lower(), _ARGUMENTS, cutoff=0.75)
            ):
                raise ConfigurationError(
                    f"spider {self.name} has no argument {name!r}: {meant[0]!r} is meant"
                )
