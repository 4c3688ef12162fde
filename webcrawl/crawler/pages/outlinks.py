"""Adds links to the frontier without making requests, within depth limit, URL filters and scope."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.config import read
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.pages.from_response import (
    answer_of,
    document_of,
    hops_of,
    outline_of,
    pending_links_of,
)
from webcrawl.crawler.scheduling.requests import (
    DUST_TRIAL,
    FETCH_CLASS,
    OFFSITE,
    SITEMAP,
    link_extra,
    resource_extra,
)
from webcrawl.crawler.session import Session
from webcrawl.documents.document import Document
from webcrawl.documents.html.links import PageLinks, PageResources
from webcrawl.documents.mime.facts import Link, SitemapLink
from webcrawl.documents.page import Page
from webcrawl.errors import InvalidURL
from webcrawl.frontier import Candidate, RecentCache
from webcrawl.policies.priorities import Prospect, level_of_visit
from webcrawl.policies.traffic import COVERAGE_GET, FRESHNESS_GET, class_of_link
from webcrawl.urls.canonical import normalize, split, without_fragment
from webcrawl.urls.patterns import Patterns

L = TypeVar("L", str, Link)

_BATCH = 500
_MANY = 5_000
"""A page with more links waits for other pages so often that its host counts as over its share."""
_MOST_COUNTED = 128 * 1024
"""The most bytes for which a page counts among those that wait: a few sitemaps do not keep new hosts waiting."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_RESOURCE_LEVEL = 0
MOST_FOLDERS = 20
"""The most folders of one URL, nearest to the root: a hostile link could otherwise bring thousands of URLs."""
MOST_HOPS = 255
"""The largest OFFSITE_HOPS: on a page this far outside the scope, no further link outside it is followed."""


@dataclass(frozen=True, slots=True)
class LinkSource:
    """The page on which links were found.

    url     the URL of the page, without fragment
    depth   the depth of the links: the number of links between a seed and their targets
    hops    the number of links in a row that led to the page outside the scope; 0 if the page is within
    texts   the texts of links by URL; empty unless the chain of PRIORITIZERS needs them
    what    the class of the links' fetches (webcrawl.policies.traffic)
    ages    the seconds since the last visit of links by URL; None unless visits order the links (REVISIT)
    """

    url: str
    depth: int
    hops: int = 0
    texts: Mapping[str, str] = field(default_factory=dict)
    ages: Mapping[str, float] | None = None
    what: str = COVERAGE_GET


