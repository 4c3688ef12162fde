"""`scrapy crawl linkcheck`: reports the broken links of a site."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from scrapy import Request
from scrapy.http import Response

from webcrawl.config.private_files import readable_outside
from webcrawl.crawler.components import Reads
from webcrawl.crawler.fetch import TRUNCATE
from webcrawl.crawler.pages.from_response import answer_of, document_of
from webcrawl.crawler.session import Session
from webcrawl.documents.html.facts import is_html
from webcrawl.documents.page import Page
from webcrawl.errors import InvalidURL
from webcrawl.results.references import base_of, references
from webcrawl.results.rewriting import loaded
from webcrawl.spiders.base import BroadSpider
from webcrawl.urls.canonical import resolve_location

_START_OF_A_BODY = 65_536
_MOST_HOPS = 10


class LinkCheck(BroadSpider):
    """Crawls within its scope. Requests every URL that the pages link to or load once, on any host.

    At the end it prints the broken links with the pages that contain them, and writes all problems to `report`, by
    default DATA_DIR/linkcheck.jsonl. `scrapy crawl` exits with status 3 if a link is broken. Arguments: those of
    BroadSpider, `report`, `external` (no: check only URLs in the scope).
    """

    name = "linkcheck"
    reads = Reads.TREE
    custom_settings = {
        "FRONTIER_MAX_ATTEMPTS": 2,
        "FRONTIER_RETRY_DELAY": 5,
        "POLITENESS_MAX_FAILURES": 2,
        "DUST": False,  # each link is checked as it is written
    }

    def __init__(self, *args: Any, report: str = "", external: str = "yes", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.report = report
        self.external = external.lower() not in ("no", "false", "0")

    def parse(self, response: Response, hops: int = 0, **kwargs: Any) -> Iterator[Any]:
        page = self._with_target(response, self.page(response))
        yield page
        if page.final_url != page.url:
            # redirects within the scope have been followed already: this redirect leaves the scope
            if hops < _MOST_HOPS and self.external:
                yield self._check(page.final_url, response, hops + 1)
        elif self.scope.allows(response.url):
            yield self.links(response)
            yield from self._other_links(response)

    async def closed(self, reason: str) -> None:
        if reason not in ("cannot_start", "no_seeds"):
            with self.making("report"):
                if await asyncio.to_thread(self._report, await self._lost()):
                    self.crawler.stats.set_value("exit_status", 3)

    async def _lost(self) -> dict[str, str]:
        """Returns the reasons of dead letters by URL; raises EngineUnavailable."""
        connection = Session.of(self.crawler).connection

        async def read() -> dict[str, str]:
            return {letter.url: letter.reason async for letter in connection.frontier.dead_letters()}

        return await connection.retry_until_available(read)

    def _report(self, lost: Mapping[str, str]) -> bool:
        """Writes and prints the report; returns whether a link is broken."""
        # slow to import, and every command imports the spiders
        from webcrawl.results.linkcheck import BROKEN, problems, table, write
        from webcrawl.results.variants import Variants
        from webcrawl.stores.stored_pages import StoredPages

        session = Session.of(self.crawler)
        links = self.stored_links()
        path = Path(self.report or session.stores.data_dir / "linkcheck.jsonl")
        with StoredPages(session.stores, session.fetch) as stored:
            variants = Variants(session.canonicalizer, session.dust.simplest_of)
            inside, seeds, crawl = self.scope.allows, self.seed_urls(), session.connection.keys.crawl
            link_problems = list(problems(stored, inside, variants, seeds, lost, crawl, links))
        unfinished = path.with_name(f".{path.name}.unfinished")
        with readable_outside(session.stores.data_dir, path):
            unfinished.write_text("".join(line + "\n" for line in write(link_problems)), encoding="utf-8")
        unfinished.replace(path)
        print(table(link_problems), flush=True)
        return any(problem.problem in BROKEN for problem in link_problems)

    def _other_links(self, response: Response) -> Iterator[Request]:
        """Yields requests for links to other sites and for the resources of the page."""
        answer = answer_of(response)
        document = document_of(answer)
        if answer.status != 200:
            return
        urls = dict.fromkeys(loaded(document))
        if is_html(document.mime_type):
            urls |= {
                reference.url: None
                for reference in references(document.html, base_of(document))
                if reference.use == "opened" and not self.scope.allows(reference.url)
            }
        for url in urls:
            if self.external or self.scope.allows(url):
                yield self._check(url, response)

    def _check(self, url: str, response: Response, hops: int = 0) -> Request:
        meta: dict[str, Any] = {"referrer": response.url}
        if not self.scope.allows(url):
            meta[TRUNCATE] = _START_OF_A_BODY
        return Request(
            url, self.parse, errback=self.errback, meta=meta, cb_kwargs={"hops": hops} if hops else {}
        )

    @staticmethod
    def _with_target(response: Response, page: Page) -> Page:
        """Sets `final_url` of a page to the target of its redirect, which may be out of scope; returns the page."""
        location = response.headers.get("Location")
        if 300 <= response.status < 400 and location:
            target = None
            with suppress(InvalidURL):
                target = resolve_location(location, response.url)
            if target is None:
                page.error = "redirects to an invalid URL"
            else:
                page.final_url = target
        return page
