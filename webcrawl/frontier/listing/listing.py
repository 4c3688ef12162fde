"""Every known URL of a crawl: from the engine, then from the table `pages`.

A URL is listed once, in the state in which it was read first. The table is read last, so a URL that is fetched
meanwhile is in the engine's part or has a row.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from webcrawl.documents.values import without_class
from webcrawl.engine.keys import Keys
from webcrawl.frontier.credit import worths
from webcrawl.frontier.listing.engine_urls import EngineURL, EngineURLs, digest_of
from webcrawl.policies.importance import importance
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.selection import of_crawl
from webcrawl.urls.canonical import split

Row = dict[str, Any]

WAITING = ("queued", "waiting", "scheduled", "leased")
"""States of URLs that will be fetched."""
STATES = (*WAITING, "done", "dead", "dropped")

FIELDS: Mapping[str, str] = {
    "url": "string",
    "state": "string",
    "level": "int64",
    "importance": "double",
    "depth": "int32",
    "referrer": "string",
    "in_links": "int64",
    "date": "time",
    "time": "time",
    "attempts": "int32",
    "status": "int32",
    "reason": "string",
}
"""Name -> type, as for exports."""

CountLinks = Callable[[Sequence[str]], Mapping[str, int]]
"""Returns the number of links that lead to each of some URLs."""

_AT_ONCE = 1_000
_COUNTED_AT_ONCE = 50_000
"""The URLs whose links are counted together, because each count reads all link files."""


@dataclass(slots=True)
class URLListing:
    """Lists the URLs of these states.

    Without `metadata`, finished URLs are not listed. Without `count`, `in_links` is None.
    """

    reading: EngineURLs
    metadata: Metadata | None = None
    count: CountLinks | None = None
    states: Collection[str] = STATES
    _met: Met = field(init=False)

    async def rows(self) -> AsyncIterator[list[Row]]:
        """Yields rows with FIELDS, a thousand at a time; the rows of a host follow each other within a state.

        Raises the errors of EngineURLs.read and Metadata.scan.
        """
        at_once, waiting = _AT_ONCE if self.count is None else _COUNTED_AT_ONCE, list[Row]()
        async for some in self._batches():
            waiting += some
            if len(waiting) >= at_once:
                yield self._with_links(waiting)
                waiting = []
        if waiting:
            yield self._with_links(waiting)

    async def _batches(self) -> AsyncIterator[list[Row]]:
        keys, host = self.reading.keys, self.reading.host
        with tempfile.TemporaryFile() as file:
            self._met = Met(keys, file)
            for shard in range(keys.shards) if host is None else [keys.shard(host)]:
                with tempfile.TemporaryFile() as own:
                    urls = await self.reading.read(shard, own)
                    for some in urls.batches():
                        yield await self._in_engine([url for url in some if url.state in self.states])
                self._met.add(shard, urls.digests())
            if self.metadata is not None and "done" in self.states:
                for rows in self._stored(self.metadata, host):
                    yield rows

    async def _in_engine(self, urls: Sequence[EngineURL]) -> list[Row]:
        keys, engine = self.reading.keys, self.reading.engine
        waiting = [url.url for url in urls if url.state in WAITING]
        known = await worths(engine, keys, waiting) if waiting and await self._has_credit() else []
        worth = dict(zip(waiting, known, strict=False))
        rows = []
        for url in urls:
            row = dict.fromkeys(FIELDS, None) | url._asdict()
            row["date"], row["time"] = _moment(row.pop("due")), _moment(url.time)
            row["reason"] = _reason(url.reason)
            if (amount := worth.get(url.url)) is not None:
                row["importance"] = importance(amount)
            rows.append(row)
        return rows

    async def _has_credit(self) -> bool:
        key = f"{self.reading.keys.queue(0)[0]}conf"
        return bool(await self.reading.engine.client.hexists(key, "credit"))

    def _stored(self, metadata: Metadata, host: str | None) -> Iterator[list[Row]]:
        """Yields the rows of this crawl in the table `pages` whose URLs were not listed yet."""
        pages = metadata.scan(host, where=[of_crawl(self.reading.keys.crawl)])
        while some := list(islice(pages, _AT_ONCE)):
            yield [_of_page(row) for row in some if row["url"] not in self._met]

    def _with_links(self, rows: list[Row]) -> list[Row]:
        if self.count is not None:
            links = self.count([row["url"] for row in rows])
            for row in rows:
                row["in_links"] = links.get(row["url"], 0)
        return rows


class Met:
    """The digests of the URLs that were listed, by shard, sorted in a file."""

    def __init__(self, keys: Keys, file: IO[bytes]) -> None:
        self._keys, self._file = keys, file
        self._shards: dict[int, NDArray[np.uint64]] = {}

    def add(self, shard: int, digests: NDArray[np.uint64]) -> None:
        start = self._file.seek(0, 2)
        self._file.write(digests.tobytes())
        self._file.flush()
        if len(digests):
            self._shards[shard] = np.memmap(self._file, np.uint64, "r", start, digests.shape)

    def __contains__(self, url: str) -> bool:
        digests = self._shards.get(self._keys.shard(split(url)[0]))
        if digests is None:
            return False
        digest = np.uint64(digest_of(url))
        index = int(np.searchsorted(digests, digest))
        return index < len(digests) and bool(digests[index] == digest)


def _of_page(page: Mapping[str, Any]) -> Row:
    row = dict.fromkeys(FIELDS, None) | {name: page[name] for name in FIELDS.keys() & page.keys()}
    return row | {
        "state": "done",
        "time": page["tried_at"] or page["fetched_at"],
        "reason": _reason(page["error"]),
    }


def _reason(stored: str | None) -> str | None:
    return None if stored is None else without_class(stored)


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
