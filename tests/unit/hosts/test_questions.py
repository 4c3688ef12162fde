"""Which domains wait because they have their share of the questions to nameservers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from webcrawl.hosts.costs import ALL, Cost, Costs
from webcrawl.hosts.questions import Questions


def test_only_a_domain_with_its_share_is_said_to_wait() -> None:
    costs = Costs()
    questions = Questions(8, costs)

    async def run() -> None:
        async with AsyncExitStack() as open_ones:
            for domain, known in (("a.test", False), ("a.test", False), ("b.test", False), ("a.test", True)):
                await open_ones.enter_async_context(questions.turn(domain, known=known))
            assert costs.take() == {}
            third = asyncio.ensure_future(
                open_ones.enter_async_context(questions.turn("a.test", known=False))
            )
            await asyncio.sleep(0)
            assert costs.take() == {"a.test": Cost(waits=1), ALL: Cost(waits=1)}
            for domain in ("b.test", "c.test", "d.test"):
                await open_ones.enter_async_context(questions.turn(domain, known=False))
            # all places for new names are taken, by others
            fourth = asyncio.ensure_future(
                open_ones.enter_async_context(questions.turn("e.test", known=False))
            )
            await asyncio.sleep(0)
            assert not fourth.done()
            assert costs.take() == {}
            third.cancel()
            fourth.cancel()

    asyncio.run(run())
