"""URLs in the engine, window by window: all of them, each in bounded work, and none twice while nothing moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.frontier.pages import page
from tests.frontier.spilling import numbered, serve, spilling
from webcrawl.errors import StoreError
from webcrawl.frontier import Crawl, Frontier, Settlement
from webcrawl.frontier.credit import queue_again
from webcrawl.frontier.listing.engine_urls import EngineURL
from webcrawl.frontier.listing.open_urls import PARTS, OpenURLs, Window

Frontiers = Callable[..., Frontier]
A, B = "http://a.test", "http://b.test"


async def windows(frontier: Frontier, prefix: str = "", parts: tuple[str, ...] = PARTS) -> list[Window]:
    urls, found, after = OpenURLs(frontier.engine, frontier.keys, prefix, parts), list[Window](), ""
    while after or not found:
        found.append(await urls.window(after))
        after = found[-1].after
    return found


async def read(frontier: Frontier, prefix: str = "", parts: tuple[str, ...] = PARTS) -> list[EngineURL]:
    return [url for window in await windows(frontier, prefix, parts) for url in window.urls]


def urls_of(found: list[EngineURL]) -> list[str]:
    return sorted(one.url for one in found)


@pytest.mark.parametrize(("hosts", "pages"), [(700, 1), (30, 40), (1, 450)])
async def test_windows_have_all_urls_once(frontier_of: Frontiers, hosts: int, pages: int) -> None:
    """One host of many URLs, many hosts of one, and queues of several levels."""
    frontier = frontier_of(shards=4)
    known = [f"http://h{number % hosts}.test/{number:05}" for number in range(hosts * pages)]
    await frontier.add([page(url, level=number % 3) for number, url in enumerate(known)])
    found = await windows(frontier)
    assert sorted(url.url for window in found for url in window.urls) == sorted(known)
    assert max(len(window.urls) for window in found) < 300 and len(found) >= len(known) // 300
    assert urls_of(await read(frontier, "http://h0.test/")) == sorted(
        url for url in known if url.startswith("http://h0.test/")
    )
    assert urls_of(await read(frontier, "http://h0.test/0001")) == sorted(
        url for url in known if url.startswith("http://h0.test/0001")
    )
    assert urls_of(await read(frontier, "http://h2")) == sorted(
        url for url in known if url.startswith("http://h2")
    )
    assert await read(frontier, "https://") == []


async def test_windows_tell_where_each_url_is(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=2)
    await frontier.add([page(f"{A}/{name}") for name in ("leased", "later", "queued")])
    (lease,) = await frontier.lease(1, 2)
    await frontier.acknowledge(lease, [Settlement(lease.urls[1].index, "retry", 60.0)])
    await frontier.schedule([page(f"{A}/dated"), page(f"{B}/dated")], 3600)
    first, second = (url.path for url in lease.urls)
    states = {one.url: one.state for one in await read(frontier)}
    expected = {f"{A}{first}": "leased", f"{A}{second}": "waiting", f"{A}/dated": "scheduled"}
    expected |= {f"{A}/queued": "queued"}
    assert states == expected | {f"{B}/dated": "scheduled"}
    assert {one.url: one.state for one in await read(frontier, f"{A}/")} == expected
    assert urls_of(await read(frontier, parts=("leased",))) == [f"{A}{first}"]


async def test_an_entry_that_was_overtaken_is_no_second_url(frontier_of: Frontiers) -> None:
    frontier = frontier_of(shards=1)
    await Crawl(frontier.engine, frontier.keys, "w1").configure(0, "breadth-first", importance=True)
    await frontier.add([page(f"{A}/{number}", level=5, rise=0) for number in range(250)])
    assert await queue_again(frontier.engine, frontier.keys, [page(f"{A}/7", level=1, rise=4)]) == 1
    found = await read(frontier)
    assert urls_of(found) == sorted(f"{A}/{number}" for number in range(250))
    assert [one.level for one in found if one.url == f"{A}/7"] == [1]


async def test_urls_in_the_store_are_counted_and_not_read(frontier: Frontier, tmp_path: Path) -> None:
    tails = await spilling(frontier, tmp_path)
    await frontier.add([page(url) for url in numbered(300)])
    await serve(tails, frontier)
    spilled = (await frontier.counts()).spilled
    found = await windows(frontier)
    assert spilled > 200 and sum(window.stored for window in found) == spilled
    assert sum(len(window.urls) for window in found) == 300 - spilled


async def test_a_search_that_finds_nothing_ends_and_goes_on(frontier_of: Frontiers) -> None:
    """The only URL that is wanted is the last one of its host."""
    frontier = frontier_of(shards=1)
    await frontier.add([page(f"{A}/{number:05}") for number in range(12_000)])
    found = await windows(frontier, f"{A}/11999")
    assert len(found) > 2 and not found[0].urls and urls_of(found[-1].urls) == [f"{A}/11999"]


@pytest.mark.parametrize(
    "place",
    ["1", "a.b.c.d.", "9.0.0.0.", "0.9.0.0.", "1.0.-1.0.", f"1.0.{2**64}.0.", "1.0.0", "1.0.²..", "...."],
)
async def test_a_place_of_no_window_is_refused(frontier: Frontier, place: str) -> None:
    with pytest.raises(StoreError, match="is no place in a queue: begin at its first page"):
        await OpenURLs(frontier.engine, frontier.keys).window(place)
