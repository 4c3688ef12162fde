"""The figures of the live lane, from totals and from what services did for each token."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from redis import Redis

from webcrawl.engine.client import Engine
from webcrawl.live.lane import CallerFigures, add_callers, lane_figures
from webcrawl.metrics.totals import live_bucket


async def test_figures_are_those_of_totals_and_callers(
    engine_at: Callable[..., Engine], redis_url: str, valkey: Redis
) -> None:
    engine = engine_at(redis_url)
    empty = await lane_figures(engine, {}, "live:urls")
    assert (empty.answered, empty.within(0.5), empty.callers) == (0, 0.0, [])
    valkey.xadd("live:urls", {"url": "http://a.test/"})
    valkey.xadd("live:dead", {"error": "no"})
    # services add at the same time
    await add_callers(engine, {("a", "queued"): 3, ("a", "quota"): 1, ("", "unknown-token"): 2})
    await add_callers(engine, {("a", "queued"): 2, ("b", "queued"): 9})
    await add_callers(engine, {})
    waits = Counter(map(live_bucket, [0.05, 0.3, 0.4, 1000.0]))
    totals = waits | {"live.fetched": 3, "live.robots": 1, "live_messages": 4, "pages": 7}
    now = await lane_figures(engine, totals, "live:urls")
    assert (now.read, now.waiting, now.dead, now.answered) == (4, 1, 1, 4)
    assert list(now.answers.items()) == [("fetched", 3), ("robots", 1)]
    assert (now.waits[0.1], now.waits[0.5], now.waits[math.inf]) == (1, 2, 1)
    assert (now.within(0.25), now.within(0.5), now.within(0.99)) == (0.1, 0.5, math.inf)
    assert now.callers == [
        CallerFigures("b", 9, {}),
        CallerFigures("a", 5, {"quota": 1}),
        CallerFigures("", 0, {"unknown-token": 2}),
    ]
