"""What metrics cost a page, and what a scrape costs a worker."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from pytest_benchmark.fixture import BenchmarkFixture

from webcrawl.crawler.download.wire import Sending
from webcrawl.crawler.report.worker_metrics import STAGE, STORE
from webcrawl.frontier import LeasedURL, Settlement
from webcrawl.metrics.exposition import exposition
from webcrawl.metrics.families import WORKER, MetricSample
from webcrawl.metrics.observations import STAGES, STORES, Observations
from webcrawl.metrics.totals import samples_of
from webcrawl.metrics.traces import Traces
from webcrawl.worker.leased_hosts import Arrivals

TIMED = ("turn", "body", "parse", "pipelines")
"""The stages of a page that two readings of the clock surround."""
KEPT = ("archive", "metadata")
"""The stores of a page with the default settings."""


def observe(observed: Observations, arrivals: Arrivals, url: LeasedURL) -> None:
    """All that is observed of a page that needs no DNS and no robots.txt."""
    arrivals.add([url])
    arrivals.hand_out(url, time.monotonic())
    sending = Sending(time.monotonic())
    sending.connected = sending.sent = time.monotonic()
    sending.observe(observed, url.url)
    for name in TIMED:
        observed.stage(name, url.url, time.monotonic())
    for name in KEPT:
        observed.store(name, url.url, time.monotonic())
    arrivals.acknowledge(Settlement(url.index), time.monotonic(), time.monotonic())


URL = LeasedURL(0, "http://a.test", "/", 3, 0, 0, 0, None, None)


def test_metrics_of_a_page(benchmark: BenchmarkFixture) -> None:
    """What a worker observes of a page with METRICS_PORT."""
    observed = Observations()
    benchmark(observe, observed, Arrivals(observed), URL)
    assert observed.stages["body"].count == observed.stages["queue"].count > 0


@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
def test_traces_of_a_page(benchmark: BenchmarkFixture, share: float) -> None:
    """The same with TRACES, when this share of the pages is traced; without the thread that sends the spans."""
    observed = Observations()
    provider = TracerProvider(sampler=TraceIdRatioBased(share), shutdown_on_exit=False)
    observed.traces = Traces(provider.get_tracer("micro"))
    benchmark(observe, observed, Arrivals(observed), URL)
    assert observed.stages["body"].count > 0


def test_metrics_of_a_worker(benchmark: BenchmarkFixture) -> None:
    """The text for Prometheus with all histograms and counters of a worker."""
    observed = Observations()
    totals = Counter({"pages": 9, **{f"status.{code}": 9 for code in range(200, 240)}})
    totals.update({f"type_pages.{name}": 9 for name in range(40)})

    def scrape() -> bytes:
        samples = [*samples_of(WORKER, totals)]
        samples += [MetricSample(STAGE, observed.stages[name], (name,)) for name in STAGES]
        samples += [MetricSample(STORE, observed.stores[name], (name,)) for name in STORES]
        return exposition({"crawl": samples}).text

    assert b"webcrawl_worker_pages_total" in benchmark(scrape)
