"""Which requests that only this process holds count as lost when it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

from tests.cases import cases
from webcrawl.scheduler import FrontierScheduler


@cases(("finished", "lost"), [("finished", 0), ("stopped", 2), ("max_pages", 2), (None, 2)])
def test_a_frontier_that_is_empty_has_lost_no_request(finished: str | None, lost: int) -> None:
    """It knew the URLs of those that are held: it keeps no placeholder of a known URL."""
    stats: dict[str, int] = {}

    async def close() -> None:
        """Ends the worker."""

    scheduler: Any = object.__new__(FrontierScheduler)
    scheduler._timer = SimpleNamespace(cancel=lambda: None)
    scheduler._tasks = SimpleNamespace(worker=SimpleNamespace(finished=finished, close=close))
    scheduler._hung = scheduler._feeding = None
    scheduler._held = SimpleNamespace(by_callback=lambda: Counter(parse=2))
    scheduler.stats = SimpleNamespace(set_value=stats.__setitem__)
    asyncio.run(scheduler._close())
    assert stats.get("frontier/lost_requests/parse", 0) == lost
