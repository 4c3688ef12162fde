"""`scrapy crawl mirror`: makes a local copy of a site that a browser can open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scrapy import Request
from scrapy.http import Response

from webcrawl.config.private_files import readable_outside
from webcrawl.crawler.components import Reads
from webcrawl.crawler.pages.from_response import answer_of, document_of
from webcrawl.crawler.session import Session
from webcrawl.documents.values import counted
from webcrawl.results.rewriting import loaded
from webcrawl.spiders.base import BroadSpider

_MOST_HOPS = 3
"""The longest chain of style sheets that load each other."""


class Mirror(BroadSpider):
    """Crawls within its scope, fetches the resources of the pages from any site, and writes all of them as files.

    Arguments: those of BroadSpider, `to` (the folder, by default DATA_DIR/mirror).
    """

    name = "mirror"
    # links in the copy lead to the files of URLs as the pages write them
    custom_settings = {"DUST": False}
    reads = Reads.TREE

    def __init__(self, *args: Any, to: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.to = to

    def parse(self, response: Response, hops: int = 0, **kwargs: Any) -> Iterator[Any]:
        yield self.page(response)
        inside = self.scope.allows(response.url)
        if inside:
            yield self.links(response)
        answer = answer_of(response)
        if answer.status == 200 and (inside or hops <= _MOST_HOPS):
            document = document_of(answer)
            # out of scope, style sheets load further resources, and pages in frames do not
            if inside or document.mime_type == "text/css":
                for url in loaded(document, templates=True):
                    yield self._load(url, response, 0 if inside else hops)

    def _load(self, url: str, response: Response, hops: int) -> Request:
        meta, arguments = {"referrer": response.url}, {"hops": hops + 1}
        return Request(url, self.parse, errback=self.errback, meta=meta, cb_kwargs=arguments)

    @property
    def own_results(self) -> Path:
        return Path(self.to or Session.of(self.crawler).stores.data_dir / "mirror")

    async def closed(self, reason: str) -> None:
        if reason not in ("cannot_start", "no_seeds"):
            with self.making("mirror"):
                await asyncio.to_thread(self._write)

    def _write(self) -> None:
        # slow to import, and every command imports the spiders
        from webcrawl.results.mirror import write_mirror
        from webcrawl.results.variants import Variants
        from webcrawl.stores.stored_pages import StoredPages

        session = Session.of(self.crawler)
        folder = self.own_results
        with (
            StoredPages(session.stores, session.fetch) as stored,
            readable_outside(session.stores.data_dir, folder),
        ):
            variants = Variants(session.canonicalizer, session.dust.simplest_of)
            written = write_mirror(stored, folder, variants, session.connection.keys.crawl)
        left_out = f"; not in the archive: {counted(written.missing, 'page')}" if written.missing else ""
        if written.too_deep:
            left_out += f"; with too many folders or too long a path: {counted(written.too_deep, 'page')}"
        print(f"Wrote {counted(written.files, 'file')} to {folder}{left_out}.", flush=True)
