"""When the work on a page counts as hung: not while it may wait for stores or the engine. Work that is cancelled."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.logformatter import LogFormatter
from scrapy.signals import item_error
from twisted.python.failure import Failure

from webcrawl.config import ReaderConfig
from webcrawl.crawler.pages.hung_pages import HungPages
from webcrawl.crawler.pages.scraper_slot import ScraperSlot
from webcrawl.crawler.scheduling.tasks import Tasks
from webcrawl.documents.mime.reader_processes import Readers
from webcrawl.errors import WorkCancelled
from webcrawl.frontier import LeasedURL

URL = "http://a.test/"
TIMEOUT = 60.0


class Scraper:
    """The methods of Scrapy's scraper; a callback waits until it is cancelled, an item a moment."""

    concurrent_items = 2

    def __init__(self) -> None:
        self.crawled: list[Request] = []
        self.errors: list[BaseException | None] = []
        self.items: list[Any] = []
        self.at_once = self.most_at_once = 0
        self.crawler = SimpleNamespace(engine=SimpleNamespace(crawl=self.crawled.append))
        self.slot = ScraperSlot(1_000_000, Readers(ReaderConfig(processes=1, seconds=20, memory=1 << 29)))

    async def call_spider_async(self, result: Any, request: Request) -> None:
        await asyncio.Event().wait()

    async def handle_spider_output_async(self, output: Any, request: Request, response: Any) -> None:
        """Not called."""

    async def start_itemproc_async(self, item: Any, *, response: Any) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.001)
        self.items.append(item)
        self.at_once -= 1

    def handle_spider_error(self, failure: Failure, request: Request, response: Any) -> None:
        self.errors.append(failure.value)


def tasks() -> Tasks:
    """Tasks of a worker that only takes what it is told."""
    worker: Any = SimpleNamespace(
        tally=SimpleNamespace(counters=Counter()), finish_fetch=lambda url, token: None
    )
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
    assert oldest[1].settlement.verdict == "retry" and ours.worker.tally.counters["retried"] == 1
    assert (
        oldest[1].settlement.reason == "its callback or pipelines took longer than 60 s (PROCESSING_TIMEOUT)"
    )
    pages.stop()


class CancelledWork(Scraper):
    """A scraper whose callback and pipelines end as `how` says; it keeps the signals of its errors."""

    def __init__(self, how: Callable[[], Any]) -> None:
        super().__init__()
        self._how = how
        self.signals: list[tuple[object, object]] = []
        self.crawler.spider = None
        self.crawler.signals = SimpleNamespace(send_catch_log_async=self._keep)
        self.logformatter = LogFormatter()

    async def _keep(self, *, signal: object, failure: Failure, **_: Any) -> None:
        self.signals.append((signal, failure.value))

    async def call_spider_async(self, result: Any, request: Request) -> None:
        await self._how()

    async def start_itemproc_async(self, item: Any, *, response: Any) -> None:
        await self._how()


async def raises() -> None:
    raise asyncio.CancelledError


async def awaits_a_cancelled_task() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    task.cancel()
    await task


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def cancelled_items() -> AsyncIterator[int]:
    yield 1
    raise asyncio.CancelledError


@pytest.mark.parametrize("how", [raises, awaits_a_cancelled_task, cancels_itself])
def test_work_that_is_cancelled_by_its_own_code_has_failed(how: Callable[[], Any]) -> None:
    async def handle() -> None:
        scraper, request = CancelledWork(how), Request(URL)
        pages = HungPages(tasks(), lambda: False, scraper, TIMEOUT)
        with pytest.raises(WorkCancelled):
            await scraper.call_spider_async(None, request)
        await scraper.start_itemproc_async({"n": 1}, response=None)
        assert [signal for signal, _ in scraper.signals] == [item_error]
        assert isinstance(scraper.signals[0][1], WorkCancelled)
        pages.stop()

    asyncio.run(handle())


