"""Discovered URLs that the engine does not have yet take a bounded part of the memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from redis import Redis

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import page
from webcrawl.frontier import Frontier
from webcrawl.worker import link_intake
from webcrawl.worker.link_intake import MOST_DISCOVERED


async def test_pages_with_many_links_wait_until_the_engine_has_most_of_them(frontier: Frontier) -> None:
    consumer = Consumer(frontier, lambda url: page_with())
    consumer.stopped = True
    consumer.start(seeding=True)
    worker, most = consumer.worker, 0
    for batch in range(30):
        await worker.intake.room()
        for number in range(500):
            worker.add(page(f"http://h.test/{batch}/{number}"))
        most = max(most, len(worker.intake))
    assert MOST_DISCOVERED < most <= MOST_DISCOVERED + 500
    await worker.close()
    assert (await frontier.counts()).seen == 30 * 500
    # nobody sends them any more
    worker.intake._waiting.extend(page(f"http://h.test/late/{number}") for number in range(20_000))
    await worker.intake.room()


async def test_pages_of_a_crawl_that_ends_wait_only_while_the_engine_takes_links(
    frontier: Frontier, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_intake, "_ENDING_PATIENCE", 60.0)
    consumer = Consumer(frontier, lambda url: page_with())
    consumer.stopped = True
    consumer.start(seeding=True)
    worker, most, ending = consumer.worker, 0, asyncio.Event()
    ending.set()

    async def add(batches: Iterable[int]) -> None:
        nonlocal most
        for batch in batches:
            async with worker.intake.turn_to_add(ending):
                for number in range(500):
                    worker.add(page(f"http://h.test/{batch}/{number}"))
            most = max(most, len(worker.intake))

    await add(range(60))
    assert MOST_DISCOVERED < most <= MOST_DISCOVERED + 500
    monkeypatch.setattr(link_intake, "_ENDING_PATIENCE", 0.5)
    valkey.client_pause(3_000)
    await add(range(60, 120))
    assert most > 2 * MOST_DISCOVERED
    await worker.close()
    assert (await frontier.counts()).seen == 120 * 500


async def test_batches_of_a_crawl_that_ends_do_not_wait_but_let_other_tasks_run(frontier: Frontier) -> None:
    consumer = Consumer(frontier, lambda url: page_with())
    worker, ran = consumer.worker, 0

    async def run() -> None:
        nonlocal ran
        while True:
            ran += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(run())
    ending = asyncio.Event()
    ending.set()
    async with worker.intake.turn():  # another page's, which is not waited for
        for _ in range(20):
            async with worker.intake.turn_to_add(ending):
                pass
    other.cancel()
    assert ran >= 19
