"""When the work on a page counts as hung: not while it may wait for stores or the engine."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from webcrawl.config import ReaderConfig
from webcrawl.crawler.pages.hung_pages import HungPages
from webcrawl.crawler.pages.scraper_slot import ScraperSlot
from webcrawl.crawler.scheduling.tasks import Tasks
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.frontier import LeasedURL

URL = "http://a.test/"
TIMEOUT = 60.0


class Scraper:
    """The methods of Scrapy's scraper; a callback waits until it is cancelled."""

    def __init__(self) -> None:
        self.slot = ScraperSlot(1_000_000, Readers(ReaderConfig(processes=1, seconds=20, memory=1 << 29)))

    async def call_spider_async(self, result: Any, request: Request) -> None:
        await asyncio.Event().wait()

    async def handle_spider_output_async(self, output: Any, request: Request, response: Any) -> None:
        """Not called."""

    async def start_itemproc_async(self, item: Any, *, response: Any) -> None:
        """Not called."""


def tasks() -> Tasks:
    """Tasks of a worker that only takes what it is told."""
    worker: Any = SimpleNamespace(tally=SimpleNamespace(), finish_fetch=lambda url, token: None)
    turns: Any = SimpleNamespace()
    return Tasks(worker, turns, SimpleNamespace(), 2, paced=True, judged=True)  # type: ignore[arg-type]


def test_time_in_which_pages_may_wait_does_not_count() -> None:
    asyncio.run(_hang_while_stores_are_away())


async def _hang_while_stores_are_away() -> None:
    ours, waiting, scraper, request = tasks(), True, Scraper(), Request(URL)
    pages = HungPages(ours, lambda: waiting, scraper, TIMEOUT)
    ours.begin(request, LeasedURL(0, "http://a.test", "/", 4, 0, 0, 1, None, None), 1)
    ours.finish_fetch(request)
    done = scraper.slot.add_response_request(Response(URL, request=request), request)
    _, _, scraped = scraper.slot.next_response_request_deferred()
    work = asyncio.create_task(scraper.call_spider_async(None, request))
    await asyncio.sleep(0)
    now = time.monotonic()
    pages._look(now + 1000)
    waiting = False
    pages._look(now + 1000 + TIMEOUT / 2)
    assert not done.called
    pages._look(now + 1001 + TIMEOUT)
    assert done.called
    with pytest.raises(asyncio.CancelledError):
        await work
    # what ends later changes nothing
    scraped.callback(None)
    oldest = ours.oldest()
    assert oldest is not None and oldest[1].settlement is not None
    assert oldest[1].settlement.verdict == "retry"
    assert (
        oldest[1].settlement.reason == "its callback or pipelines took longer than 60 s (PROCESSING_TIMEOUT)"
    )
    pages.stop()


def test_a_look_for_old_pages_reads_no_others() -> None:
    """A worker has thousands of pages in its pipelines, and looks every two seconds."""
    ours, requests = tasks(), [Request(f"{URL}{number}") for number in range(6)]
    for number, request in enumerate(requests):
        ours.begin(request, LeasedURL(number, "http://a.test", f"/{number}", 4, 0, 0, 1, None, None), 1)
    # fetches do not end in the order in which they began
    for request in (requests[4], requests[1], requests[3], requests[0]):
        ours.finish_fetch(request)
    for age, request in enumerate((requests[4], requests[1], requests[3])):
        ours.processing[request].fetched = 100.0 + age
    del ours.processing[requests[0]].fetched  # whoever reads it fails
    assert [request for request, _ in ours.processing_since(101.0)] == [requests[4], requests[1]]
    assert ours.processing_since(99.0) == []
    assert len(ours.processing) == 4
