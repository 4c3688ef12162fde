"""The metrics of a whole crawl from its engine: counters and bounded samples, at a cost independent of its size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from webcrawl.engine.client import UNAVAILABLE, Memory
from webcrawl.engine.server_loads import ServerLoad
from webcrawl.frontier import Crawl, Frontier, FrontierCounts
from webcrawl.frontier.checkpoint.periodic import CheckpointState, checkpoint_state
from webcrawl.frontier.gauges import Gauges, gauges as read_gauges
from webcrawl.frontier.workers import AllVitals, Vitals
from webcrawl.metrics.families import CRAWL, Family, MetricSample, gauges, samples
from webcrawl.metrics.totals import samples_of
from webcrawl.policies.traffic import CLASSES

GAUGES = gauges(
    CRAWL,
    ("engine_up", "1 if the engine answers; without an answer, no other metric of the crawl is there"),
    ("engine_memory_bytes", "memory that the servers of the engine use"),
    ("engine_memory_limit_bytes", "their `maxmemory`; 0 without a limit"),
    ("engine_server_shards", "shards of the crawl whose slots a primary of the engine has", "server"),
    ("workers", "workers that are alive"),
    (
        "workers_load",
        "load of workers, the `least`, the `mean` and the `most`: 1 keeps a worker busy (docs/scale.md)",
        "statistic",
    ),
    ("workers_shards", "shards of a worker, the `least`, the `mean` and the `most`", "statistic"),
    ("holding_workers", "workers that fetch nothing because their stores accept no more"),
    ("paused", "1 if an operator has paused the crawl"),
    (
        "urls",
        "known URLs that are still to be fetched: `queued`, `leased` by workers, `retrying` after a failure, "
        "`scheduled` for a date, `parked` because their host is blocked or at its limit",
        "state",
    ),
    (
        "queue_urls",
        "queued URLs by level, 0 to 7 or `other`; for crawls with more than about 500 hosts an estimate from a sample",
        "level",
    ),
    (
        "queue_hosts",
        "hosts with queued URLs, without those that are leased or blocked, by their best level",
        "level",
    ),
    (
        "hosts",
        "hosts with queued URLs: `ready` to be asked now, `leased` by a worker, `waiting` for their turn, `blocked` by "
        "an operator or at their limit",
        "state",
    ),
    ("lease_age_seconds", "age of leases: the `median` and the `oldest` of a sample of 512", "statistic"),
    ("seen_urls", "URLs in the seen set"),
    ("cold_seen_urls", "those that are only in the store, because the engine is too small for them"),
    ("cold_seen_buckets", "parts of the seen set in the store, each with a filter in the engine"),
    ("spilled_urls", "URLs in the store of long queues; they are queued too"),
    ("lost_segments", "parts of queues that were damaged or missing when they were read"),
    ("dead_letter_urls", "dead letters that are kept; those that are queued again are none"),
    ("answered_hosts", "hosts that answered, exact within 1%"),
    ("unreachable_hosts", "hosts that never answered, although they were asked, exact within 1%"),
    ("checkpoint_every_seconds", "`CHECKPOINT_EVERY`; 0 for a crawl that never had it"),
    (
        "checkpoint_age_seconds",
        "time since the last checkpoint of `CHECKPOINT_EVERY` began, or since the first should have; 0 without any",
    ),
    ("checkpoint_failing", "1 if the last attempt to write a checkpoint failed"),
    (
        "fetches_wanted_ratio",
        "the share of each class in the fetches that `TRAFFIC` sets, from 0 to 1; not there without it",
        "class",
    ),
)

_OF_SERVERS = {
    base: Family(CRAWL, base, "counter", about, ("server",))
    for base, about in (
        ("engine_server_processor_seconds", "processor time of a primary of the engine since its start"),
        ("engine_server_commands", "commands of a primary since its start, without those that scripts call"),
    )
}
GAUGES |= _OF_SERVERS


async def crawl_samples(frontier: Frontier, crawl: Crawl) -> list[MetricSample]:
    """Returns all metrics of a crawl; only `engine_up` while the engine does not answer."""
    try:
        return [MetricSample(GAUGES["engine_up"], 1), *await _answered(frontier, crawl)]
    except UNAVAILABLE:
        return [MetricSample(GAUGES["engine_up"], 0)]


async def _answered(frontier: Frontier, crawl: Crawl) -> list[MetricSample]:
    counts, totals, now, memory, servers = await asyncio.gather(
        frontier.counts(),
        crawl.totals(),
        read_gauges(frontier),
        frontier.engine.memory(),
        crawl.loads.read(crawl.keys),
    )
    alive, hosts, paused, holding, wanted, checkpoint = await asyncio.gather(
        crawl.workers.alive(),
        crawl.host_counts(),
        crawl.paused(),
        crawl.workers.holding(),
        crawl.traffic(),
        checkpoint_state(crawl.engine, crawl.keys),
    )
    return [
        *_of_engine(memory, servers),
        *_of_workers((await AllVitals(crawl.engine, crawl.keys).of(alive)).values()),
        *samples(GAUGES, [("workers", len(alive)), ("holding_workers", len(holding)), ("paused", paused)]),
        *_of_urls(counts, totals.get("bloom_seen", 0)),
        *_of_gauges(now, max(0, counts.queued - counts.overtaken)),
        *samples(GAUGES, zip(("answered_hosts", "unreachable_hosts"), hosts, strict=True)),
        *_of_classes(wanted),
        *_of_checkpoints(checkpoint or CheckpointState()),
        *samples_of(CRAWL, totals),
    ]


def _of_engine(memory: Memory, servers: Sequence[ServerLoad]) -> Iterator[MetricSample]:
    yield from samples(
        GAUGES, [("engine_memory_bytes", memory.used), ("engine_memory_limit_bytes", memory.limit)]
    )
    for load in servers:
        of_server = {
            "engine_server_shards": load.shards,
            "engine_server_processor_seconds": load.seconds,
            "engine_server_commands": load.commands,
        }
        for base, value in of_server.items():
            yield MetricSample(GAUGES[base], value, (load.address,))


def _of_workers(workers: Collection[Vitals]) -> Iterator[MetricSample]:
    measures: dict[str, list[float]] = {
        "workers_load": [worker.load.busy for worker in workers],
        "workers_shards": [worker.shards for worker in workers],
    }
    for base, values in measures.items():
        numbers = (min(values), sum(values) / len(values), max(values)) if values else (0.0, 0.0, 0.0)
        for statistic, value in zip(("least", "mean", "most"), numbers, strict=True):
            yield MetricSample(GAUGES[base], value, (statistic,))


def _of_urls(counts: FrontierCounts, bloom_seen: int) -> Iterator[MetricSample]:
    states = {
        "queued": max(0, counts.queued - counts.overtaken - counts.parked),
        "leased": counts.leased,
        "retrying": counts.later,
        "scheduled": counts.scheduled,
        "parked": counts.parked,
    }
    for state, number in states.items():
        yield MetricSample(GAUGES["urls"], number, (state,))
    yield from samples(
        GAUGES,
        [
            ("seen_urls", counts.seen + bloom_seen),
            ("cold_seen_urls", counts.cold),
            ("spilled_urls", counts.spilled),
            ("lost_segments", counts.lost_segments),
            ("dead_letter_urls", counts.dead),
        ],
    )


def _of_checkpoints(state: CheckpointState) -> list[MetricSample]:
    values = {
        "every_seconds": state.every,
        "age_seconds": state.age(time.time()),
        "failing": state.failed > 0,
    }
    return samples(GAUGES, [(f"checkpoint_{name}", value) for name, value in values.items()])


def _of_classes(wanted: Mapping[str, float]) -> Iterator[MetricSample]:
    for name in CLASSES if wanted else ():
        yield MetricSample(GAUGES["fetches_wanted_ratio"], wanted.get(name, 0.0), (name,))


def _of_gauges(now: Gauges, queued: int) -> Iterator[MetricSample]:
    states = {"ready": now.ready, "leased": now.leased, "waiting": now.waiting, "blocked": now.blocked}
    for state, number in states.items():
        yield MetricSample(GAUGES["hosts"], number, (state,))
    for level, number in enumerate(now.hosts_by_level):
        yield MetricSample(GAUGES["queue_hosts"], number, (str(level),))
    for level, share in enumerate(now.share_by_level):
        name = str(level) if level < len(now.hosts_by_level) else "other"
        yield MetricSample(GAUGES["queue_urls"], round(share * queued), (name,))
    yield MetricSample(GAUGES["cold_seen_buckets"], now.cold_buckets)
    yield from lease_ages(GAUGES["lease_age_seconds"], now.lease_ages)


def lease_ages(family: Family, ages: Sequence[float]) -> Iterator[MetricSample]:
    """Yields the median and the oldest of sorted ages; 0 without ages."""
    median, oldest = (ages[len(ages) // 2], ages[-1]) if ages else (0.0, 0.0)
    yield MetricSample(family, median, ("median",))
    yield MetricSample(family, oldest, ("oldest",))
