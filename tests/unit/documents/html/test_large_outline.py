"""Large HTML is read in another process, and slow pages in one of their own; the worker never parses it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product

import pytest

from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document
from webcrawl.documents.html import large_outline
from webcrawl.documents.html.large_outline import Allowance
from webcrawl.documents.html.outline import make_outline, unpack
from webcrawl.documents.html.outline_process import Outlines
from webcrawl.documents.html.timed_parse import BYTES
from webcrawl.documents.markup_bounds import MAX_ELEMENTS
from webcrawl.documents.mime.facts import pack_error
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.errors import ResourcesExhausted, UnreadableDocument

MENU = "".join(f"<li><a href=/{number}>page {number}</a>" for number in range(3_000))
LONG = (
    f"<title>t</title><ul>{MENU}</ul><article>" + "<p>Words of a page that is long. And longer.</p>" * 12_000
)


class Unparsed(Document):
    """A document that must not be parsed in this process."""

    def parsed(self) -> None:  # type: ignore[override]
        raise AssertionError("parsed in the worker")


@asynccontextmanager
async def started(seconds: float = 20.0, *, text_links: bool = False) -> AsyncIterator[Outlines]:
    limits = ReaderConfig(processes=1, seconds=seconds, memory=1 << 29)
    readers = Readers(limits)
    outlines = Outlines(limits, readers, text_links=text_links)
    yield outlines
    await outlines.close()
    await readers.close()


def document(markup: str, kind: type[Document] = Unparsed) -> Document:
    return kind(markup.encode(), "text/html", "utf-8", "http://a.example/")


async def test_a_large_page_has_the_outline_of_a_small_one() -> None:
    assert len(LONG) > BYTES
    parsed = document(LONG, Document)
    async with started() as outlines:
        for texts, (facts, simhash) in product([False, True], [(False, False), (True, False), (True, True)]):
            wanted = {"facts": facts, "simhash": simhash, "texts": texts}
            outline = await outlines.read(document(LONG), **wanted)
            expected = make_outline(parsed, **wanted, whole_text=True)
            assert outline == expected, wanted
            assert len(expected.links.links) == 3_000
            assert expected.links.texts.get("http://a.example/7") == ("page 7" if texts else None)
            if facts:
                # the worker would have to parse the page for it
                assert expected.facts is not None and expected.facts.main_text
                assert expected.text is not None and "page 2999" in expected.text


BUSY = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"


@pytest.mark.slow
async def test_a_page_of_4_mb_is_read_while_other_processes_want_the_processors() -> None:
    """Limits are of processor time, or leave out the time in which a process waits for a processor."""
    markup = (
        LONG
        + "<p>More words of a page that is longer than others. And more.</p>" * 54_000
        + "<p>The last words.</p>"
    )
    assert 3_900_000 < len(markup) < 4_200_000
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(8 * (os.cpu_count() or 1))]
    try:
        async with started(ReaderConfig(processes=1).seconds) as outlines:
            outline = await outlines.read(document(markup), facts=True, simhash=True)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert outline is not None and outline.facts is not None and outline.simhash is not None
    assert outline.text is not None and outline.text.endswith("The last words.")


@pytest.mark.parametrize("most_shared", [BYTES, 1 << 22])
async def test_a_large_page_has_the_addresses_in_its_text(
    most_shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the process of all pages, and in a reader process."""
    monkeypatch.setattr(large_outline, "MOST_SHARED_BYTES", most_shared)
    markup = f"{LONG}<p>See http://b.example/written."
    async with started(text_links=True) as outlines:
        for facts in (False, True):
            wanted = {"facts": facts, "simhash": facts}
            outline = await outlines.read(document(markup), **wanted)
            wanted |= {"whole_text": facts, "text_links": True}
            assert outline is not None and outline == make_outline(document(markup, Document), **wanted)
            assert outline.links.links[-1] == "http://b.example/written"
            assert (outline.facts is not None) is facts


async def test_a_page_has_a_bounded_number_of_elements() -> None:
    many = "".join(f"<a href=/{number}>" for number in range(MAX_ELEMENTS + 5_000))
    async with started() as outlines:
        outline = await outlines.read(document(many), facts=False, simhash=False)
    assert outline is not None
    assert MAX_ELEMENTS - 10 < len(outline.links.links) <= MAX_ELEMENTS + 10


async def test_a_page_that_takes_too_long_is_unreadable() -> None:
    async with started(seconds=0.3) as outlines:
        with pytest.raises(UnreadableDocument, match=r"takes longer than 0\.3 s"):
            await outlines.read(document("<div><!--</div>-->" * 40_000), facts=False, simhash=False)


def test_a_lack_of_memory_is_told() -> None:
    answer = pack_error("takes more memory than allowed", exhausted=True)
    with pytest.raises(ResourcesExhausted, match="takes more memory than allowed"):
        unpack(answer, document(""))


def pid_of(outlines: Outlines) -> int | None:
    process = outlines._process
    return process._process.pid if process and process._process else None


async def test_a_quick_large_page_shares_the_process_of_small_ones() -> None:
    async with started() as outlines:
        await outlines.read(document(LONG), facts=True, simhash=True)
        assert not outlines._readers._idle  # type: ignore[union-attr]
        assert pid_of(outlines) is not None


async def test_a_slow_large_page_leaves_the_process_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_outline, "SECONDS", 0.01)
    async with started() as outlines:
        slow = asyncio.create_task(outlines.read(document(LONG), facts=True, simhash=True))
        await asyncio.sleep(0)
        small = document("<title>small</title>")
        outline = await outlines.read(small, facts=True, simhash=False)
        assert outline is not None and outline.facts is not None and outline.facts.title == "small"
        assert await slow == make_outline(document(LONG, Document), facts=True, simhash=True, whole_text=True)
        assert len(outlines._readers._idle) == 1  # type: ignore[union-attr]


async def test_a_page_of_more_than_the_shared_size_is_read_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_outline, "MOST_SHARED_BYTES", BYTES)
    async with started() as outlines:
        assert await outlines.read(document(LONG), facts=False, simhash=False) is not None
        assert pid_of(outlines) is None


def test_slow_large_pages_use_up_their_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    allowance = Allowance()
    for _ in range(2):
        assert allowance.is_enough()
        allowance.spend(0.0, restart=True)
    assert not allowance.is_enough()
    now += 29
    assert not allowance.is_enough()
    now += 2
    assert allowance.is_enough()
    now += 10_000
    assert allowance.is_enough()
    allowance.spend(1.0)
    assert allowance.is_enough()
    allowance.spend(1.0)
    assert not allowance.is_enough()
