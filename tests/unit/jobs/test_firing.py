"""Of any number of processes that fire a job or take an iteration at once, one does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from webcrawl.jobs.claims import IterationClaims
from webcrawl.jobs.firing import fire
from webcrawl.jobs.records import Iteration, IterationState
from webcrawl.jobs.store import JobStore

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
THREADS, ROUNDS = 4, 12


def test_each_firing_is_made_and_taken_once(uri: str) -> None:
    stores = [JobStore(uri) for _ in range(THREADS)]
    stores[0].apply([{"name": "news", "cron": "0 * * * *", "spider": "s"}], BEGIN)
    claims = [IterationClaims(store, shared_engine=True, scheduler=str(n)) for n, store in enumerate(stores)]
    barrier = threading.Barrier(THREADS)

    def at_once(work: Callable[[int], list[Iteration]]) -> list[Iteration]:
        def one(place: int) -> list[Iteration]:
            barrier.wait(60)
            return work(place)

        return [made for found in pool.map(one, range(THREADS)) for made in found]

    with ThreadPoolExecutor(THREADS) as pool:
        for hour in range(1, ROUNDS + 1):
            now = BEGIN + timedelta(hours=hour)
            (made,) = at_once(lambda place, now=now: fire(stores[place], "news", now))
            assert (made.number, made.due) == (hour, now)
            (taken,) = at_once(
                lambda place, now=now, made=made: [
                    one for one in [claims[place].take(made, None, now)] if one is not None
                ]
            )
            assert (taken.fence, taken.state) == (1, IterationState.RUNNING)
            claims[int(taken.holder or "")].end(taken, IterationState.FINISHED, "finished", None, now)
    for store in stores:
        store.close()
