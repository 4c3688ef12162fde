"""Lists and changes the URLs of a crawl, also while it goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.frontier.pages import hash_of
from webcrawl.engine.scripts import Call
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.listing.change_files import URLChange
from webcrawl.frontier.listing.changes import Changes
from webcrawl.frontier.listing.engine_urls import EngineURL, EngineURLs
from webcrawl.frontier.listing.listing import URLListing
from webcrawl.frontier.listing.setting import URLChanger
from webcrawl.frontier.tails import Tails

Goes = Callable[[], Awaitable[None]]
"""The crawl goes on for a moment."""

SETTABLE = ("queued", "waiting", "scheduled")


async def _stays() -> None:
    return None


@dataclass(slots=True)
class GoingOn(EngineURLs):
    """The crawl goes on between the pieces that are read."""

    goes: Goes = _stays

    async def _urls(self, shard: int) -> AsyncIterator[list[EngineURL]]:
        async for urls in EngineURLs._urls(self, shard):
            yield urls
            await self.goes()


@dataclass(slots=True)
class SettingMeanwhile(URLChanger):
    """The crawl goes on before each step that changes something, also between reading and changing."""

    goes: Goes = _stays

    async def _run_all(self, calls: Sequence[Call]) -> list[Any]:
        await self.goes()
        return await URLChanger._run_all(self, calls)


class Rows:
    """Stands for the table `pages`: a row for each URL of a set, read when its turn comes."""

    def __init__(self, urls: Iterable[str]) -> None:
        self._urls = urls

    def scan(self, host: str | None = None, **_: object) -> Iterable[dict[str, Any]]:
        for url in sorted(self._urls):
            if host is None or url.startswith(f"{host}/"):
                yield {"url": url, "tried_at": None, "fetched_at": None, "error": None, "depth": 1}


def tails_of(frontier: Frontier, root: Path | None = None) -> Tails:
    record = Crawl(frontier.engine, frontier.keys, frontier.worker)
    return Tails(frontier.engine, frontier.keys, record, root.as_uri() if root else None)


async def listed(
    frontier: Frontier,
    root: Path | None = None,
    *,
    host: str | None = None,
    rows: Iterable[str] = (),
    goes: Goes = _stays,
) -> list[dict[str, Any]]:
    """Every known URL of a crawl."""
    tails = tails_of(frontier, root)
    reading = GoingOn(frontier.engine, frontier.keys, tails, "reader", host, goes=goes)
    return [row async for batch in URLListing(reading, Rows(rows)).rows() for row in batch]  # type: ignore[arg-type]


def change(url: str, *, level: int | None = None, due: int | None = None, drop: bool = False) -> URLChange:
    host, _, path = url.rpartition("/")
    return URLChange(f"the row of {url}", host, f"/{path}", level, due, drop)


async def set_urls(
    frontier: Frontier, changes: Iterable[URLChange], root: Path | None = None, goes: Goes = _stays
) -> dict[str, int]:
    """Make changes; returns how many had each outcome."""
    with closing(Changes(frontier.keys.shard)) as found:
        found.add(changes)
        tails = tails_of(frontier, root)
        await SettingMeanwhile(frontier.engine, frontier.keys, tails, found, hash_of, goes=goes).run()
        return {name: number for name, number in found.counts().items() if number}
