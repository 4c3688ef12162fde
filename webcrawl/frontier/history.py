"""The history of a crawl's figures: samples of the last hour, and sparser samples since its start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.figures import CrawlFigures

SAMPLE_SECONDS = 10.0
"""Seconds between two samples of the last hour."""
MOST_SAMPLES = 360
"""The most samples of the last hour, and since the start, where at least half as many are kept. Each takes 70 bytes."""
_SPEED_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class FigureSample:
    """Figures at one time, in seconds since 1970. `errors` are HTTP errors: responses of status 400 or above.

    `checked`: as in `CrawlFigures.checked`; 0 in samples of earlier versions.
    """

    time: float
    pages: int
    bytes: int
    errors: int
    failed: int
    retried: int
    queued: int
    leased: int
    hosts: int
    dead_letters: int
    workers: int
    checked: int = 0

    @classmethod
    def of(cls, now: CrawlFigures, time: float) -> FigureSample:
        """Returns the sample of these figures."""
        http_errors = sum(count for status, count in now.responses.items() if status >= "400")
        return cls(
            time,
            now.pages,
            now.bytes,
            http_errors,
            now.failed,
            now.retried,
            now.queued,
            now.leased,
            now.hosts,
            now.dead_letters,
            now.workers,
            now.checked,
        )


@dataclass(frozen=True, slots=True)
class History:
    """The history of one crawl, which its workers write. Its size is bounded for a crawl of any length."""

    engine: Engine
    keys: Keys

    async def add(self, now: CrawlFigures) -> bool:
        """Adds a sample, with the engine's time; returns False if the last sample is recent."""
        _, *figures = astuple(FigureSample.of(now, 0.0))
        text = " ".join(str(figure) for figure in figures)
        call = script_call(
            "sample", [self.keys.own()], figures=text, gap_ms=int(SAMPLE_SECONDS * 1000), most=MOST_SAMPLES
        )
        return bool(await self.engine.run(call))

    async def hour(self) -> list[FigureSample]:
        """Returns the samples of the last hour of work, the oldest first."""
        return await self._read("hour")

    async def whole(self) -> list[FigureSample]:
        """Returns samples since the start of the crawl, the oldest first; a longer crawl has longer intervals."""
        return await self._read("whole")

    async def checks_per_second(self) -> float:
        """Returns the repeated visits per second over the last half minute of work; 0 with fewer than two samples."""
        samples = await self._read("hour", -_SPEED_SAMPLES)
        seconds = samples[-1].time - samples[0].time if samples else 0.0
        return (samples[-1].checked - samples[0].checked) / seconds if seconds > 0 else 0.0

    async def _read(self, name: str, first: int = 0) -> list[FigureSample]:
        raw: Sequence[bytes] = await self.engine.client.lrange(self.keys.own(f"samples:{name}"), first, -1)
        return [_sample(text) for text in raw]


def _sample(text: bytes) -> FigureSample:
    time, *figures = (int(word) for word in text.split())
    return FigureSample(time / 1000, *figures)