class Outlinks:
    """Takes the links that a spider yields for a response, and the links that a pipeline reads in its document.

    The links in a document are followed if the spider yielded the links of its response. Spider or pipeline may come
    first, so both use a `PendingLinks`, and the second adds the links. The page is acknowledged after both.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        self._ascends = read(crawler.settings, "PATH_ASCENDING")

    async def follow_from_spider(self, response: Response, links: PageLinks) -> None:
        """Follows links that the spider yielded, and links in the document if `links.with_document_links` is set."""
        # the scope of another worker may have admitted this page
        await self._session.scope.update_for(normalize(response.url))
        depth = response.meta.get("depth", 0) + 1
        source = LinkSource(
            *(without_fragment(response.url), depth, hops_of(response), links.texts),
            what=class_of_link(response.meta.get(FETCH_CLASS)),
        )
        # a page that was parsed in this process stays in memory until its links are added
        document = document_of(response) if outline_of(response) is not None else None
        await self._in_batches(links.links, source, self.add, document)
        if self._ascends:  # for a seed or the target of a redirect, which was no link
            page = normalize(response.url)
            self._ascend([page], await self._with_ages([page], source))
        if links.with_document_links:
            pending = pending_links_of(response)
            pending.wanted = True
            links_in_document, pending.links = pending.links, []
            await self._follow(links_in_document, source, document_of(answer_of(response)))

    def load(self, response: Response, resources: PageResources) -> None:
        """Adds the resources of a page before further pages of its host; scope and depth limit do not apply."""
        session, spider = self._session, self._crawler.spider
        assert spider is not None
        worker, allowed = tasks_of(self._crawler).worker, session.scope.resource_filters.apply
        extra, depth = resource_extra(spider, resources.hops), response.meta.get("depth", 0) + 1
        recent = worker.intake.recent.links
        for link in worker.intake.unknown(resources.urls):
            if (url := allowed(link)) is not None:
                host, path = split(url)
                mark = session.canonicalizer.fingerprint(url)
                worker.add(Candidate(host, path, mark, _RESOURCE_LEVEL, depth, response.url, extra))
                if host not in worker.intake.shallow:
                    recent.add(link)

    async def follow_from_document(self, page: Page, links: Sequence[Link]) -> None:
        """Follows links that a pipeline found in the document of a page, if the spider wants them."""
        pending = page.links.pending
        if pending is None or not links:
            return
        if pending.wanted:
            await self._session.scope.update_for(normalize(page.final_url))
            source = LinkSource(
                *(page.final_url, page.depth + 1, pending.hops), what=class_of_link(page.fetch_class)
            )
            await self._follow(links, source, page.document)
        else:
            pending.links.extend(links)

    async def _follow(self, links: Sequence[Link], source: LinkSource, document: Document | None) -> None:
        """Adds links in batches, the most recently changed first; a sitemap has up to 50,000."""
        if any(link.modified for link in links):
            links = sorted(links, key=lambda link: link.modified or _LONG_AGO, reverse=True)
        await self._in_batches(links, source, self._add_document_links, document)

    def _add_document_links(self, links: Sequence[Link], source: LinkSource) -> None:
        """Adds links of a document, with the document's hints about them."""
        pages_and_sitemaps: tuple[dict[str, Link], dict[str, Link]] = ({}, {})
        for link in links:
            with suppress(InvalidURL):
                pages_and_sitemaps[isinstance(link, SitemapLink)].setdefault(normalize(link.url), link)
        for sitemaps, hints in enumerate(pages_and_sitemaps):
            self.add([*hints], source, sitemaps=bool(sitemaps), hints=hints)

    async def _in_batches(
        self,
        links: Sequence[L],
        source: LinkSource,
        add: Callable[[Sequence[L], LinkSource], None],
        document: Document | None,
    ) -> None:
        """Adds links in batches; pages with more than one batch take turns, and other tasks run in between.

        Waits while many links have not been sent to the engine, because they would fill the memory. The page's host is
        not asked meanwhile: the bodies of pages that wait here keep other pages from being processed. The body of
        `document` does not count for this, because it is not in use, but while many pages wait, no new host is asked.
        """
        if len(links) <= _BATCH:
            add(links, await self._with_ages(links, source))
            return
        worker, host = tasks_of(self._crawler).worker, split(normalize(source.url))[0]
        self._session.costs.of(host).waits += len(links) > _MANY
        with ExitStack() as waits:
            waits.enter_context(worker.hosts.adding_links(host))
            if document is not None:
                waits.enter_context(self._session.readers.aside(document))
                if self._session.outlines is not None:
                    size = min(len(document), _MOST_COUNTED)
                    waits.enter_context(self._session.outlines.hosts.reading(host, size))
            for start in range(0, len(links), _BATCH):
                async with worker.intake.turn_to_add(self._session.turns.ending):
                    batch = links[start : start + _BATCH]
                    with_ages = await self._with_ages(batch, source)
                    began = time.perf_counter()
                    add(batch, with_ages)
                    self._session.costs.of(host).seconds += time.perf_counter() - began

    async def _with_ages(self, links: Sequence[str] | Sequence[Link], source: LinkSource) -> LinkSource:
        """Returns a source that knows when links were visited, and folders above them, that were not added recently."""
        if self._session.visits is None or not links:
            return source
        urls: dict[str, None] = {}
        for link in links:
            with suppress(InvalidURL):
                urls[link if isinstance(link, str) else normalize(link.url)] = None
        if self._ascends:
            urls |= {folder: None for url in urls for folder in folders_above(url)}
        # most links of a page are on the pages around it too
        new = tasks_of(self._crawler).worker.intake.recent.links.absent(urls)
        return replace(source, ages=await self._session.visits.ages(new))

    def add(
        self,
        links: Sequence[str],
        source: LinkSource,
        *,
        sitemaps: bool = False,
        hints: Mapping[str, Link] = MappingProxyType({}),
    ) -> None:
        """Adds normalized links that pass depth limit, filters and rules to the frontier.

        `sitemaps`: the links lead to sitemaps. `hints`: a document's hints about links, by URL.
        """
        if not links:
            return
        tasks, session = tasks_of(self._crawler), self._session
        limit = session.config.depth_limit
        if limit and source.depth > limit:
            tasks.count("too_deep", len(links))
            return
        intake, refused = tasks.worker.intake, set[str]()
        page, credit = normalize(source.url), intake.credit
        uncredited = session.scope.mined.uncredited(page, links) if credit else set[str]()
        worth = credit.of_link(source.url, max(len(links) - len(uncredited), 1)) if credit else None
        # most links of a page are on the pages around it too
        new = intake.unknown(links)
        self._add_new(new, source, hints, refused, sitemaps=sitemaps, worth=worth)
        intake.count_links(
            split(page),
            links,
            new=len(new),
            refused=refused,
            uncredited=uncredited,
            url=source.url,
            depth=source.depth,
        )
        if self._ascends:
            self._ascend([link for link in new if link not in refused], source)

    def _add_new(
        self,
        links: Sequence[str],
        source: LinkSource,
        hints: Mapping[str, Link],
        refused: set[str],
        *,
        sitemaps: bool,
        worth: int | None,
    ) -> None:
        """Adds links that were not added recently, with this worth; adds links that are dropped to `refused`."""
        worker, session = tasks_of(self._crawler).worker, self._session
        scope, usual = session.scope, self._extra(sitemaps=sitemaps)
        allowed, weigh, rules = scope.filters.apply, scope.prioritizer.level, scope.link_rules.on(source.url)
        intake = worker.intake
        fingerprint, remember = session.canonicalizer.fingerprint, intake.recent.links.add
        shallow = intake.shallow
        prospect = Prospect("", "", source.depth, source.url, time.time(), worth=worth)
        add, depth, page, what = worker.add, source.depth, source.url, source.what
        prospect.is_new = what == FRESHNESS_GET
        texts, ages, change = source.texts, source.ages, intake.credit.rise(worth) if intake.credit else None
        sunk, dusty = intake.records.patterns.levels, session.dust.active
        tries = intake.records.patterns.tries(*split(normalize(source.url)))
        for link in links:
            url, extra = allowed(link), usual
            if url is None and (url := scope.offsite(link, source.hops + 1)) is not None:
                extra = self._extra(sitemaps=sitemaps, hops=source.hops + 1)
            if url is None or (rules is not None and not rules.match(url)):
                refused.add(link)
                continue
            host, path = split(url)
            if host in dusty and extra is usual:
                url, extra = self._rewritten(url, usual, rules, sitemaps=sitemaps)
                host, path = split(url)
            prospect.url, prospect.path = url, path
            if texts:
                prospect.text = texts.get(link, "")
            if hints:
                _tell(prospect, hints[link])
            prospect.sunk = sunk(host, path, tries=tries)
            level, rises = weigh(prospect), change
            # what has sunk comes last: a trap has URLs without end that were never visited
            if ages is not None and (age := ages.get(link, 0.0 if prospect.sunk else None)) is not None:
                level, rises = level_of_visit(level, age), None
            mark = fingerprint(url)
            add(Candidate(host, path, mark, level, depth, page, extra, rise=rises, fetch_class=what))
            if host not in shallow:
                remember(link)

    def _rewritten(
        self, url: str, usual: bytes | None, rules: Patterns | None, *, sitemaps: bool
    ) -> tuple[str, bytes | None]:
        """Returns a link as DUST rules rewrite it, if it then matches `rules` too, and the `extra` of its entry."""
        rewritten = self._session.dust.rewrite(*split(url), may_try=not sitemaps)
        if rewritten is None or (rules is not None and not rules.match(rewritten.url)):
            return url, usual
        tasks_of(self._crawler).count("rewritten", int(rewritten.url != url))
        return rewritten.url, self._extra(sitemaps=sitemaps, is_trial=True) if rewritten.is_trial else usual

    def _ascend(self, urls: Iterable[str], source: LinkSource) -> None:
        """Adds the folders above URLs that were found, unless they were added recently."""
        limit, intake = self._session.config.depth_limit, tasks_of(self._crawler).worker.intake
        if limit and source.depth > limit:
            return
        allowed, known, shallow = self._session.scope.filters.apply, intake.recent.folders, intake.shallow
        briefly = RecentCache[str]()  # for hosts that refuse URLs by their depth
        folders = [
            folder
            for url in urls
            for folder in unknown_folders(
                url, briefly if shallow and split(url)[0] in shallow else known, allowed
            )
        ]
        if folders:
            self._add_new(folders, source, {}, set(), sitemaps=False, worth=None)

    def _extra(self, *, sitemaps: bool, hops: int = 0, is_trial: bool = False) -> bytes | None:
        """Returns the `extra` of the queue entry of a link.

        `hops`: the hops of a link that leads outside the scope. `is_trial`: a DUST rule was left out.
        """
        assert self._crawler.spider is not None
        meta: dict[str, Any] = ({SITEMAP: True} if sitemaps else {}) | ({OFFSITE: hops} if hops else {})
        if is_trial:
            meta[DUST_TRIAL] = True
        return link_extra(self._crawler.spider, meta) if meta else None


