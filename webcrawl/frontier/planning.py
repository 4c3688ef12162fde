"""The engine's part of a recrawl: who plans, the threshold, which pages are queued to be fetched again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.lock import EngineLock
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.entry import Candidate
from webcrawl.frontier.operations import batches, milliseconds
from webcrawl.policies.crawl_threshold import Threshold
from webcrawl.policies.traffic import CLASSES, Traffic

QUEUED, KNOWN, DROPPED = 0, -1, -2
"""Outcomes of a planned page: it is queued, it was queued before or fetched meanwhile, an operator has dropped it."""


class PlannerTurn(NamedTuple):
    """`plans`: this worker is the planner, and `visits` are those of all workers since the last turn of a planner.

    `threshold` is None before the first.
    """

    plans: bool
    visits: int
    threshold: Threshold | None


class RecrawlState(NamedTuple):
    """How a recrawl is doing, as its planner knew it in the last minute.

    late          pages that are due and wait; `late_seconds` for how long the latest of them has waited
    freshness     the expected share of pages, by weight, whose text is current, from 0 to 1; None if unknown
    """

    late: int = 0
    late_seconds: float = 0.0
    freshness: float | None = None


class PlannedCounts(NamedTuple):
    """The pages that are queued or leased to be fetched again; `late` is the delay of the latest in seconds.

    `classes`: how many there are of each class in each shard, in order (TRAFFIC).
    """

    open: int
    due: int
    late: float
    classes: Sequence[Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Planning:
    """The plan of a crawl in the engine. Methods may raise the errors of UNAVAILABLE, and can be repeated."""

    engine: Engine
    keys: Keys
    worker: str

    async def turn(self, visits: int, lease_seconds: float) -> PlannerTurn:
        """Counts visits of known pages by this worker, and makes it the planner for some seconds if there is none."""
        reply = await self.engine.run(
            script_call(
                "plan_turn",
                [self.keys.own()],
                worker=self.worker,
                lease_ms=milliseconds(lease_seconds),
                visits=visits,
            )
        )
        threshold = Threshold(float(reply.threshold)) if reply.threshold else None
        return PlannerTurn(bool(reply.plans), reply.visits, threshold)

    async def leave(self) -> None:
        """Lets another worker plan at once, if this one is the planner."""
        await EngineLock(self.engine, self.keys.own("planner"), self.worker, 0).leave()

    async def set_state(self, threshold: Threshold, state: RecrawlState) -> None:
        """Sets the threshold of all workers, and how the recrawl is doing."""
        freshness = "" if state.freshness is None else f"{state.freshness:.4f}"
        values = (f"{state.late}", f"{state.late_seconds:.1f}", freshness)
        fields = [word for pair in zip(RecrawlState._fields, values, strict=True) for word in pair]
        key = self.keys.own("recrawl")
        await self.engine.change(key, "HSET", "threshold", repr(threshold.value), *fields)

    async def state(self) -> RecrawlState:
        """Returns how the recrawl is doing; nothing is late, and the freshness unknown, without RECRAWL."""
        [known] = await self.engine.hashes([self.keys.own("recrawl")])
        if b"late" not in known:
            return RecrawlState()
        late, seconds, freshness = (known[name.encode()].decode() for name in RecrawlState._fields)
        return RecrawlState(int(late), float(seconds), float(freshness) if freshness else None)

    async def add(
        self,
        pages: Sequence[tuple[Candidate, float]],
        age: float,
        most_of_host: int,
        traffic: Traffic | None = None,
    ) -> list[int]:
        """Queues pages whose rows were read `age` seconds ago, each for a date in some seconds.

        A class has its share of the pages of a host to itself, by `traffic`. Returns for each page QUEUED, KNOWN,
        DROPPED, or, if its host has enough pages, the milliseconds between two requests to the host.
        """
        outcomes = [KNOWN] * len(pages)
        by_shard = self.keys.by_shard(range(len(pages)), lambda index: pages[index][0].host)
        for shard, indexes in by_shard.items():
            for some in batches(indexes):
                rows = [pages[index] for index in some]
                call = script_call(
                    "plan_pages",
                    self.keys.queue(shard),
                    age_ms=milliseconds(age),
                    most=most_of_host,
                    url={
                        "host": [candidate.host for candidate, _ in rows],
                        "entry": [candidate.entry() for candidate, _ in rows],
                        "wait_ms": [milliseconds(wait) for _, wait in rows],
                        "share": [
                            traffic.of(candidate.host).of_known[candidate.fetch_class] if traffic else 0
                            for candidate, _ in rows
                        ],
                    },
                )
                for index, outcome in zip(some, await self.engine.run(call), strict=True):
                    outcomes[index] = outcome
        return outcomes

    async def counts(self) -> PlannedCounts:
        """Counts the pages that are queued or leased to be fetched again."""
        calls = [script_call("planned", [self.keys.queue(shard)[0]]) for shard in range(self.keys.shards)]
        replies = await self.engine.run_all(calls)
        return PlannedCounts(
            sum(reply.open for reply in replies),
            sum(reply.due for reply in replies),
            max((reply.oldest for reply in replies), default=0) / 1000,
            [dict(zip(CLASSES, reply.of_classes, strict=True)) for reply in replies],
        )
