"""The live lane for the page of its crawl: figures, and the rate of answers over the last half minute."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from webcrawl.config import read
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import LIVE_CRAWL
from webcrawl.live.lane_figures import LaneFigures, lane_figures
from webcrawl.opened import Connection

_RATE_SECONDS = 30.0
_Readings: TypeAlias = deque[tuple[float, int]]
_readings: WeakKeyDictionary[Engine, _Readings] = WeakKeyDictionary()
"""The times of the last readings, and the answers until then. The engine has no rates."""


@dataclass(frozen=True, slots=True)
class ShownLane:
    """The figures, and answers a second; None until the page was read twice."""

    figures: LaneFigures
    rate: float | None


async def shown_lane(connection: Connection, settings: Any) -> ShownLane | None:
    """Returns the lane if the crawl is that of the live lane. Raises the errors of UNAVAILABLE."""
    if connection.keys.crawl != LIVE_CRAWL:
        return None
    totals = await connection.crawl.totals()
    figures = await lane_figures(connection.engine, totals, read(settings, "LIVE_STREAM"))
    return ShownLane(figures, _rate(connection.engine, figures.answered))


def _rate(engine: Engine, answered: int) -> float | None:
    now = time.monotonic()
    readings = _readings.setdefault(engine, deque())
    readings.append((now, answered))
    while now - readings[0][0] > _RATE_SECONDS and len(readings) > 2:
        readings.popleft()
    (since, before), *_ = readings
    # a lane that was cleared begins again
    return max(0, answered - before) / (now - since) if now - since >= 1.0 else None