def _tell(prospect: Prospect, link: Link) -> None:
    """Sets a document's hints about a link."""
    prospect.modified = None if link.modified is None else link.modified.timestamp()
    prospect.period, prospect.rank = link.period, link.rank


def folders_above(url: str) -> Iterator[str]:
    """Yields the folders that contain a normalized URL, the nearest first: `/a/b/` for both `/a/b/?c` and `/a/b/c`.

    A folder does not contain itself.
    """
    query = url.find("?")
    end = query if query >= 0 else len(url) - 1
    slashes: list[int] = []
    slash = url.find("/", url.find(":") + 4)
    while 0 <= slash < end and len(slashes) < MOST_FOLDERS:
        slashes.append(slash)
        slash = url.find("/", slash + 1, end)
    for slash in reversed(slashes):
        yield url[: slash + 1]


def unknown_folders(url: str, known: RecentCache[str], allowed: Callable[[str], str | None]) -> Sequence[str]:
    """Returns the folders above a URL that `allowed` passes, as it returns them, and adds them to `known`.

    Stops at the first known folder, because the folders above it are known too.
    """
    # -1, for a URL without a query, leaves out the last character, which may be the slash of a folder
    if url[: url.rfind("/", 0, url.find("?")) + 1] in known:
        return ()
    unknown = []
    for folder in folders_above(url):
        if folder in known:
            break
        if (address := allowed(folder)) is not None:
            known.add(folder)
            unknown.append(address)
    return unknown
