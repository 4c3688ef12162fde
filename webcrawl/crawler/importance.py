"""Writes the importance of pages into their rows when a crawl is over.

A row has the importance that its page had when it was fetched. Links that are found later still count: if the links of
nearly all pages are known here, the credit flows on along them until it has settled. Otherwise, the credit that has
reached each page is read from the engine.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.frontier.credit import worths
from webcrawl.frontier.link_memory import has_some, number_of, remembered
from webcrawl.opened import Connection
from webcrawl.policies.importance import importance
from webcrawl.urls.canonical import normalize

if TYPE_CHECKING:
    from webcrawl.frontier.link_memory import Numbers
    from webcrawl.policies.settled_credit import Reals
    from webcrawl.stores.chosen_columns import ImportanceColumn

logger = logging.getLogger(__name__)

_LEAST_KNOWN = 0.95
"""The least share of the pages whose links must be known."""
_DIGITS = 4


async def update_importance(connection: Connection, uri: str, links: Path) -> int:
    """Updates the rows of the crawl in the metadata database; returns the number of rows with another importance.

    `links`: the folder of webcrawl.frontier.link_memory. Raises StoreError and EngineUnavailable.
    """
    # imported here because SQLAlchemy is slow to import, and most commands do without it
    from webcrawl.stores.chosen_columns import ImportanceColumn

    column, after, updated, crawl = ImportanceColumn(uri), "", 0, connection.keys.crawl
    try:
        settled = await asyncio.to_thread(_settled, column, crawl, links)
        while rows := await asyncio.to_thread(column.read, crawl, after):
            urls = [normalize(url) for url in rows]
            known = settled.of(urls) if settled else await _credited(connection, urls)
            changed = {
                url: value
                for (url, before), value in zip(rows.items(), known, strict=True)
                if value is not None and value != before
            }
            await asyncio.to_thread(column.write, changed)
            after, updated = next(reversed(rows)), updated + len(changed)
    finally:
        column.close()
    return updated


async def _credited(connection: Connection, urls: Sequence[str]) -> list[float | None]:
    """Returns the importance of pages by the credit that has reached them; None for pages unknown to the engine."""
    worth_of_each = await connection.retry_until_available(
        lambda: worths(connection.engine, connection.keys, urls)
    )
    return [None if worth is None else importance(worth) for worth in worth_of_each]


class _Settled(NamedTuple):
    """The importance of the pages with these numbers, sorted, when all credit has settled."""

    pages: Numbers
    values: Reals

    def of(self, urls: Sequence[str]) -> list[float | None]:
        rows = self.pages.searchsorted([number_of(url) for url in urls])
        return [round(value, _DIGITS) for value in self.values[rows].tolist()]


def _settled(column: ImportanceColumn, crawl: str, folder: Path) -> _Settled | None:
    """Returns the importance of all pages of a crawl, or None if the links of too few are known."""
    if not has_some(folder):
        return None
    # NumPy is slow to import
    import numpy as np

    from webcrawl.policies.settled_credit import settled

    numbers, after = array("I"), ""
    while rows := column.read(crawl, after):
        numbers.extend(number_of(normalize(url)) for url in rows)
        after = next(reversed(rows))
    pages = np.unique(np.frombuffer(numbers, np.uint32))
    try:
        links = remembered(folder, pages)
    except OSError as error:
        logger.warning("%s cannot be read: %s. The importance of pages is less exact.", folder, error)
        return None
    if links is None or links.known < _LEAST_KNOWN * len(pages):
        return None
    return _Settled(pages, settled(links.first, links.targets))
