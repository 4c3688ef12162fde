"""The base class of spiders that follow links from seeds and store pages."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.settings import BaseSettings
from twisted.python.failure import Failure

from webcrawl.config import read
from webcrawl.crawler.components import Reads
from webcrawl.crawler.joining import note_seeds
from webcrawl.crawler.pages.from_response import (
    answer_of,
    document_of,
    failed_page,
    failed_request,
    page_of,
)
from webcrawl.crawler.pages.response_links import followed_links, link_rows_of, opts_out, page_directives
from webcrawl.crawler.scheduling.requests import RESOURCE
from webcrawl.crawler.session import Session
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.html.links import PageLinks, PageResources
from webcrawl.documents.page import AI_OPT_OUT, Page
from webcrawl.errors import ConfigurationError, CrawlError, InvalidURL
from webcrawl.frontier import level_of_priority, priority_of_level
from webcrawl.hosts.rules import RobotsAgents
from webcrawl.policies.priorities import level_of_visit
from webcrawl.urls.scope import Scope, ScopeKind
from webcrawl.urls.seeds import read_seeds, seed_url

if TYPE_CHECKING:
    from webcrawl.links.questions import Opener

logger = logging.getLogger(__name__)

_MOST_HOPS = 3
"""The longest chain of resources that load each other, such as style sheets."""
_ARGUMENTS = ("seeds", "scope")
_SEED_PRIORITY = 10


class BroadSpider(Spider):
    """Stores every page and follows every link within the scope.

    A subclass sets `name`, and may override `parse` to yield any of these:

    `self.page(response)`       the page to store; yield it once for each response
    `self.links(response)`      the links of the page, which are followed within the scope
    `self.resources(response)`  the resources that the page loads, if PAGE_RESOURCES is set
    items                       your own items, for your pipelines and feeds
    requests                    Scrapy requests, with your own callbacks

    It may also override `seed_urls`, which yields the URLs to begin with.

    Arguments: `seeds` (URLs separated by commas or white space, or @file), `scope` (path, host, domain or web).
    """

    reads = Reads.NOTHING
    """The parts of HTML pages that `parse` reads besides links: `Reads.TREE` for `document_of(response).html`."""
    keeps_cookies = False
    """Whether COOKIES_ENABLED None means all requests, or only requests with cookies or a cookiejar."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        if read(crawler.settings, "PAGE_RESOURCES"):
            spider.reads |= Reads.TREE
        return spider

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        """Lets responses of every status reach `parse`, unless a spider's own settings prevent it."""
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
            urls = list(self.seed_urls())
        except CrawlError as error:
            # resuming an earlier run would hide that these seeds are not crawled
            logger.error("%s", error)
            raise CloseSpider("no_seeds") from error
        if not urls and not session.joined.has_urls:
            logger.error(
                "There is nothing to crawl: give at least one valid seed, such as -a seeds=https://example.org/"
            )
            raise CloseSpider("no_seeds")
        for url in urls:
            self.scope.add(url)
        await session.scope.set(self.scope)
        await note_seeds(session.connection, urls, self.scope.kind)
        # all seeds first: pages of the first seeds may link to the hosts of the last seeds
        await session.scope.admit_seeds(urls)
        # Scrapy fetches start URLs outside the allowed domains too
        meta = {"allow_offsite": True} if getattr(self, "allowed_domains", None) else None
        ages = await session.visits.ages(urls) if session.visits else {}
        for url in sorted(urls, key=lambda url: ages.get(url, math.inf), reverse=True):
            priority = _SEED_PRIORITY
            if url in ages:
                priority = priority_of_level(level_of_visit(level_of_priority(_SEED_PRIORITY), ages[url]))
            yield Request(url, errback=self.errback, priority=priority, meta=meta)

    def seed_urls(self) -> Iterator[str]:
        """Yields the URLs of the seeds to begin with. Skips seeds that are no URLs, with an error in the log."""
        for seed in read_seeds(self.seeds):
            try:
                url = seed_url(seed)
                if "://" not in seed:
                    logger.warning("Seed %r has no scheme: using %s", seed, url)
                yield url
            except InvalidURL as error:
                logger.error("Skipping a seed: %s", error)
                Session.of(self.crawler).scope.starts.refused(seed, str(error))

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield self.page(response)
        yield self.links(response)
        if self._loads_resources:
            yield self.resources(response)

    def parse_resource(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        """Yields a resource of a page, to be stored. Links of an HTML page within the scope are followed."""
        if self.scope.allows(response.url) and is_html(document_of(answer_of(response)).mime_type):
            yield from self.parse(response)
        else:
            yield self.page(response)
            yield self.resources(response)

    @property
    def own_results(self) -> Path | None:
        """A folder of results that this spider writes when the crawl ends; the summary names it."""
        return None

    @contextmanager
    def making(self, what: str) -> Iterator[None]:
        """Context for making `what`, such as a report, when the crawl ends; if it fails, `scrapy crawl` exits with 1.

        Run slow work in a thread, because other components share the event loop.
        """
        try:
            yield
        except (CrawlError, OSError) as error:
            logger.error("Cannot make the %s: %s", what, error)
            self.crawler.stats.set_value("exit_status", 1)

    def stored_links(self) -> Sequence[Opener] | None:
        """Returns the files of the link store after the crawl; None unless LINKS is set. Raises StoreError."""
        if not self._keeps_links:
            return None
        from webcrawl.links.sources import link_files_if_any  # it imports pyarrow

        files = link_files_if_any(Session.of(self.crawler).stores)
        return files.openers if files else None

    def errback(self, failure: Failure) -> Iterator[Page]:
        """Yields a page with the error for a URL that could not be fetched."""
        yield failed_page(failed_request(failure), failure.value)

    def page(self, response: Response) -> Page:
        """Returns the page of a response, for the pipelines and stores."""
        page = page_of(response)
        if agent := self._robots_agent(response):
            robots = page_directives(response, agent)
            page.reading.noindex, page.archived.noarchive, page.links.nofollow = (
                robots.noindex,
                robots.noarchive,
                robots.nofollow,
            )
        if self._heeds_opt_outs and opts_out(response, self._agents.of(response.url)):
            page.reading.noindex = True
            page.archived.remarks += (AI_OPT_OUT,)
        if self._keeps_links and not page.reading.noindex:
            page.links.rows = link_rows_of(response, text_links=self._follows_text)
        return page

    def links(self, response: Response) -> PageLinks:
        """Returns the links of a response to follow; no links if the page says nofollow.

        Links in documents other than HTML are followed after a pipeline has extracted them.
        """
        texts = Session.of(self.crawler).components.read_link_texts
        obeyed, text_links = self._robots_agent(response), self._follows_text
        return followed_links(response, obey=obeyed, texts=texts, text_links=text_links)

    def resources(self, response: Response) -> PageResources:
        """Returns the resources that a page, frame or style sheet loads, if PAGE_RESOURCES is set.

        Resources of frames and style sheets are loaded too, up to three steps from the page.
        """
        hops = response.meta.get(RESOURCE, 0)
        answer = answer_of(response)
        if not self._loads_resources or answer.status != 200 or hops >= _MOST_HOPS:
            return PageResources([])
        from webcrawl.results.rewriting import loaded  # slow to import, and every command imports the spiders

        return PageResources(loaded(document_of(answer), templates=True), hops + 1)

    @cached_property
    def _loads_resources(self) -> bool:
        return bool(read(self.settings, "PAGE_RESOURCES"))

    @cached_property
    def _follows_text(self) -> bool:
        return bool(read(self.settings, "TEXT_LINKS"))

    @cached_property
    def _keeps_links(self) -> bool:
        return Session.of(self.crawler).stores.keeps_links

    @cached_property
    def _obeys_directives(self) -> bool:
        return bool(read(self.settings, "ROBOTS_META_OBEY"))

    @cached_property
    def _heeds_opt_outs(self) -> bool:
        return bool(read(self.settings, "AI_OPT_OUTS"))

    @property
    def _agents(self) -> RobotsAgents:
        return Session.of(self.crawler).robots_agents

    def _robots_agent(self, response: Response) -> str | None:
        """Returns the user agent for the robots directives of a page; None if they are not obeyed."""
        return self._agents.of(response.url) if self._obeys_directives else None

    def _refuse_typos(self, arguments: Iterable[str]) -> None:
        """Raises ConfigurationError for an unknown argument that resembles an argument of this class.

        Other unknown arguments may belong to a subclass.
        """
        for name in arguments:
            if not hasattr(self, name) and (
                meant := get_close_matches(name.lower(), _ARGUMENTS, cutoff=0.75)
            ):
                raise ConfigurationError(
                    f"spider {self.name} has no argument {name!r}: did you mean {meant[0]!r}?"
                )
