"""Large HTML is parsed once, in another thread, with a time limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.unit.documents.html import quick_read
from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document, Parsed
from webcrawl.documents.html import timed_parse
from webcrawl.documents.html.facts import describe
from webcrawl.documents.html.timed_parse import BYTES, BlockingTimedParser, TimedParser, is_large, read
from webcrawl.documents.mime.facts import Facts
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.errors import UnreadableDocument

# takes the parser a second, and no element count predicts it
NESTED = "<div><!--</div>-->" * 25_000
LONG = "<title>t</title><a href=/found>x</a>" + "<p>Words of a page that is long. And longer." * (BYTES // 40)
LATE = "takes the parser more than 3 seconds"


@pytest.fixture(autouse=True)
def no_parser_goes_on() -> Iterator[None]:
    """Waits for threads that a test has left behind: tracemalloc, in another test, may crash beside them."""
    yield
    for thread in threading.enumerate():
        if thread.name == "parser":
            thread.join(60)


class Counted(Document):
    """A document that records the threads in which it was parsed."""

    def __init__(self, markup: str) -> None:
        super().__init__(markup.encode(), "text/html", "utf-8", "http://a.example/")
        self.threads: list[int] = []

    def parsed(self) -> Parsed:
        self.threads.append(threading.get_ident())
        return super().parsed()


class Held(Counted):
    """A document whose parser ends late, and not before the test allows it."""

    def __init__(self, markup: str) -> None:
        super().__init__(markup)
        self.release = threading.Event()

    def parsed(self) -> Parsed:
        is_tried = self.refused is None
        parsed = super().parsed()
        if is_tried:
            self.release.wait()
        return parsed


class RecordingReaders(Readers):
    """Readers that record the documents they read, and have less time."""

    def __init__(self) -> None:
        super().__init__(ReaderConfig(processes=1, seconds=100, memory=1 << 30))
        self.recorded: list[Document] = []

    async def read(self, reader: str, document: Document) -> Facts:
        assert reader == "webcrawl.documents.html.timed_parse:read"
        self.recorded.append(document)
        return await super().read("tests.unit.documents.html.quick_read:read", document)


async def test_page_is_parsed_once_in_another_thread() -> None:
    readers, document = RecordingReaders(), Counted(LONG)
    await TimedParser(readers).parse(document)
    assert document.refused is None and describe(document).title == "t"
    assert ("a", {"href": "/found"}) in document.elements
    assert len(document.threads) == 1 and document.threads[0] != threading.get_ident()
    assert not readers.recorded


async def test_other_pages_are_tried_by_a_reader_during_a_slow_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_parse, "SECONDS", quick_read.SECONDS)
    readers = RecordingReaders()
    trial = TimedParser(readers)
    first, second, good = Held(NESTED), Counted(NESTED), Counted(LONG)
    waiting = Counted(LONG)
    await asyncio.gather(trial.parse(first), trial.parse(waiting))
    assert first.refused == LATE and first.elements == []
    await asyncio.gather(trial.parse(second), trial.parse(good))
    first.release.set()
    await readers.close()
    assert second.refused == LATE and not second.threads
    for one in (waiting, good):
        assert one.refused is None and describe(one).title == "t" and len(one.threads) == 1
    assert readers.recorded == [waiting, second, good]


def test_blocking_parser_continues_after_a_slow_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_parse, "SECONDS", quick_read.SECONDS)
    slow = NESTED + " " * BYTES
    trial, nested, good = BlockingTimedParser(), Counted(slow), Counted(LONG)
    small = Counted("<p>")
    trial.parse(nested)
    trial.parse(small)
    assert nested.refused == LATE and not small.threads
    trial.parse(good)
    assert good.refused is None and len(good.threads) == 1 and describe(good).title == "t"
    with pytest.raises(UnreadableDocument, match=LATE):
        read(Counted(slow))


async def test_parse_error_refuses_the_document() -> None:
    class Broken(Counted):
        def _markup(self) -> bytes:
            raise MemoryError("no more")

    document = Broken(LONG)
    await TimedParser(RecordingReaders()).parse(document)
    assert document.refused == "MemoryError: no more" and document.elements == []


def test_only_large_html_is_timed() -> None:
    sizes = {BYTES: False, BYTES + 1: True}
    assert {size: is_large(Counted("x" * size)) for size in sizes} == sizes
    assert not is_large(Document(b"x" * (BYTES + 1), "text/plain", None, "http://a.example/"))
