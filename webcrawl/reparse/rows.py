"""Writes the fields that were read again into the rows of the pages."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import Crawler

from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.page import Page
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.links.entry import microseconds
from webcrawl.reparse.plan import Reading
from webcrawl.reparse.scheduler import scheduler_of
from webcrawl.stores.group_commit import Batches
from webcrawl.stores.locations import Row
from webcrawl.stores.reread_rows import READ_FIELDS, RereadRows


class RowsPipeline(SessionComponent):
    """Replaces `MetadataPipeline`: changes the fields that reading determines, and frees the body of the page.

    A row that describes a later fetch by now stays unchanged.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._rows = RereadRows(session.stores.metadata, session.connection.keys.crawl)
        self._batches: Batches[dict[str, Any], bool] = Batches(self._write)

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

    def _write(self, rows: list[dict[str, Any]]) -> list[bool | Exception]:
        changed = [row["url"] for row in rows if row["simhash"] != row["simhash_before"]]
        try:
            if changed:
                scheduler_of(self._crawler).changed.add(changed)
            return list(self._rows.rewrite(rows))
        except StoreUnavailable:
            raise
        except StoreError as error:
            if len(rows) == 1:
                return [error]
            return [result for row in rows for result in self._write([row])]


def _row(page: Page, before: Row) -> dict[str, Any]:
    read = page.row()
    row = {name: read[name] for name in READ_FIELDS}
    # if a later attempt failed, its error stays in the column
    is_latest = before["tried_at"] in (None, before["fetched_at"])
    fetch = {name: before[name] for name in ("url", "fetched_at", "warc_file", "warc_offset")}
    error = page.error if is_latest else before["error"]
    return row | fetch | {"error": error, "simhash_before": before["simhash"]}
