"""The machines for a crawl: how much of everything so many pages in so much time need, by measured inputs.

Each input is a field of `PlanInputs` with its unit and its source. Each amount comes with its arithmetic. Amounts are
averages over the whole crawl, so peaks need more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

DAY = 86_400.0
KB, MB, GB = 1e3, 1e6, 1e9
_MOST = 1e30
_LEAST_DELAY = 1e-6
_IRLBOT = "Lee et al., IRLbot, WWW 2008"
_SIDE_BY_SIDE = "benchmarks/README.md, 2 cores, 2026-11-29"


def _input(default: float, unit: str, meaning: str, source: str, *, least: float = 0.0) -> Any:
    """Declares an input; `least` 0.0 allows any number from 0, another value any number from there."""
    about = {"unit": unit, "meaning": meaning, "source": source, "least": least}
    return field(default=default, metadata=about)


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What the plan takes as measured or assumed. The metadata of a field has unit, meaning, source and least value."""

    page_kb: float = _input(
        30, "KB", "a page as sent, with gzip", "Common Crawl: 90 TB of archives for 3 billion pages"
    )
    known_urls: float = _input(
        6.5,
        "URLs",
        "known for each page fetched",
        f"{_IRLBOT}: 41 G URLs, 6.3 G pages",
        least=1,
    )
    host_pages: float = _input(
        54, "pages", "fetched of a host", f"{_IRLBOT}: 6.3 G pages, 117 M hosts", least=1
    )
    cpu_ms: float = _input(
        6.0, "ms", "processor time of a page, all pipelines, with the engine", f"{_SIDE_BY_SIDE}, full"
    )
    tls_ms: float = _input(
        0.9,
        "ms",
        "processor time that TLS adds to a page",
        "benchmarks.md, 250 hosts with HTTPS less HTTP, 2026-11-22",
    )
    worker_pages: float = _input(
        273, "pages/s", "of a worker without other limits", f"{_SIDE_BY_SIDE}, full", least=0.001
    )
    worker_mb: float = _input(
        370, "MB", "memory of a worker", "benchmarks.md, a long crawl after 96,000 pages"
    )
    engine_us: float = _input(
        450,
        "us",
        "processor time of the engine for a page",
        "benchmarks.md, 3,000 hosts with a delay of 1 s, 2026-11-23",
    )
    seen_bytes: float = _input(
        1.3,
        "bytes",
        "memory of the seen set for a known URL, with most of them in the store",
        "docs/reference/frontier.md, a seen set past memory; 8.5 bytes without a store",
    )
    seen_disk_bytes: float = _input(
        5, "bytes", "of a known URL in the store", "docs/reference/frontier.md, a seen set past memory"
    )
    credit_bytes: float = _input(
        16, "bytes", "memory of importance for a known URL", "tests/frontier/test_credit.py, at most"
    )
    queued_bytes: float = _input(
        73,
        "bytes",
        "memory of a URL that waits in the engine, beside the seen set",
        "make bench-frontier, 1 and 10 URLs a host: 138 and 87 bytes with the seen set",
    )
    spilled_bytes: float = _input(
        11.7,
        "bytes",
        "of a URL that waits in the store",
        "docs/guide/frontier.md, URLs that are very similar",
    )
    host_bytes: float = _input(
        323,
        "bytes",
        "memory of a visited host with URLs that wait, beside these",
        "make bench-frontier: 57 bytes for its queue; docs/scale.md, idle hosts: 266 bytes, or 5 when it is idle",
    )
    duplicate_bytes: float = _input(
        0,
        "bytes",
        "memory of the index of duplicates for a page, beside DUPLICATES_HOT_PAGES",
        "docs/reference/duplicates.md, beyond memory; 200 bytes without a store",
    )
    duplicate_disk_bytes: float = _input(
        16,
        "bytes",
        "of the index of duplicates for a page, on the disk of each machine with workers",
        "docs/reference/settings.md, DUPLICATES_HOT_PAGES",
    )
    machine_cores: float = _input(16, "cores", "of a machine with workers", "assumed", least=1)
    primary_gb: float = _input(64, "GB", "memory of a primary of the engine", "assumed", least=0.001)
    record_kb: float = _input(
        1.0,
        "KB",
        "of a page's WARC records beside its body",
        "docs/reference/archive.md: 0.4 KB for metadata; the rest is assumed",
    )
    warc_mb: float = _input(1000, "MB", "of a WARC file", "webcrawl/stores/warc/writer.py", least=0.001)
    part_mb: float = _input(
        16.8, "MB", "of a part of an upload", "webcrawl/stores/objects/s3.py", least=0.001
    )
    row_bytes: float = _input(
        540,
        "bytes",
        "of a page in PostgreSQL, with indexes",
        "200,000 rows of benchmarks/recrawl_plan.py, PostgreSQL 15",
    )
    lookup_pages: float = _input(
        10,
        "pages",
        "for each look-up of a name",
        "docs/architecture.md: a slice of a host has ten URLs",
        least=1,
    )
    lookup_queries: float = _input(2, "queries", "of a look-up", "A and AAAA")
    connection_pages: float = _input(
        4, "pages", "of a connection", "assumed, as in the benchmark of 250 hosts", least=1
    )
    connection_kb: float = _input(6, "KB", "received to open a connection with TLS", "assumed")
    busy: float = _input(0.7, "share", "of a processor, a worker or a primary in use", "assumed", least=0.001)

    def __post_init__(self) -> None:
        for declared in fields(self):
            check_amount(declared.name, getattr(self, declared.name), declared.metadata["least"])
        if self.busy > 1:
            raise ValueError(f"busy: {self.busy:g} is more than the whole, which is 1")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> PlanInputs:
        """Returns the inputs with these values; raises ValueError, which names what is wrong."""
        names = [declared.name for declared in fields(cls)]
        if unknown := [name for name in given if name not in names]:
            raise ValueError(f"there is no {', '.join(unknown)}; there are {', '.join(names)}")
        return cls(**given)


