"""Adds links to the frontier without making requests of them, within depth limit, URL filters and scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.pages.from_response import answer_of, document_of, outline_of, pending_links_of
from webcrawl.crawler.scheduling.requests import resource_extra, sitemap_extra
from webcrawl.crawler.session import Session
from webcrawl.documents.document import Document
from webcrawl.documents.html.links import PageLinks, PageResources
from webcrawl.documents.mime.facts import Link, SitemapLink
from webcrawl.errors import InvalidURL
from webcrawl.frontier import DEFAULT_LEVEL, Candidate
from webcrawl.page import Page
from webcrawl.urls.canonical import normalize, split, without_fragment

T = TypeVar("T")

FRESH = timedelta(days=7)
"""URLs that a sitemap or feed reports as changed more recently than this are fetched before others."""
_BATCH = 500
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Outlinks:
    """Takes the links of a response from its spider, and those in its document from the pipeline that reads it.

    The links in a document are followed if the spider yielded the links of its response. Either may come first, so both
    use a `PendingLinks`, and the second adds the links. The page is acknowledged after both.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session

    async def follow_from_spider(self, response: Response, links: PageLinks) -> None:
        """Follows links that the spider yielded, and those in the document if `links.also_found` is set."""
        # the scope of another worker may have admitted this page
        await self._session.scope.update_for(normalize(response.url))
        depth = response.meta.get("depth", 0) + 1
        referrer = without_fragment(response.url)
        # a page that was parsed in this process is in its memory until its links are added
        document = document_of(response) if outline_of(response) is not None else None
        add = partial(self.add, depth=depth, referrer=referrer)
        await self._in_batches(links.links, referrer, add, document)
        if links.also_found:
            pending = pending_links_of(response)
            pending.wanted = True
            found, pending.found = pending.found, []
            await self._follow(found, depth, referrer, document_of(answer_of(response)))

    def load(self, response: Response, resources: PageResources) -> None:
        """Adds what a page loads, before further pages of its host; scope and depth limit do not apply to it."""
        session, spider = self._session, self._crawler.spider
        assert spider is not None
        worker, allowed = tasks_of(self._crawler).worker, session.scope.resource_filters.apply
        extra, depth = resource_extra(spider, resources.hops), response.meta.get("depth", 0) + 1
        recent = worker.discovered.recent.links
        for link in resources.urls:
            if link not in recent and (url := allowed(link)) is not None:
                host, path = split(url)
                mark = session.canonicalizer.fingerprint(url)
                worker.add(Candidate(host, path, mark, DEFAULT_LEVEL - 1, depth, response.url, extra))
                recent.add(link)

    async def follow_from_document(self, page: Page, links: Sequence[Link]) -> None:
        """Follows links that a pipeline found in the document of a page, if the spider wants them."""
        pending = page.pending_links
        if pending is None or not links:
            return
        if pending.wanted:
            await self._session.scope.update_for(normalize(page.final_url))
            await self._follow(links, page.depth + 1, page.final_url, page.document)
        else:
            pending.found.extend(links)

    async def _follow(
        self, links: Sequence[Link], depth: int, referrer: str, document: Document | None
    ) -> None:
        """Adds links, most recently changed first, in batches: a sitemap has up to 50,000."""
        now = datetime.now(UTC)
        if any(link.modified for link in links):
            links = sorted(links, key=lambda link: link.modified or _LONG_AGO, reverse=True)
        add = partial(self._add_found, now=now, depth=depth, referrer=referrer)
        await self._in_batches(links, referrer, add, document)

    def _add_found(self, links: Sequence[Link], *, now: datetime, depth: int, referrer: str) -> None:
        urls: dict[tuple[int, bool], list[str]] = {}
        for link in links:
            fresh = link.modified is not None and timedelta() <= now - link.modified <= FRESH
            with suppress(InvalidURL):
                url = normalize(link.url)
                urls.setdefault((DEFAULT_LEVEL - fresh, isinstance(link, SitemapLink)), []).append(url)
        for (level, sitemaps), alike in sorted(urls.items()):
            self.add(alike, depth=depth, referrer=referrer, level=level, sitemaps=sitemaps)

    async def _in_batches(
        self,
        links: Sequence[T],
        referrer: str,
        add: Callable[[Sequence[T]], None],
        document: Document | None,
    ) -> None:
        """Adds links in batches; pages with more than one take turns, and other tasks run in between.

        Waits while many links have not been sent to the engine, because they would fill the memory. The page's host is
        not asked meanwhile: bodies of pages that wait here would keep others from being processed. The body of
        `document` does not, because it is not in use.
        """
        if len(links) <= _BATCH:
            add(links)
            return
        worker = tasks_of(self._crawler).worker
        aside = self._session.readers.aside(document) if document is not None else nullcontext()
        with worker.adding_links(split(normalize(referrer))[0]), aside:
            for start in range(0, len(links), _BATCH):
                if self._session.turns.ending.is_set():  # a crawl that ends waits for this page
                    return add(links[start:])
                await worker.room()
                async with worker.discovered.turn():
                    add(links[start : start + _BATCH])

    def add(
        self,
        links: Sequence[str],
        *,
        depth: int,
        referrer: str,
        level: int = DEFAULT_LEVEL,
        sitemaps: bool = False,
    ) -> None:
        """Adds normalised links that pass depth limit and filters to the frontier; `sitemaps`: they name sitemaps."""
        if not links:
            return
        tasks, session = tasks_of(self._crawler), self._session
        limit = session.config.depth_limit
        if limit and depth > limit:
            tasks.count("too_deep", len(links))
            return
        assert self._crawler.spider is not None
        extra = sitemap_extra(self._crawler.spider) if sitemaps else None
        worker, allowed = tasks.worker, session.scope.filters.apply
        fingerprint, recent = session.canonicalizer.fingerprint, worker.discovered.recent.links
        filtered = 0
        # most links of a page are on the pages around it too
        for link in recent.absent(links):
            url = allowed(link)
            if url is None:
                filtered += 1
                continue
            host, path = split(url)
            worker.add(Candidate(host, path, fingerprint(url), level, depth, referrer, extra))
            recent.add(link)
        tasks.count("filtered", filtered)
