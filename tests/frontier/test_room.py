"""Discovered URLs that the engine does not have yet take a bounded part of the memory."""

from __future__ import annotations

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import page
from webcrawl.frontier import Frontier
from webcrawl.worker.worker import MOST_DISCOVERED


async def test_pages_with_many_links_wait_until_the_engine_has_most_of_them(frontier: Frontier) -> None:
    consumer = Consumer(frontier, lambda url: page_with())
    consumer.stopped = True
    consumer.start(seeding=True)
    worker, most = consumer.worker, 0
    for batch in range(30):
        await worker.room()
        for number in range(500):
            worker.add(page(f"http://h.test/{batch}/{number}"))
        most = max(most, len(worker.discovered))
    assert MOST_DISCOVERED < most <= MOST_DISCOVERED + 500
    await worker.close()
    assert (await frontier.counts()).seen == 30 * 500
    # nobody sends them any more
    worker.discovered._waiting.extend(page(f"http://h.test/late/{number}") for number in range(20_000))
    await worker.room()
