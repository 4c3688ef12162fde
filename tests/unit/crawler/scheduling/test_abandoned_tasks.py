"""What is reported of URLs in progress when a second interrupt ends the process, and of pages that are retried."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from scrapy import Request
from twisted.python.failure import Failure

from webcrawl.crawler.scheduling.tasks import Tasks
from webcrawl.frontier import LeasedURL, Settlement

URL = "http://a.test/"


class RecordingWorker:
    """A worker that keeps the outcomes it is told."""

    def __init__(self) -> None:
        self.tally = SimpleNamespace(counters=Counter[str]())
        self.settlements: list[Settlement] = []

    def finish_fetch(self, url: LeasedURL, token: int) -> None:
        """Does nothing."""

    def settle(self, url: LeasedURL, token: int, settlement: Settlement, **_: Any) -> None:
        """Keeps the settlement."""
        self.settlements.append(settlement)


def test_a_fetch_that_an_abandoned_crawl_cancels_is_no_dead_letter() -> None:
    worker = RecordingWorker()
    starts = SimpleNamespace(ended=lambda *_, **__: None)
    ours = Tasks(worker, SimpleNamespace(), starts, 2, paced=True, judged=True)  # type: ignore[arg-type]
    lost, cancelled = Request(URL), Request(URL)
    for request in (lost, cancelled):
        ours.begin(request, LeasedURL(0, "http://a.test", "/", 4, 0, 0, 1, None, None), 1)
    ours.end(lost)
    assert [settlement.verdict for settlement in worker.settlements] == ["dead"]
    ours.abandon()
    ours.end(cancelled)
    assert len(worker.settlements) == 1


def test_a_request_in_whose_place_a_middleware_returned_another_is_no_dead_letter() -> None:
    worker = RecordingWorker()
    starts = SimpleNamespace(ended=lambda *_, **__: None)
    ours = Tasks(worker, SimpleNamespace(), starts, 2, paced=True, judged=True)  # type: ignore[arg-type]
    for outcome in ("done", "retry"):
        request = Request(URL)
        ours.begin(request, LeasedURL(0, "http://a.test", "/", 4, 0, 0, 1, None, None), 1)
        if outcome == "retry":  # a middleware had set it
            ours.retry(request, 1.0, "later")
        ours.replaced(request)
        ours.end(request)
        assert worker.settlements[-1].verdict == outcome
    ours.replaced(Request(URL))


def test_a_page_that_pipelines_failed_to_process_counts_as_retried_once() -> None:
    worker = RecordingWorker()
    ours = Tasks(worker, SimpleNamespace(), SimpleNamespace(), 2, paced=True, judged=True)  # type: ignore[arg-type]
    for attempts, retried in ((0, 1), (1, 1)):
        request = Request(URL)
        ours.begin(request, LeasedURL(0, "http://a.test", "/", 4, attempts, 0, 1, None, None), 1)
        for item in "12":
            response = SimpleNamespace(request=request)
            ours.item_failed(response, Failure(ValueError(item)))  # type: ignore[no-untyped-call]
        assert worker.tally.counters["retried"] == retried
