"""The pipelines and middlewares that replace those of a crawl while its pages are read again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

from webcrawl.config import read
from webcrawl.crawler.components import Reads
from webcrawl.crawler.errors import RedirectStored
from webcrawl.crawler.pages.from_response import forget_tree, outline_of
from webcrawl.crawler.pages.response_links import directives_of
from webcrawl.crawler.responses import content_type, received_headers, says_nosniff
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.document import Document
from webcrawl.documents.html.links import PageLinks, PageResources
from webcrawl.documents.mime.sniff import SNIFF_BYTES, mime_type_of
from webcrawl.documents.page import Page
from webcrawl.documents.payload import STORED_LINKS, STORED_TEXT, StoredPayload, StoredRows
from webcrawl.links.entry import microseconds
from webcrawl.pipelines.near_duplicates import simhash_of
from webcrawl.reparse.archived import First
from webcrawl.reparse.plan import Reading
from webcrawl.reparse.scheduler import scheduler_of
from webcrawl.stores.group_commit import Batches, write_apart
from webcrawl.stores.locations import Row
from webcrawl.stores.reread_rows import READ_FIELDS, RereadRows


class CopiesPipeline(SessionComponent):
    """Replaces `ChecksumPipeline`: a page that was archived as a copy is read only if the crawl had to read it.

    Exact copies keep their marks, because payloads do not change. The pipeline also sets the fields of the page that
    its row keeps from the fetch (location in the archive, importance, soft 404), the ID of its record, and the time of
    the new reading.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._obeys = read(crawler.settings, "ROBOTS_META_OBEY")

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or (archived := scheduler_of(self._crawler).page(item.url)) is None:
            return item
        row = archived.row
        item.warc_file, item.warc_offset, item.warc_length = (
            row[name] for name in ("warc_file", "warc_offset", "warc_length")
        )
        item.archived.record_id, item.archived.read_at = archived.record_id, datetime.now(UTC)
        item.importance, item.soft_404 = row["importance"], bool(row["soft_404"])
        remarks = (row["details"] or {}).get("remarks")
        kept = remarks if isinstance(remarks, list) else ()
        item.archived.remarks = tuple(dict.fromkeys([*kept, *item.archived.remarks]))
        item.archived.payload = StoredPayload.of_details(row["details"])
        item.archived.stored_text, item.archived.stored_links = (
            StoredRows.of_details(row["details"], name) for name in (STORED_TEXT, STORED_LINKS)
        )
        if row["duplicate_kind"] == "exact":
            item.duplicate_of, item.duplicate_kind = row["duplicate_of"], "exact"
            # a copy that could not be read is a copy of a page that could not be read either
            is_unread = row["processing_error"] is not None
            if archived.first is not None and item.document is not None and not is_unread:
                first = self._reading(archived.first, item.document)
                item.reading.was_read = first in (item.read_as, item.read_as.removeprefix("-"))
        return item

    def _reading(self, first: First, document: Document) -> str:
        """Returns how the first page with the payload of a copy was read; see `Page.read_as`."""
        headers = received_headers(first.fields)
        start, nosniff = document.start(SNIFF_BYTES), says_nosniff(headers)
        mime_type = mime_type_of(content_type(headers), start, first.url, nosniff=nosniff)
        if mime_type == "text/html":
            return ""
        agent = self._session.robots_agents.of(first.url)
        nofollow = self._obeys and directives_of(headers, (), agent).nofollow
        return f"{'-' if nofollow else ''}{mime_type}"


class SimhashesPipeline(SessionComponent):
    """Replaces `NearDuplicatesPipeline`: computes the SimHashes of the same pages, and keeps the marks of the rows.

    Near-duplicates are marked again later, when all texts are known.
    """

    reads = Reads.SIMHASH

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.status != 200 or item.duplicate_kind == "exact":
            return item
        if item.truncated not in (None, "length"):  # incomplete: another fetch may get more
            return item
        item.simhash = item.reading.text_hash if item.reading.text_hash is not None else simhash_of(item)
        archived = scheduler_of(self._crawler).page(item.url)
        if archived is not None and archived.row["duplicate_kind"] == "near":
            item.duplicate_of, item.duplicate_kind = archived.row["duplicate_of"], "near"
        return item


class RowsPipeline(SessionComponent):
    """Replaces `MetadataPipeline`: changes the fields that reading determines, and frees the body of the page.

    A row that describes a later fetch by now stays unchanged.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._rows = RereadRows(session.stores.metadata, session.connection.keys.crawl)
        self._batches: Batches[dict[str, Any], bool] = Batches(partial(write_apart, write=self._write))

    async def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page):
            return item
        scheduler = scheduler_of(self._crawler)
        if (archived := scheduler.page(item.url)) is None:
            # the spider made a page of another response, which only a crawl could archive
            scheduler.tasks.count("other_pages")
        else:
            row = _row(item, archived.row)
            written = await self._session.stored("metadata", item.url, lambda: self._batches.put(row))
            scheduler.tasks.count("rows" if written else "fetched_meanwhile")
            if written and item.archived.read_at is not None:
                scheduler.readings[item.url] = Reading(
                    microseconds(item.fetched_at), microseconds(item.archived.read_at)
                )
        item.release()
        return item

    async def close_spider(self) -> None:
        await self._batches.close(self._rows.close)

    def _write(self, rows: Sequence[dict[str, Any]]) -> list[bool]:
        changed = [row["url"] for row in rows if row["simhash"] != row["simhash_before"]]
        if changed:
            scheduler_of(self._crawler).changed.add(changed)
        return list(self._rows.rewrite(rows))


def _row(page: Page, before: Row) -> dict[str, Any]:
    read = page.row()
    row = {name: read[name] for name in READ_FIELDS}
    # if a later attempt failed, its error stays in the column
    is_latest = before["tried_at"] in (None, before["fetched_at"])
    fetch = {name: before[name] for name in ("url", "fetched_at", "warc_file", "warc_offset")}
    error = page.error if is_latest else before["error"]
    return row | fetch | {"error": error, "simhash_before": before["simhash"]}


class LinksMiddleware(SessionComponent):
    """Replaces `OutlinksMiddleware`: counts links and requests, and removes them from the output of a spider.

    The spider's `start` does not run.
    """

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        # `start` is not iterated, so it never begins
        no_requests: tuple[Any, ...] = ()
        for request in no_requests:
            yield request

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        count = scheduler_of(self._crawler).tasks.count
        async for output in result:
            if isinstance(output, Request):
                count("requests")
            elif isinstance(output, PageLinks):
                count("links", len(output.links))
            elif not isinstance(output, PageResources):
                yield output
        # otherwise each page that waits for the pipelines would keep a tree in memory
        if outline_of(response) or not self._session.components.keep_trees:
            forget_tree(response)


class RedirectsMiddleware(SessionComponent):
    """Sends a redirect that the crawl followed through the pipelines; the target of the redirect is a separate page.

    The spider gets the redirects that the crawl did not follow.
    """

    async def process_response(self, request: Request, response: Response) -> Response:
        archived = scheduler_of(self._crawler).requested(request)
        spider: Any = self._crawler.spider
        if archived is None or not 300 <= response.status < 400 or not hasattr(spider, "page"):
            return response
        if archived.row["final_url"] == archived.row["url"]:
            return response
        response.request = request
        page: Page = spider.page(response)
        page.final_url = archived.row["final_url"]
        await self._crawler.engine.scraper.start_itemproc_async(page, response=response)
        raise RedirectStored(f"{request.url} is a redirect")
