"""Large pages wait while many links of others are in memory, and no longer than that."""

from __future__ import annotations

import asyncio

import pytest

from webcrawl.documents.html import large_links
from webcrawl.documents.html.large_links import MOST_LINKS, LargeLinks
from webcrawl.documents.html.links import PageLinks
from webcrawl.documents.html.outline import Outline


def outline(number: int) -> Outline:
    """An outline with so many links."""
    return Outline([], PageLinks(["http://a.example/"] * number, 0, None, "http://a.example/", 0), [])


async def passes(links: LargeLinks, size: int = 1) -> None:
    async with links.room(size):
        pass


async def test_a_page_waits_until_the_links_of_others_are_freed() -> None:
    links = LargeLinks()
    held = [links.hold(outline(MOST_LINKS // 2)) for _ in range(2)]
    assert links.number == MOST_LINKS
    waiting = asyncio.create_task(passes(links, 1_000))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    held.pop()
    await waiting
    assert links.number == MOST_LINKS // 2
    held.pop()
    assert links.number == 0


async def test_a_page_with_any_number_of_links_is_read_when_there_are_no_others() -> None:
    await asyncio.wait_for(passes(LargeLinks(), 1 << 40), 1)


async def test_pages_that_are_being_read_count_by_their_size() -> None:
    """Else all that wait would be read at once when there is room."""
    links, size = LargeLinks(), 30 * MOST_LINKS
    async with links.room(size):
        other = asyncio.create_task(passes(links, size))
        await asyncio.sleep(0.3)
        assert not other.done()
    await other
    assert links.number == 0


async def test_a_page_that_cannot_be_read_counts_no_longer() -> None:
    links = LargeLinks()
    with pytest.raises(OSError, match="gone"):
        async with links.room(1_000_000):
            raise OSError("gone")
    assert links.number == 0


async def test_a_page_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_links, "_MOST_SECONDS", 0.3)
    links = LargeLinks()
    held = links.hold(outline(2 * MOST_LINKS))
    await asyncio.wait_for(passes(links), 10)
    assert held.links.links
