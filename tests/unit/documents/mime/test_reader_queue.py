"""The turns of reader processes are shared out by site."""

from __future__ import annotations

import asyncio

import pytest

from webcrawl.config import ReaderConfig
from webcrawl.documents.document import Document
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.documents.mime.reader_queue import ReaderQueue, site_of

COSTLY, OTHER = "http://a.costly.example/{}", "http://other.example/{}"


async def test_a_free_process_goes_to_the_site_that_has_used_processes_least() -> None:
    queue, order, leave = ReaderQueue(1), list[str](), asyncio.Event()

    async def read(url: str) -> None:
        async with queue.turn(url):
            order.append(url)
            await leave.wait()

    first = asyncio.create_task(read(COSTLY.format(1)))
    await asyncio.sleep(0.05)
    names = [COSTLY.format(2), "http://b.costly.example/3", OTHER.format(1), OTHER.format(2)]
    rest = [asyncio.create_task(read(name)) for name in names]
    await asyncio.sleep(0)
    # a site is a registered domain, and no other site waits for its documents to be fetched
    room = [queue.has_room(url) for url in ("http://c.costly.example", "http://third.example")]
    assert room == [False, True]
    leave.set()
    await asyncio.gather(first, *rest)
    assert order == [COSTLY.format(1), OTHER.format(1), OTHER.format(2), *names[:2]]
    assert queue.has_room("http://c.costly.example")


@pytest.mark.parametrize("granted", [False, True])
async def test_a_cancelled_document_leaves_its_turn_to_others(granted: bool) -> None:
    queue = ReaderQueue(1)
    async with queue.turn(COSTLY):
        waiting = asyncio.create_task(queue.turn(COSTLY).__aenter__())
        await asyncio.sleep(0)
        if not granted:
            waiting.cancel()
            await asyncio.wait([waiting])
    # a turn that is granted and not yet taken
    waiting.cancel()
    await asyncio.wait([waiting])
    async with asyncio.timeout(60), queue.turn(OTHER):
        assert queue.has_room(COSTLY)


def test_a_document_whose_links_are_being_added_counts_against_the_room_of_its_site() -> None:
    """Scrapy's limit of bytes that wait leaves out `documents`, so that other sites do not wait."""
    readers = Readers(ReaderConfig(processes=1, seconds=20, memory=1 << 29))
    first, second = [Document(b"", "text/html", None, COSTLY.format(number)) for number in (1, 2)]
    with readers.aside(first):
        assert readers.queue.has_room(COSTLY)
        with readers.aside(second):
            assert readers.documents.keys() == {first, second}
            assert not readers.queue.has_room(COSTLY) and readers.queue.has_room(OTHER)
    assert not readers.documents and readers.queue.has_room(COSTLY)


def test_a_site_is_the_registered_domain_of_a_url() -> None:
    assert site_of("HTTP://Www.Example.co.uk:80/a") == "example.co.uk"
    assert site_of("http://127.0.0.1:8080/") == "127.0.0.1"
    assert site_of("no url") == "no url"


def test_a_document_counts_as_aside_until_all_reasons_are_over() -> None:
    """The pipelines process a page while its links are being added."""
    readers = Readers(ReaderConfig(processes=1, seconds=20, memory=1 << 29))
    document = Document(b"", "text/html", None, COSTLY.format(1))
    with readers.aside(document):
        with readers.unused(document):
            assert document in readers.documents
        assert document in readers.documents
    assert not readers.documents
