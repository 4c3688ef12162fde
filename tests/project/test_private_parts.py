"""The parts of Scrapy beyond its documented interface that the project uses, as listed in docs/architecture.md."""

from __future__ import annotations

import asyncio
import inspect
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider, cmdline
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.core.engine import ExecutionEngine, _Slot
from scrapy.core.scheduler import BaseScheduler
from scrapy.core.scraper import Scraper, Slot as ScraperSlot
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.settings import Settings
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.reactor import CallLaterOnce
from scrapy.utils.ssl import _make_ssl_context
from scrapy.utils.test import get_crawler

from webcrawl import entry
from webcrawl.config import ReaderConfig
from webcrawl.crawler.pages.scraper_slot import ScraperSlot as OurScraperSlot
from webcrawl.documents.mime.reader_processes import Readers

ROOT = Path(__file__).parents[2]
URL = "http://example.com/"
MOST = 10
HANDLERS = dict.fromkeys(("http", "https", "ftp", "s3"))


def crawler(**settings: Any) -> Crawler:
    made = get_crawler(Spider, {"LOG_ENABLED": False, "DOWNLOAD_HANDLERS": HANDLERS, **settings})
    made.spider = made._create_spider("some")
    return made


def engine_of(made: Crawler) -> ExecutionEngine:
    made.engine = ExecutionEngine(made, lambda spider: None)
    made.engine.spider = made.spider
    return made.engine


def test_the_engines_slot_takes_finished_requests_off_inprogress() -> None:
    """`engine._slot.inprogress`: webcrawl.scheduler replaces the set, and acknowledges a URL when it leaves it."""
    left: list[Request] = []

    class InProgress(set[Request]):
        def remove(self, request: Request) -> None:
            super().remove(request)
            left.append(request)

    async def run() -> None:
        slot, request = _Slot(False, CallLaterOnce(lambda: None), BaseScheduler()), Request(URL)
        assert slot.inprogress == set()
        slot.inprogress = InProgress()
        slot.add_request(request)
        assert request in slot.inprogress and not left
        slot.remove_request(request)
        assert left == [request]

    asyncio.run(run())


def test_the_engine_keeps_its_slot_and_wakes_by_nextcall() -> None:
    """`engine._slot.nextcall`: webcrawl.scheduler wakes the engine when a leased URL is due."""

    async def run() -> None:
        engine, woken = engine_of(crawler()), asyncio.Event()
        assert engine._slot is None
        engine._slot = _Slot(False, CallLaterOnce(woken.set), BaseScheduler())
        engine._slot.nextcall.schedule()
        await asyncio.wait_for(woken.wait(), 60)

    asyncio.run(run())


def test_the_engine_closes_its_spider_through_one_method() -> None:
    """`engine.close_spider_async`: wrapped to abandon requests that wait for their host's delay."""
    closed: list[str] = []

    async def close(*, reason: str = "cancelled") -> None:
        closed.append(reason)

    async def run() -> None:
        engine: Any = engine_of(crawler())
        engine.close_spider_async = close
        engine._starting = True
        await engine.stop_async()

    asyncio.run(run())
    assert closed == ["shutdown"]
    parameters = inspect.signature(ExecutionEngine.close_spider_async).parameters
    assert list(parameters) == ["self", "reason"]
    source = inspect.getsource(ExecutionEngine)
    assert source.count("_slot.close()") == 1, "another method starts closing the spider"


def test_the_scraper_counts_bodies_in_its_slot() -> None:
    """`engine.scraper.slot`: replaced by one that knows a body's length without reading its file."""

    async def run() -> None:
        made = crawler()
        scraper = Scraper(made)
        await scraper.open_spider_async()
        assert type(scraper.slot) is ScraperSlot
        scraper.slot = OurScraperSlot(
            1_000_000, Readers(ReaderConfig(processes=1, seconds=20, memory=1 << 29))
        )
        made.engine = engine_of(made)
        request = Request(URL, callback=lambda response: [{"found": response.url}])
        response = Response(URL, body=b"\1" * 5_000, request=request)
        done = scraper.enqueue_scrape(response, request)
        assert scraper.slot.active_size == 5_000
        await maybe_deferred_to_future(done)
        assert scraper.slot.is_idle() and scraper.slot.active_size == 0

    asyncio.run(run())


def test_the_scraper_passes_an_item_to_the_pipelines() -> None:
    """`engine.scraper.start_itemproc_async`: middlewares.redirect stores each hop through it."""
    met: list[Any] = []

    class Pipeline:
        async def process_item(self, item: Any) -> Any:
            await asyncio.sleep(0)
            met.append(item)
            return item

    async def run() -> None:
        made = crawler(ITEM_PIPELINES={Pipeline: 1})
        scraper = Scraper(made)
        await scraper.open_spider_async()
        await scraper.start_itemproc_async({"hop": 1}, response=Response(URL))

    asyncio.run(run())
    assert met == [{"hop": 1}]