def test_items_that_end_with_a_cancellation_are_an_error_of_the_callback() -> None:
    async def handle() -> Scraper:
        scraper, request = Scraper(), Request(URL)
        pages = HungPages(tasks(), lambda: False, scraper, 0)
        await scraper.handle_spider_output_async(cancelled_items(), request, None)
        pages.stop()
        return scraper

    scraper = asyncio.run(handle())
    assert scraper.items == [1] and [type(error) for error in scraper.errors] == [WorkCancelled]


def test_work_that_a_forced_stop_cancels_has_not_failed() -> None:
    async def handle() -> None:
        ours, scraper, request = tasks(), CancelledWork(raises), Request(URL)
        pages = HungPages(ours, lambda: False, scraper, TIMEOUT)
        ours.abandon()
        for work in (
            scraper.call_spider_async(None, request),
            scraper.start_itemproc_async(1, response=None),
        ):
            with pytest.raises(asyncio.CancelledError):
                await work
        await scraper.handle_spider_output_async(cancelled_items(), request, None)
        assert not scraper.signals and not scraper.errors
        pages.stop()

    asyncio.run(handle())


def test_a_request_that_cannot_be_queued_is_an_error_of_the_callback_and_others_are_queued() -> None:
    bad, good = Request(URL + "bad"), Request(URL + "good")

    async def handle() -> Scraper:
        scraper, request = Scraper(), Request(URL)

        def crawl(added: Request) -> None:
            if added is bad:
                raise TypeError("no such meta")
            scraper.crawled.append(added)

        scraper.crawler.engine.crawl = crawl
        pages = HungPages(tasks(), lambda: False, scraper, TIMEOUT)
        await scraper.handle_spider_output_async([bad, good], request, Response(URL, request=request))
        pages.stop()
        return scraper

    scraper = asyncio.run(handle())
    assert list(map(str, scraper.errors)) == ["no such meta"] and scraper.crawled == [good]


def test_a_callback_that_closes_the_spider_gives_its_url_back() -> None:
    ours, request = tasks(), Request(URL)
    ours.begin(request, LeasedURL(0, "http://a.test", "/", 4, 0, 0, 1, None, None), 1)

    def parse() -> Iterator[Any]:
        yield 1
        raise CloseSpider("enough")

    async def handle() -> Scraper:
        scraper = Scraper()
        pages = HungPages(ours, lambda: False, scraper, TIMEOUT)
        await scraper.handle_spider_output_async(parse(), request, Response(URL, request=request))
        pages.stop()
        return scraper

    scraper = asyncio.run(handle())
    assert scraper.items == [1] and [type(error) for error in scraper.errors] == [CloseSpider]
    assert ours.comes_again(request)


class Results:
    """Yields five items, a request and None; making the third item fails."""

    def __init__(self) -> None:
        self._left = iter([1, 2, ValueError("3"), Request(URL), None, 4, 5])

    def __iter__(self) -> Results:
        return self

    def __next__(self) -> Any:
        result = next(self._left)
        if isinstance(result, Exception):
            raise result
        return result


class AsyncResults(Results):
    def __aiter__(self) -> AsyncResults:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None


@pytest.mark.parametrize("results", [Results, AsyncResults])
def test_a_callback_goes_on_after_an_error_and_its_items_are_handled_a_few_at_a_time(
    results: Callable[[], Any],
) -> None:
    """As Scrapy handles them, for `__next__` and for `__anext__`."""

    async def handle() -> Scraper:
        scraper, request = Scraper(), Request(URL)
        pages = HungPages(tasks(), lambda: False, scraper, TIMEOUT)
        await scraper.handle_spider_output_async(results(), request, Response(URL, request=request))
        pages.stop()
        return scraper

    scraper = asyncio.run(handle())
    assert scraper.items == [1, 2, 4, 5] and scraper.most_at_once == scraper.concurrent_items
    assert list(map(str, scraper.errors)) == ["3"]
    assert [request.url for request in scraper.crawled] == [URL]


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
