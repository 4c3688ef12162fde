"""Exports pages in Scrapy's feeds, over the runs of a crawl."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import IO, Any, Self

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter
from scrapy.extensions import feedexport

from webcrawl.config.private_files import readable_outside
from webcrawl.crawler.session import Session
from webcrawl.documents.page import FedText, Page
from webcrawl.documents.values import harmless, plain

logger = logging.getLogger(__name__)

_APPENDABLE = frozenset({"jsonlines", "jsonl", "jl", "pages", "pickle", "marshal"})
"""Formats in which a file can be appended to another file."""
_PAGE_FIELDS = (
    *("url", "status", "fetched_at", "mime_type", "language", "title", "description", "duplicate_of"),
)


class PageCsvExporter(CsvItemExporter):
    """Scrapy's exporter, with dicts and lists as JSON; Scrapy joins lists with commas, which URLs may contain.

    A text that a spreadsheet would run as a formula gets an apostrophe in front.
    """

    def serialize_field(self, field: Mapping[str, Any], name: str, value: Any) -> Any:
        written = super().serialize_field(field, name, value)
        if field.get("structure") and written is not None:
            return json.dumps(written, ensure_ascii=False)
        return harmless(written)


class PageTextExporter(JsonLinesItemExporter):
    """The format `pages`: a JSON line for each page, with its text if TEXT has `feed`; other items as in `jsonl`."""

    def export_item(self, item: Any) -> None:
        if isinstance(item, Page):
            text = item.fed_text or FedText()
            item = {**{name: plain(getattr(item, name)) for name in _PAGE_FIELDS}, **text.columns()}
        super().export_item(item)


class PagesFilter(feedexport.ItemFilter):
    """A filter of feeds that leaves out redirects, HTTP errors, and URLs without a response."""

    def accepts(self, item: Any) -> bool:
        return not isinstance(item, Page) or (item.status is not None and 200 <= item.status < 300)


class FileFeedStorage(feedexport.FileFeedStorage):
    """Scrapy's storage, except that a resumed crawl does not overwrite the items of its earlier runs.

    With `-O`, items of a resumed crawl are appended to the file. Formats that cannot be appended to, such as JSON, and
    batches, whose size is limited, begin a new file, and the earlier file gets another name. A run without items does
    not change a file with items. Scrapy counts feeds by the name of this class, which is therefore that of Scrapy's.
    """

    def __init__(self, uri: str, session: Session, *, feed_options: dict[str, Any] | None = None) -> None:
        super().__init__(uri, feed_options=feed_options)
        options = {} if feed_options is None else feed_options
        self._session = session
        self._is_appendable = options.get("format") in _APPENDABLE and not options.get("batch_item_count")
        if self._has_earlier_items():
            # Scrapy reads this option later, and then opens no storage for a run without items
            options["store_empty"] = False

    @classmethod
    def from_crawler(cls, crawler: Crawler, uri: str, *, feed_options: dict[str, Any] | None = None) -> Self:
        return cls(uri, Session.of(crawler), feed_options=feed_options)

    def open(self, spider: Spider) -> IO[bytes]:
        if self.write_mode == "wb" and self._has_earlier_items():
            path = Path(self.path)
            if self._is_appendable:
                self.write_mode = "ab"
                kept = "its new items are appended to it"
            else:
                kept = f"it is now {path.rename(_free(path)).name}"
            logger.warning("The crawl is resumed, and %s has items of earlier runs: %s", path, kept)
        with readable_outside(self._session.stores.data_dir, Path(self.path)):
            return super().open(spider)

    def _has_earlier_items(self) -> bool:
        """Whether the crawl has URLs of earlier runs and the file exists; False before the crawl is open."""
        path = Path(self.path)
        return self._session.joined.has_urls and path.is_file() and path.stat().st_size > 0


def _free(path: Path) -> Path:
    """Returns a path beside `path` that no file has: items-earlier-1.json."""
    names = (path.with_name(f"{path.stem}-earlier-{number}{path.suffix}") for number in count(1))
    return next(name for name in names if not name.exists())
