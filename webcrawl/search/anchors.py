"""Reads the texts of links to pages from the link store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from webcrawl.config import StoreConfig
from webcrawl.links.arrow import pyarrow
from webcrawl.links.sources import LinkFile, link_files
from webcrawl.stores.archive import spool_of
from webcrawl.stores.objects.registry import open_store

MOST = 20
"""The number of link texts of a page that are indexed: the most frequent texts."""

_COLUMNS = ["from_url", "to_url", "text"]


class LinkTexts:
    """Finds the texts of links to pages; finds no texts if the crawl has no link store."""

    def __init__(self, openers: Sequence[Callable[[], LinkFile]]) -> None:
        self._files = [opener() for opener in openers]

    def to(self, urls: Sequence[str]) -> dict[str, list[str]]:
        """Returns by URL the texts of links on other pages, the most frequent first; `urls` must be sorted."""
        if not self._files or not urls:
            return {}
        arrow = pyarrow()
        wanted = arrow.array(urls, arrow.string())
        counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for file in self._files:
            for group in file.groups:
                if not file.may_overlap(group, "to_url", urls[0], urls[-1]):
                    continue
                rows = file.rows(group, "to_url", wanted)
                if not arrow.compute.any(rows).as_py():
                    continue
                table = file.read(group, _COLUMNS).filter(rows)
                field = arrow.compute.field
                table = table.cast(arrow.schema([(name, arrow.string()) for name in _COLUMNS]))
                table = table.filter(field("text").is_valid() & (field("from_url") != field("to_url")))
                pages_by_text = table.group_by(["to_url", "text"]).aggregate([("from_url", "count_distinct")])
                for to_url, text, pages in zip(
                    *(pages_by_text[name].to_pylist() for name in _ORDER), strict=True
                ):
                    texts = counts[to_url]
                    texts[text] = texts.get(text, 0) + pages
        return {
            url: sorted(texts, key=lambda text, texts=texts: (-texts[text], text))[:MOST]  # type: ignore[misc]
            for url, texts in counts.items()
        }


_ORDER = ("to_url", "text", "from_url_count_distinct")


def stored_anchors(config: StoreConfig) -> LinkTexts:
    """Returns the texts of a crawl's links; raises StoreError for a damaged file, LibraryMissing without pyarrow."""
    store = open_store(config.links, "STORE_URI", config.object_stores, check=False)
    folder = store.folder or spool_of(config, config.links)
    has_links = folder.is_dir() and any(folder.iterdir())
    if not has_links and (store.folder is not None or next(iter(store.objects()), None) is None):
        return LinkTexts([])
    return LinkTexts(link_files(config).openers)
