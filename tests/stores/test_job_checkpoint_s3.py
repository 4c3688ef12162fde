"""Scheduled checkpoints of jobs in S3: written, kept, restored and deleted, also across an outage."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.crawl.upkeep import NOW, URL, Upkeep
from tests.crawls import scrapy
from tests.frontier.pages import page
from tests.s3server import Line
from tests.stores.buckets import environment
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration, IterationState
from webcrawl.stores.objects.store import open_store

Bucket = Callable[[], dict[str, bytes]]
PLAN = {"to": "s3://pages/copies", "hours": 6, "keep": 2}


@pytest.fixture
def upkeep(tmp_path: Path, redis_url: str, line: Line) -> Upkeep:
    return Upkeep(tmp_path, redis_url)


def stamps(bucket: Bucket, one: Iteration) -> list[str]:
    """The folders with checkpoints of an iteration, complete or not."""
    parts = [name.split("/") for name in bucket() if name.startswith("copies/")]
    assert {crawl for _, crawl, *_ in parts} <= {one.crawl}
    return sorted({stamp for _, _, stamp, *_ in parts})


def sweep(upkeep: Upkeep, definition: Definition, one: Iteration, hours: float) -> None:
    asyncio.run(upkeep.sweeper.sweep([(definition, one)], NOW + timedelta(hours=hours)))


def command(upkeep: Upkeep, line: Line, *words: str) -> str:
    options = [word for name, value in upkeep.values.items() for word in ("-s", f"{name}={value}")]
    done = scrapy(*words, *options, env=environment(line))
    return done.stdout


async def add(upkeep: Upkeep, definition: Definition, one: Iteration, path: str) -> None:
    async with upkeep.crawls.opened(definition, one) as opened:
        await opened.connection.frontier.add([page(f"{URL}{path}")])


def test_the_latest_checkpoints_are_kept_and_restored(upkeep: Upkeep, line: Line, bucket: Bucket) -> None:
    """Each as it was when it was written, as a crawl of another name."""
    definition = upkeep.job(checkpoints=PLAN)
    one = upkeep.iteration(definition, NOW, ended=None)
    for hour in range(0, 20, 3):
        sweep(upkeep, definition, one, hour)
        asyncio.run(add(upkeep, definition, one, str(hour)))
    kept = stamps(bucket, one)
    assert kept == ["20260301T180000Z", "20260302T000000Z"]
    for number, stamp in enumerate(kept):
        place = f"s3://pages/copies/{one.crawl}/{stamp}"
        command(upkeep, line, "restore", place, f"again{number}")
        known = map(json.loads, command(upkeep, line, "urls", f"again{number}").splitlines())
        assert {(url["url"], url["state"]) for url in known} == {
            (f"{URL}{path}", "queued") for path in ["", *map(str, range(0, (12, 18)[number], 3))]
        }


def test_an_outage_delays_a_checkpoint_and_leaves_nothing_behind(
    upkeep: Upkeep, line: Line, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    definition = upkeep.job(checkpoints=PLAN)
    one = upkeep.iteration(definition, NOW, ended=None)
    sweep(upkeep, definition, one, 6)
    line.cut()
    with caplog.at_level(logging.WARNING, "webcrawl.jobs"):
        sweep(upkeep, definition, one, 12)
    assert f"Cannot do now: checkpoint of {one.crawl}: " in caplog.text
    line.mend()
    assert stamps(bucket, one) == ["20260301T120000Z"]
    # of a scheduler that died while it wrote
    store = open_store(f"s3://pages/copies/{one.crawl}", "checkpoints")
    store.put("20260301T110000Z/part", b"half of it")
    sweep(upkeep, definition, one, 12 + 1 / 60)
    assert stamps(bucket, one)[-1] == "20260301T180100Z", "at once, not six hours later"
    sweep(upkeep, definition, one, 19)
    assert stamps(bucket, one) == ["20260301T180100Z", "20260302T010000Z"]


def test_retention_deletes_the_checkpoints_of_an_iteration(
    upkeep: Upkeep, line: Line, bucket: Bucket
) -> None:
    definition = upkeep.job(checkpoints=PLAN, keep={"iterations": 1})
    made = []
    for day in range(2):
        one = upkeep.iteration(definition, NOW + timedelta(days=day), ended=None)
        sweep(upkeep, definition, one, 24 * day + 6)
        upkeep.claims.end(one, IterationState.FINISHED, "finished", None, NOW + timedelta(days=day, hours=7))
        made.append(one)
    asyncio.run(upkeep.sweeper.sweep([], NOW + timedelta(days=2)))
    assert stamps(bucket, made[1]) == ["20260302T120000Z"]
