"""Large pages wait while many links of others are in memory, and no longer than that."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html.large_outline import elements_of
from webcrawl.documents.html.links import PageLinks
from webcrawl.documents.html.outline import Outline
from webcrawl.documents.mime import large_links
from webcrawl.documents.mime.facts import MAX_LINKS, Link
from webcrawl.documents.mime.large_links import BYTES, MOST_LINKS, LargeLinks


def outline(number: int) -> Outline:
    """An outline with so many links."""
    return Outline([], PageLinks(["http://a.example/"] * number, 0, None, "http://a.example/", 0), [])


def hold(links: LargeLinks, number: int) -> Outline:
    return links.hold(outline(number), number)


async def passes(links: LargeLinks, size: int = 1) -> None:
    async with links.room(links.page(size)):
        pass


async def test_a_page_waits_until_the_memory_of_others_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given = 0

    def give_back() -> None:
        nonlocal given
        given += 1

    monkeypatch.setattr(large_links, "give_back_memory", give_back)
    monkeypatch.setattr(large_links, "_GIVE_BACK_SECONDS", 0.3)
    links = LargeLinks()
    held = [hold(links, MOST_LINKS // 2) for _ in range(2)]
    assert links.number == MOST_LINKS
    waiting = asyncio.create_task(passes(links, 1_000))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    held.pop()
    assert links.number == MOST_LINKS  # the C library keeps the memory
    await waiting
    assert (links.number, given) == (MOST_LINKS // 2, 1)
    held.pop()
    await passes(links, 1 << 40)
    assert (links.number, given) == (0, 2)


async def test_a_page_with_any_number_of_links_is_read_when_there_are_no_others() -> None:
    await asyncio.wait_for(passes(LargeLinks(), 1 << 40), 60)


async def test_pages_that_are_being_read_count_by_their_size() -> None:
    """Else all that wait would be read at once when there is room."""
    links, size = LargeLinks(), 30 * MOST_LINKS
    async with links.room(links.page(size)):
        other = asyncio.create_task(passes(links, size))
        await asyncio.sleep(0.3)
        assert not other.done()
    await other
    assert links.number == 0


async def test_pages_that_are_being_read_count_by_their_tags() -> None:
    """A link may take 16 bytes."""
    links, markup = LargeLinks(), b"<a href=1>a</a>" * 40 + b"<br>" * 120
    tags = elements_of(Document(markup, "text/html", "utf-8", "http://a.example/"))
    assert (tags, links.page(len(markup)), links.page(len(markup), tags)) == (100, len(markup) // 40, 100)


async def test_a_page_that_cannot_be_read_counts_no_longer() -> None:
    links = LargeLinks()
    with pytest.raises(OSError, match="gone"):
        async with links.room(25_000):
            raise OSError("gone")
    assert links.number == 0


async def test_a_page_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_links, "_MOST_SECONDS", 0.3)
    links = LargeLinks()
    held = hold(links, 2 * MOST_LINKS)
    await asyncio.wait_for(passes(links), 60)
    assert held.links.links


@cases(
    ("size", "mime_type", "expected"),
    [
        (BYTES, "application/xml", 0),
        (4_000_000, "application/xml", 2 * MAX_LINKS + 40_000),
        (800_000, "application/rss+xml", 2 * 20_000 + 8_000),
        (BYTES, "application/gzip", 2 * MAX_LINKS),
        (1_000, "application/gzip", 0),
        (50_000_000, "application/pdf", 0),
    ],
)
def test_documents_wait_by_the_links_that_they_may_list(size: int, mime_type: str, expected: int) -> None:
    assert LargeLinks().document(size, mime_type) == expected


async def test_the_links_of_a_sitemap_count_by_their_length_until_they_are_freed() -> None:
    links = LargeLinks()
    found = links.hold_links([Link("http://a.example/"), Link("http://a.example/" + "a" * 400)])
    assert found[0].url == "http://a.example/" and links.number == 2 * 2 + 4
    kept = found
    del found
    assert links.number == 8
    del kept
    assert links.number == 0


async def test_only_one_document_at_a_time_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all that wait would be let in at once when the time of the first is over."""
    now = [0.0]
    monkeypatch.setattr(large_links, "time", SimpleNamespace(monotonic=lambda: now[0]))
    links = LargeLinks()
    held = hold(links, 2 * MOST_LINKS)
    waiting = [asyncio.create_task(passes(links)) for _ in range(2)]
    for seconds, passed in ((0.0, 0), (30.0, 1), (60.0, 2)):
        now[0] = seconds
        await asyncio.sleep(0.3)
        while sum(task.done() for task in waiting) < passed:
            await asyncio.sleep(0.05)
        assert sum(task.done() for task in waiting) == passed
    assert held.links.links
