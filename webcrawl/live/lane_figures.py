"""The figures of the live lane for people: messages, how long answers took, and what services did for each token."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import CALLERS, LIVE_DEAD
from webcrawl.engine.replication import Command
from webcrawl.metrics.observations import LIVE_BOUNDS
from webcrawl.metrics.totals import LIVE_ANSWERS, LIVE_SECONDS

QUEUED = "queued"
"""The figure of the URLs that a token has put into the lane; the other figures are reasons of refusals."""
_MOST_CALLERS = 100


@dataclass(frozen=True, slots=True)
class CallerFigures:
    """What services did for a token: URLs that it put into the lane, and refusals by reason."""

    name: str
    queued: int
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """The figures since the lane began.

    read     messages that workers have read
    waiting  messages that wait or are worked on
    dead     messages in the stream of those that cannot be used
    answers  URLs by outcome: `fetched`, `stored`, or the word for an error
    waits    upper bound in seconds, infinite for the last -> answers that took at most as long, and longer than the
             bound before
    callers  by token, those with most URLs first
    """

    read: int
    waiting: int
    dead: int
    answers: Mapping[str, int]
    waits: Mapping[float, int]
    callers: list[CallerFigures]

    @property
    def answered(self) -> int:
        return sum(self.answers.values())

    def within(self, share: float) -> float:
        """Returns the bound within which at least this share of the answers came; 0 without answers."""
        left = share * sum(self.waits.values())
        for bound, number in self.waits.items():
            left -= number
            if left <= 0:
                return bound if sum(self.waits.values()) else 0.0
        return math.inf


async def lane_figures(engine: Engine, totals: Mapping[str, int], stream: str) -> LaneFigures:
    """Reads the figures. `totals`: of the crawl of the lane; `stream`: LIVE_STREAM.

    Raises the errors of UNAVAILABLE.
    """
    client = engine.client
    waiting, dead, callers = (
        await client.xlen(stream),
        await client.xlen(LIVE_DEAD),
        await client.hgetall(CALLERS),
    )
    answers = Counter(
        {
            name.removeprefix(LIVE_ANSWERS): number
            for name, number in totals.items()
            if name.startswith(LIVE_ANSWERS)
        }
    )
    return LaneFigures(
        totals.get("live_messages", 0),
        waiting,
        dead,
        dict(answers.most_common()),
        {bound: totals.get(f"{LIVE_SECONDS}{bound:g}", 0) for bound in (*LIVE_BOUNDS, math.inf)},
        _callers(callers),
    )


async def add_callers(engine: Engine, numbers: Mapping[tuple[str, str], int]) -> None:
    """Adds to the figures by name of the token and figure. Raises the errors of UNAVAILABLE."""
    commands = [
        Command(CALLERS, ("HINCRBY", CALLERS, f"{token} {figure}", number))
        for (token, figure), number in numbers.items()
    ]
    if commands:
        await engine.change_all(commands)


def _callers(fields: Mapping[bytes, bytes]) -> list[CallerFigures]:
    by_token: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for field, number in fields.items():
        token, _, figure = field.decode().partition(" ")
        by_token[token][figure] += int(number)
    callers = [
        CallerFigures(token, figures.pop(QUEUED, 0), dict(figures.most_common()))
        for token, figures in by_token.items()
    ]
    return sorted(callers, key=lambda caller: (-caller.queued, caller.name))[:_MOST_CALLERS]
