"""Why a crawl ended, for those who did not see its workers end, such as the scheduler of scrapyd nodes."""

from __future__ import annotations

from webcrawl.engine.scripts import script_call
from webcrawl.frontier.crawl import Crawl


async def note_end(crawl: Crawl, reason: str) -> None:
    """Stores why a run of a worker ended, as in summary.json; also if the engine is full."""
    await crawl.engine.run(script_call("note_end", [crawl.keys.own("info")], reason=reason))


async def last_end(crawl: Crawl) -> str | None:
    """Returns why the run of a worker that ended last did so; None if none has."""
    reason = await crawl.engine.client.hget(crawl.keys.own("info"), "ended")
    return None if reason is None else str(reason.decode())
