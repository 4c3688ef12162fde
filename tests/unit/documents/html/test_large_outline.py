"""Large HTML is read in a reader process: the worker neither parses it nor keeps its tree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document
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
async def started(seconds: float = 20.0) -> AsyncIterator[Outlines]:
    limits = ReaderConfig(processes=1, seconds=seconds, memory=1 << 29)
    readers = Readers(limits)
    yield Outlines(limits, readers)
    await readers.close()


def document(markup: str, kind: type[Document] = Unparsed) -> Document:
    return kind(markup.encode(), "text/html", "utf-8", "http://a.example/")


@pytest.mark.parametrize(("facts", "simhash"), [(False, False), (True, False), (True, True)])
async def test_a_large_page_has_the_outline_of_a_small_one(facts: bool, simhash: bool) -> None:
    assert len(LONG) > BYTES
    async with started() as outlines:
        outline = await outlines.read(document(LONG), facts=facts, simhash=simhash)
    expected = make_outline(document(LONG, Document), facts=facts, simhash=simhash, whole_text=True)
    assert outline == expected
    assert len(expected.links.links) == 3_000
    if facts:
        # the worker would have to parse the page for it
        assert expected.facts is not None and expected.facts.main_text
        assert expected.text is not None and "page 2999" in expected.text


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