def check_amount(name: str, value: Any, least: float = 0.0) -> None:
    """Raises ValueError unless a value is a number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: {value!r} is not a number")
    if not least <= value <= _MOST:
        bound = f"less than {least:g}" if value < least else f"more than {_MOST:g}"
        raise ValueError(f"{name}: {value:g} is {bound}")


@dataclass(frozen=True, slots=True)
class CrawlGoal:
    """What to reach: `pages` in `seconds`, with `delay` seconds between two requests to a host.

    `hot_urls`: the most URLs of a host that wait in the engine and not in the store; 0 for any number.
    """

    pages: float
    seconds: float
    delay: float = 1.0
    hot_urls: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("pages", 1), ("seconds", 1), ("delay", 0), ("hot_urls", 0)):
            check_amount(name, getattr(self, name), least)
        if 0 < self.delay < _LEAST_DELAY:
            raise ValueError(f"delay: {self.delay:g} is less than a microsecond; 0 means no delay")

    @property
    def rate(self) -> float:
        """Pages a second."""
        return self.pages / self.seconds


class MachineNeed(NamedTuple):
    """An amount that the crawl needs; `unit` is "" for a plain number, and `arithmetic` says how it came about."""

    group: str
    name: str
    amount: float
    unit: str
    arithmetic: str


def machine_plan(goal: CrawlGoal, inputs: PlanInputs) -> list[MachineNeed]:
    """Returns what a crawl needs, in the order of a table: hosts, workers, engine, network, store, database."""
    parts = (_hosts, _workers, _engine, _network, _store, _database)
    return [need for part in parts for need in part(goal, inputs)]


def _hosts(goal: CrawlGoal, inputs: PlanInputs) -> Iterator[MachineNeed]:
    rate, delay = goal.rate, goal.delay
    yield MachineNeed(
        "hosts",
        "rate",
        rate,
        "pages/s",
        f"{figure(goal.pages)} pages in {goal.seconds / DAY:g} days",
    )
    yield MachineNeed(
        "hosts", "due at once, at least", rate * delay, "hosts", f"{figure(rate)} pages/s x {delay:g} s"
    )
    if delay:
        most = goal.seconds / delay
        yield MachineNeed("hosts", "most pages of a host", most, "pages", f"a page each {delay:g} s")
    yield MachineNeed(
        "hosts", "visited", _host_count(goal, inputs), "hosts", f"{inputs.host_pages:g} pages each"
    )


def _host_count(goal: CrawlGoal, inputs: PlanInputs) -> float:
    return goal.pages / inputs.host_pages


def _workers(goal: CrawlGoal, inputs: PlanInputs) -> Iterator[MachineNeed]:
    rate, ms = goal.rate, inputs.cpu_ms + inputs.tls_ms
    used = rate * ms / 1000
    workers = _whole(rate / (inputs.worker_pages * inputs.busy))
    yield MachineNeed("workers", "cores in use", used, "cores", f"{figure(rate)} pages/s x {ms:g} ms")
    cores = _whole(used / inputs.busy)
    yield MachineNeed("workers", "cores", cores, "cores", f"{figure(used)} / {inputs.busy:g}")
    machines = _whole(cores / inputs.machine_cores)
    how = f"{figure(cores)} cores / {inputs.machine_cores:g}"
    yield MachineNeed("workers", "machines", machines, "machines", how)
    a_worker = f"{inputs.worker_pages:g} pages/s x {inputs.busy:g}"
    yield MachineNeed("workers", "workers", workers, "workers", f"{figure(rate)} pages/s / ({a_worker})")
    memory = workers * inputs.worker_mb * MB
    yield MachineNeed("workers", "memory", memory, "bytes", f"{figure(workers)} x {inputs.worker_mb:g} MB")
    disk = goal.pages * inputs.duplicate_disk_bytes
    how = f"{figure(goal.pages)} pages x {inputs.duplicate_disk_bytes:g} bytes"
    yield MachineNeed("workers", "disk of each machine, duplicates", disk, "bytes", how)
    at_once = rate * goal.delay / workers
    yield MachineNeed("workers", "hosts of a worker at once", at_once, "hosts", "hosts due at once / workers")


def _engine(goal: CrawlGoal, inputs: PlanInputs) -> Iterator[MachineNeed]:
    used = goal.rate * inputs.engine_us / 1e6
    how = f"{figure(goal.rate)} pages/s x {inputs.engine_us:g} us"
    yield MachineNeed("engine", "cores in use", used, "cores", how)
    total = 0.0
    for name, memory, arithmetic in _engine_memory(goal, inputs):
        total += memory
        yield MachineNeed("engine", f"memory, {name}", memory, "bytes", arithmetic)
    yield MachineNeed("engine", "memory", total, "bytes", "their sum, without replicas")
    by_work, by_memory = _whole(used / inputs.busy), _whole(total / (inputs.primary_gb * GB * inputs.busy))
    how = (
        f"the more of {figure(by_work)} by work and {figure(by_memory)} by memory of {inputs.primary_gb:g} GB"
    )
    yield MachineNeed("engine", "primaries", max(by_work, by_memory), "servers", how)


def _engine_memory(goal: CrawlGoal, inputs: PlanInputs) -> Iterator[tuple[str, float, str]]:
    """Yields a part of the engine's data, its bytes and their arithmetic."""
    known, hosts = goal.pages * inputs.known_urls, _host_count(goal, inputs)
    kept = waiting_in_engine(goal, inputs)
    for name, number, each, of_what in (
        ("seen set", known, inputs.seen_bytes, "known URLs"),
        ("importance", known, inputs.credit_bytes, "known URLs"),
        ("queues", kept, inputs.queued_bytes, "waiting URLs, at most"),
        ("hosts", hosts, inputs.host_bytes, "hosts"),
        ("duplicates", goal.pages, inputs.duplicate_bytes, "pages"),
    ):
        yield name, number * each, f"{figure(number)} {of_what} x {each:g} bytes"


