"""The metrics of a worker, served at METRICS_PORT: counters, latencies of stages, and present work."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from scrapy import signals
from scrapy.crawler import Crawler

from webcrawl.config import StoreConfig, read
from webcrawl.config.libraries import prometheus_client
from webcrawl.config.memory import child_memory
from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.scheduling.tasks import Tasks
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.disk import DiskSpace, occupied
from webcrawl.frontier import SAMPLE
from webcrawl.metrics.crawl import lease_ages
from webcrawl.metrics.families import WORKER, Family, MetricSample, gauges, samples
from webcrawl.metrics.observations import STAGES, STORES, Observations
from webcrawl.metrics.totals import samples_of
from webcrawl.worker.leased_host import LeasedHost

if TYPE_CHECKING:
    # slow to import, and Scrapy imports extensions that are off too
    from webcrawl.metrics.exposition import Exposition
    from webcrawl.metrics.server import MetricsServer
    from webcrawl.stores.store_use import StoreUse

logger = logging.getLogger(__name__)

GAUGES = gauges(
    WORKER,
    ("engine_up", "1 if the engine answered last"),
    ("paused", "1 if an operator has paused the crawl"),
    ("holding", "1 if the worker fetches nothing because its stores accept no more"),
    (
        "hosts",
        "hosts that the worker has leased: `busy` with a request, `ready` to be asked, `waiting` for their turn, "
        "`leaving` to be released",
        "state",
    ),
    ("lease_age_seconds", "age of these leases: the `median` and the `oldest`", "statistic"),
    ("leased_urls", "URLs that wait in the worker"),
    ("unsent_urls", "found URLs that the engine does not have yet"),
    (
        "requests",
        "requests in the worker: `waiting` for robots.txt, DNS or a turn, without a connection; `fetching`; "
        "`processing`, until all is stored",
        "state",
    ),
    ("html_waiting_bytes", "pages in the process for HTML, or waiting for it"),
    ("spool_bytes", "files in `DATA_DIR/spool`, which wait for their upload"),
    ("spool_limit_bytes", "`STORE_SPOOL_MAX_BYTES`; 0 without a limit"),
    ("disk_least_free_bytes", "`STORE_MIN_FREE_BYTES`, below which the worker holds"),
    ("disk_free_bytes", "free space on the disk of `DATA_DIR`"),
    ("disk_used_ratio", "used share of the disk of `DATA_DIR`, from 0 to 1, as `df` counts"),
    ("disk_limit_ratio", "`STORE_MAX_SHARE`, from which on the worker holds; 1 without a limit"),
    ("store_bytes", "objects below `STORE_URI` at the last listing; 0 without `STORE_QUOTA_BYTES`"),
    (
        "store_limit_bytes",
        "`STORE_MAX_SHARE` of `STORE_QUOTA_BYTES`, from which on the worker holds; 0 without a quota",
    ),
    (
        "child_memory_bytes",
        "resident memory of the worker's child processes: HTML, documents, browser, embedded engine",
    ),
)
STAGE = Family(
    WORKER, "stage_seconds", "histogram", "how long each stage of a page took, see below", ("stage",)
)
QUEUED = Family(
    WORKER,
    "queued_seconds",
    "histogram",
    f"how long URLs were queued in the crawl until their request was made, of one URL in {SAMPLE}, see below",
)
STORE = Family(
    WORKER,
    "store_seconds",
    "histogram",
    f"how long a page waited until a store had written it: {', '.join(f'`{name}`' for name in STORES)}",
    ("store",),
)
ROBOTS = Family(
    WORKER,
    "robots_lookups",
    "counter",
    "requests whose robots.txt was needed: `cached` in the worker, or `asked` from the engine or the host",
    ("result",),
)


def worker_samples(session: Session, tasks: Tasks) -> list[MetricSample]:
    """Returns the metrics of a worker with METRICS_PORT, without the metrics of its disk."""
    worker, observed = tasks.worker, session.observed
    assert observed is not None
    hosts, beat = list(worker.hosts), worker.heartbeat
    return [
        *samples(
            GAUGES,
            [
                ("engine_up", not worker.engine.is_away),
                ("paused", beat.paused),
                ("holding", beat.holds),
                ("leased_urls", sum(len(host.urls) for host in hosts)),
                ("unsent_urls", len(worker.intake)),
                ("html_waiting_bytes", session.outlines.bytes if session.outlines else 0),
            ],
        ),
        *_of_leases(hosts, time.monotonic()),
        *_of_requests(tasks, session.turns.waiting),
        *samples_of(WORKER, observed.counts + worker.tally.counters),
        *_observed(observed),
    ]


def disk_samples(stores: StoreConfig, use: StoreUse | None = None) -> list[MetricSample]:
    """Returns the metrics of the disk, of the store's quota and of child processes; may block."""
    spool, disk = stores.data_dir / "spool", DiskSpace.of(stores.data_dir)
    values: dict[str, float] = {
        "spool_bytes": sum(map(occupied, [spool, *spool.rglob("*/")])) if spool.is_dir() else 0,
        "spool_limit_bytes": stores.spool_max,
        "disk_least_free_bytes": stores.min_free,
        "disk_free_bytes": disk.free,
        "disk_used_ratio": disk.used_share,
        "disk_limit_ratio": stores.max_share,
        "store_bytes": (use and use.used) or 0,
        "store_limit_bytes": stores.max_share * stores.quota,
    }
    memory = child_memory()
    return samples(GAUGES, [*values.items(), *([] if memory is None else [("child_memory_bytes", memory)])])


