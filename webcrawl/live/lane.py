"""The stream of the live lane, as those who put URLs in see it, and its figures for people."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import CALLERS, LIVE_DEAD, LIVE_URLS
from webcrawl.engine.replication import Command
from webcrawl.errors import LiveLaneFull
from webcrawl.live.request import LiveRequest
from webcrawl.metrics.observations import LIVE_BOUNDS
from webcrawl.metrics.totals import LIVE_ANSWERS, LIVE_SECONDS

MOST_WAITING = 5_000
"""The messages that may wait or be worked on before the lane is full."""
_LOOK_SECONDS = 0.2
_SAMPLES = 50
_SHORTEST_RETRY, _LONGEST_RETRY = 1.0, 60.0
QUEUED = "queued"
"""The figure of the URLs that a token has put into the lane; the other figures are reasons of refusals."""
_MOST_CALLERS = 100


class LiveLane:
    """Puts messages into the stream of the live lane. The stream has only messages that are not finished.

    `most` is the number of messages that may wait; `stream` is LIVE_STREAM. Methods raise the errors of UNAVAILABLE.
    """

    def __init__(self, engine: Engine, *, stream: str = LIVE_URLS, most: int = MOST_WAITING) -> None:
        self.stream = stream
        self._engine = engine
        self._most = most
        self._waiting = 0
        """The number of messages in the stream when it was last looked at, and those that were put since."""
        self._looked = -math.inf
        self._finished: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        """Monotonic time, and the number of messages that were finished since the stream began."""

    async def put(self, requests: Sequence[LiveRequest]) -> list[str]:
        """Appends messages; returns their IDs in the stream.

        Raises LiveLaneFull, and WrongMessage for a message that is too long, and then appends none.
        """
        if time.monotonic() - self._looked > _LOOK_SECONDS or self._waiting + len(requests) > self._most:
            await self._look()
        if self._waiting + len(requests) > self._most:
            raise LiveLaneFull(self._waiting, self._retry_after(len(requests)))
        commands = [
            Command(self.stream, ("XADD", self.stream, "*", *_flat(request.to_message())))
            for request in requests
        ]
        self._waiting += len(requests)
        return [_text(number) for number in await self._engine.change_all(commands)]

    async def waiting(self) -> int:
        """Returns the number of messages that wait or are worked on."""
        await self._look()
        return self._waiting

    async def _look(self) -> None:
        client, self._looked = self._engine.client, time.monotonic()
        if not await client.exists(self.stream):
            self._waiting = 0
            return
        stream = await client.xinfo_stream(self.stream)
        self._waiting = int(stream["length"])
        self._finished.append((self._looked, int(stream["entries-added"]) - self._waiting))

    def _retry_after(self, more: int) -> float:
        """Returns the seconds in which the messages that are too many will be finished, at the rate of late."""
        (since, before), (now, finished) = self._finished[0], self._finished[-1]
        rate = (finished - before) / (now - since) if now > since else 0.0
        seconds = (self._waiting + more - self._most) / rate if rate > 0 else _LONGEST_RETRY
        return min(max(seconds, _SHORTEST_RETRY), _LONGEST_RETRY)


def _flat(message: dict[str, str]) -> list[str]:
    return [word for field in message.items() for word in field]


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


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