def waiting_in_engine(goal: CrawlGoal, inputs: PlanInputs) -> float:
    """Returns the URLs that wait in the engine at the end, at most: those that hosts of average size would keep."""
    hosts = _host_count(goal, inputs)
    waiting = goal.pages * (inputs.known_urls - 1)
    return min(waiting, hosts * goal.hot_urls) if goal.hot_urls else waiting


def _network(goal: CrawlGoal, inputs: PlanInputs) -> Iterator[MachineNeed]:
    rate = goal.rate
    each = inputs.page_kb + inputs.connection_kb / inputs.connection_pages
    how = f"{figure(rate)} pages/s x {each:g} KB x 8"
    yield MachineNeed("network", "received", rate * each * KB * 8, "bits/s", how)
    opened = rate / inputs.connection_pages
    how = f"{figure(rate)} pages/s / {inputs.connection_pages:g}"
    yield MachineNeed("network", "new connections", opened, "1/s", how)
    pages = min(inputs.lookup_pages, inputs.host_pages)
    how = f"{figure(rate)} pages/s / {pages:g} x {inputs.lookup_queries:g}"
    yield MachineNeed("network", "DNS queries", rate / pages * inputs.lookup_queries, "1/s", how)
    how = f"{figure(rate)} pages/s / {inputs.host_pages:g}, once a host"
    yield MachineNeed("network", "robots.txt, at least", rate / inputs.host_pages, "1/s", how)