def _of_leases(hosts: Sequence[LeasedHost], now: float) -> Iterator[MetricSample]:
    states = Counter(_state(host, now) for host in hosts)
    for state in ("busy", "ready", "waiting", "leaving"):
        yield MetricSample(GAUGES["hosts"], states[state], (state,))
    ages = sorted(now - host.arrivals.opened for host in hosts if host.arrivals is not None)
    yield from lease_ages(GAUGES["lease_age_seconds"], ages)


def _state(host: LeasedHost, now: float) -> str:
    if host.leaving:
        return "leaving"
    if host.in_flight:
        return "busy"
    return "ready" if host.turn.may_start(now) else "waiting"


def _of_requests(tasks: Tasks, waiting: int) -> Iterator[MetricSample]:
    # requests for robots.txt wait too, and have no task
    processing = len(tasks.processing)
    fetched = max(0, len(tasks) - processing - waiting)
    for state, number in {"waiting": waiting, "fetching": fetched, "processing": processing}.items():
        yield MetricSample(GAUGES["requests"], number, (state,))


def _observed(observed: Observations) -> Iterator[MetricSample]:
    robots = {"cached": observed.robots_in_memory, "asked": observed.stages["robots"].count}
    for result, number in robots.items():
        yield MetricSample(ROBOTS, number, (result,))
    yield MetricSample(QUEUED, observed.queued)
    for stage in STAGES:
        yield MetricSample(STAGE, observed.stages[stage], (stage,))
    for store in STORES:
        yield MetricSample(STORE, observed.stores[store], (store,))


class MetricsPort(SessionComponent):
    """Extension that answers while the spider is open; off without METRICS_PORT."""

    needs = "METRICS_PORT"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        prometheus_client()
        from webcrawl.metrics.server import MetricsServer, listen

        host, port = read(crawler.settings, "METRICS_HOST"), read(crawler.settings, "METRICS_PORT")
        # now, not when the spider opens, so that a port in use stops the crawl before it starts
        self._server: MetricsServer = MetricsServer(listen("METRICS_PORT", host, port), self._metrics)
        crawler.signals.connect(self.spider_opened, signals.spider_opened)
        crawler.signals.connect(self.engine_stopped, signals.engine_stopped)

    async def spider_opened(self) -> None:
        if self._session.connection.is_open:
            logger.info("Serving metrics at %s", self._server.url)
            await self._server.start()

    async def engine_stopped(self) -> None:
        await self._server.close()

    async def _metrics(self, accept: str) -> Exposition:
        from webcrawl.metrics.exposition import exposition

        samples = worker_samples(self._session, tasks_of(self._crawler))
        samples += await asyncio.to_thread(disk_samples, self._session.stores, self._session.store_use)
        more = prometheus_client().ProcessCollector(registry=None).collect()
        return exposition({self._session.connection.keys.crawl: samples}, more, accept)