def test_the_scraper_works_on_a_page_through_three_methods() -> None:
    """`call_spider_async`, `handle_spider_output_async`, `start_itemproc_async`: wrapped to cancel what hangs."""
    called: list[str] = []

    async def run() -> None:
        made = crawler()
        scraper: Any = Scraper(made)
        await scraper.open_spider_async()
        made.engine = engine_of(made)
        for name in ("call_spider_async", "handle_spider_output_async", "start_itemproc_async"):
            setattr(scraper, name, noted(name, getattr(scraper, name)))
        request = Request(URL, callback=lambda response: [{"found": response.url}])
        await maybe_deferred_to_future(scraper.enqueue_scrape(Response(URL, request=request), request))

    def noted(name: str, method: Any) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            called.append(name)
            return await method(*args, **kwargs)

        return call

    asyncio.run(run())
    assert called == ["call_spider_async", "handle_spider_output_async", "start_itemproc_async"]


def test_the_downloader_has_its_middlewares_and_handlers() -> None:
    """`Downloader.middleware.middlewares`, `Downloader.active`, `Downloader.handlers.download_request_async`."""

    class Middleware:
        def process_request(self, request: Request) -> None:
            return None

    class Handler:
        lazy = False

        async def download_request(self, request: Request) -> Response:
            return Response(request.url)

        async def close(self) -> None:
            return None

    async def run() -> None:
        settings = {
            "DOWNLOADER_MIDDLEWARES": {Middleware: 1},
            "DOWNLOAD_HANDLERS": HANDLERS | {"http": Handler},
        }
        downloader = Downloader(crawler(**settings))
        assert isinstance(downloader.middleware.middlewares[0], Middleware)
        assert downloader.active == set()
        assert (await downloader.handlers.download_request_async(Request(URL))).url == URL

    asyncio.run(run())


def test_scrapys_tls_settings_make_a_context() -> None:
    """`scrapy.utils.ssl._make_ssl_context`: applies DOWNLOAD_TLS_* and DOWNLOAD_VERIFY_CERTIFICATES."""
    context = _make_ssl_context(
        Settings({"DOWNLOAD_VERIFY_CERTIFICATES": False, "DOWNLOAD_TLS_MIN_VERSION": "TLSv1.3"})
    )
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode == ssl.CERT_NONE and not context.check_hostname
    assert (
        _make_ssl_context(Settings({"DOWNLOAD_VERIFY_CERTIFICATES": True})).verify_mode == ssl.CERT_REQUIRED
    )


def rows() -> list[list[str]]:
    """The rows of the table in docs/architecture.md."""
    text = (ROOT / "docs/architecture.md").read_text().partition("## What is private to Scrapy\n")[2]
    table = text.partition("\n## ")[0].partition("|---|---|---|---|\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_scrapy_prints_its_commands_by_one_function(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cmdline._print_commands`: webcrawl.entry replaces it, and groups the lines that it prints."""
    printed: list[bool] = []
    monkeypatch.setattr(cmdline, "_print_commands", lambda settings, inproject: printed.append(inproject))
    with pytest.raises(SystemExit):
        cmdline.execute(["scrapy"], Settings())
    assert len(printed) == 1
    entry._print_all(Settings(), True)
    listing = capsys.readouterr().out
    assert re.search(r"Available commands:\n\n  alarms +\S", listing)


def test_the_table_names_a_test_for_each_part() -> None:
    assert 0 < len(rows()) <= MOST
    for where, part, reason, test in rows():
        assert (ROOT / where.strip("`")).is_file(), where
        assert part and reason
        assert callable(globals().get(test.strip("`"))), test


def private_names() -> Iterator[str]:
    """Yields the underscore names that the project imports from Scrapy or reads from its engine."""
    for folder in ("webcrawl", "middlewares", "pipelines", "spiders"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            for names in re.findall(r"^from scrapy\S* import (.+)$", text, re.MULTILINE):
                yield from (name for name in re.findall(r"\w+", names) if name.startswith("_"))
            yield from re.findall(r"\b(?:engine|scraper|downloader|slot|spidermw)\.(_[a-z]\w*)", text)
            yield from re.findall(r"(__class__) =", text)


def test_no_other_private_name_is_used() -> None:
    assert set(private_names()) == {"_slot", "_make_ssl_context"}


def test_the_handlers_keep_the_reason_why_one_cannot_be_used() -> None:
    """`DownloadHandlers._get_handler`, `_notconfigured`: download/downloader.py refuses such a handler at the start."""
    handlers = DownloadHandlers(
        crawler(
            TWISTED_REACTOR_ENABLED=False,
            DOWNLOAD_HANDLERS={
                **HANDLERS,
                "http": "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler",
            },
        )
    )
    assert handlers._get_handler("http") is None
    assert handlers._notconfigured["http"] == "HTTP11DownloadHandler requires a Twisted reactor."