def _store(goal: CrawlGoal, inputs: PlanInputs) -> Iterator[MachineNeed]:
    each = inputs.page_kb + inputs.record_kb
    archive = goal.pages * each * KB
    yield MachineNeed("store", "archive", archive, "bytes", f"{figure(goal.pages)} pages x {each:g} KB")
    files = _whole(archive / (inputs.warc_mb * MB))
    yield MachineNeed("store", "WARC files", files, "objects", f"{inputs.warc_mb:g} MB each")
    requests = files * (math.ceil(inputs.warc_mb / inputs.part_mb) + 2)
    how = f"for each file its parts of {inputs.part_mb:g} MB, a beginning and an end"
    yield MachineNeed("store", "S3 requests", requests, "requests", how)
    yield MachineNeed("store", "S3 requests a second", requests / goal.seconds, "1/s", "of the archive")
    spilled = goal.pages * (inputs.known_urls - 1) - waiting_in_engine(goal, inputs)
    how = f"{figure(spilled)} waiting URLs, at least x {inputs.spilled_bytes:g} bytes"
    yield MachineNeed("store", "queues", spilled * inputs.spilled_bytes, "bytes", how)
    known = goal.pages * inputs.known_urls
    how = f"{figure(known)} known URLs x {inputs.seen_disk_bytes:g} bytes"
    yield MachineNeed("store", "seen set", known * inputs.seen_disk_bytes, "bytes", how)
    how = f"{figure(goal.pages)} pages x {inputs.duplicate_disk_bytes:g} bytes"
    yield MachineNeed("store", "duplicates", goal.pages * inputs.duplicate_disk_bytes, "bytes", how)


def _database(goal: CrawlGoal, inputs: PlanInputs) -> Iterator[MachineNeed]:
    yield MachineNeed("database", "rows written", goal.rate, "1/s", "a row a page")
    how = f"{figure(goal.pages)} pages x {inputs.row_bytes:g} bytes"
    yield MachineNeed("database", "size", goal.pages * inputs.row_bytes, "bytes", how)


def figure(number: float) -> str:
    """Returns a number with commas, below 100 with three digits."""
    return f"{number:,.0f}" if number >= 100 or number == round(number) else f"{number:.3g}"


def _whole(number: float) -> float:
    """Rounds up, at least to 1; the small allowance keeps what is whole but for its last bits."""
    return float(max(1, math.ceil(number - 1e-9)))
