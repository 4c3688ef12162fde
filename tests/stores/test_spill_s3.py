"""Tails of long queues in an S3 bucket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.frontier.pages import page
from tests.frontier.spilling import fetch, numbered, serve
from tests.s3server import Line
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError, StoreError
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.tails import Tails


def test_tails_in_a_bucket_are_refilled_in_order_and_deleted(
    line: Line, bucket: Callable[[], dict[str, bytes]], redis_url: str
) -> None:
    asyncio.run(asyncio.wait_for(_spill_and_refill(line, bucket, redis_url), 60))


async def _spill_and_refill(line: Line, bucket: Callable[[], dict[str, bytes]], redis_url: str) -> None:
    engine = Engine(redis_url)
    frontier = Frontier(engine, Keys("crawl", 1), "w")
    record = Crawl(engine, frontier.keys, "w")
    await record.configure(200, "breadth-first")
    tails = Tails(engine, frontier.keys, record, "s3://pages/queues")
    await tails.check()
    await frontier.add([page(url) for url in numbered(2000)])
    await serve(tails, frontier)
    assert (await frontier.counts()).spilled >= 1800
    folder = await record.tails()
    assert folder
    names = list(bucket())
    assert len(names) >= 3
    assert all(name.startswith(f"queues/{folder}/") for name in names)
    line.cut()
    with pytest.raises(StoreError):
        await tails.carry_out(await _plan_with_reads(frontier, tails))
    line.mend()
    assert (await frontier.counts()).lost_segments == 0, "an outage of S3 loses no segment"
    # 150 were in the engine; reaping returns those leased above
    await frontier.reap(everything=True)
    assert await fetch(frontier, tails, 50) == numbered(2000)
    other = Tails(engine, frontier.keys, record, "s3://nowhere/queues")
    with pytest.raises(StoreError, match="FRONTIER_SPILL_URI .*there is no bucket"):
        await other.check()
    await frontier.add([page(url) for url in numbered(400, 2000)])
    await serve(tails, frontier)
    with pytest.raises(ConfigurationError, match="same store"):
        await Tails(engine, frontier.keys, record, "s3://pages/elsewhere").check()
    await tails.clear(folder)
    assert bucket() == {}
    await engine.close()


async def _plan_with_reads(frontier: Frontier, tails: Tails):  # type: ignore[no-untyped-def]
    await frontier.lease(1, 120)
    (plan,) = await tails.plan([0])
    assert plan.reads
    return plan
