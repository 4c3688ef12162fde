"""Helpers for the part of the seen set that is in the store."""

from __future__ import annotations

from pathlib import Path

from webcrawl.frontier import Crawl, Frontier
from webcrawl.frontier.cold_hosts import ColdHosts
from webcrawl.frontier.cold_seen import ColdSeen
from webcrawl.frontier.tails import Tails


def cold_of(frontier: Frontier, folder: Path, **options: float) -> ColdSeen:
    """Gives a frontier a store for the cold part of its seen set."""
    record = Crawl(frontier.engine, frontier.keys, frontier.worker)
    tails = Tails(frontier.engine, frontier.keys, record, folder.as_uri())
    frontier.cold = ColdSeen(tails, **options)  # type: ignore[arg-type]
    return frontier.cold


def cold_hosts_of(frontier: Frontier, folder: Path) -> ColdHosts:
    """Gives a frontier a store for the records of its idle hosts."""
    record = Crawl(frontier.engine, frontier.keys, frontier.worker)
    frontier.cold_hosts = ColdHosts(Tails(frontier.engine, frontier.keys, record, folder.as_uri()))
    return frontier.cold_hosts


async def spill(frontier: Frontier) -> int:
    assert frontier.cold
    return sum([await frontier.cold.spill(shard) for shard in range(frontier.keys.shards)])


def damage(segment: Path, what: str) -> None:
    """Deletes a segment, or its end, or changes its last byte."""
    content = segment.read_bytes()
    segment.unlink()
    if what == "end":
        segment.write_bytes(content[:-1])
    elif what == "byte":
        segment.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
