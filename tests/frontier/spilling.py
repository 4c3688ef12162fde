"""Helpers for long queues: set up, serve and fetch queues whose tails are in a store."""

from __future__ import annotations

from pathlib import Path

from tests.frontier.pages import all_done, urls_of
from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.tails import Tails

HOST = "http://long.test"
OTHER = "http://short.test"


async def spilling(frontier: Frontier, folder: Path, hot: int = 8, **options: object) -> Tails:
    """Limit the hot lists and return the tails of a frontier's queues, stored below `folder`."""
    record = Crawl(frontier.engine, frontier.keys, frontier.worker)
    await record.configure(hot, str(options.pop("order", "breadth-first")))
    return Tails(frontier.engine, frontier.keys, record, folder.as_uri(), **options)  # type: ignore[arg-type]


async def serve(tails: Tails, frontier: Frontier) -> int:
    """Carry out all pending plans; returns their number."""
    done = 0
    while plans := [plan for plan in await tails.plan(range(frontier.keys.shards)) if plan]:
        for plan in plans:
            await tails.carry_out(plan)
        done += len(plans)
    return done


async def fetch(frontier: Frontier, tails: Tails, urls: int = 10) -> list[str]:
    """Fetch the whole crawl; returns its URLs in lease order."""
    order: list[str] = []
    while not await frontier.finished():
        for lease in await frontier.lease(10, urls):
            order += urls_of([lease])
            await frontier.release(lease, all_done(lease))
        await serve(tails, frontier)
    return order


def numbered(count: int, start: int = 0, host: str = HOST) -> list[str]:
    return [f"{host}/{n}" for n in range(start, start + count)]
