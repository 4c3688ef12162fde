"""Batches of add.lua: discovered URLs by shard and host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from webcrawl.engine.job_crawls import job_of
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call
from webcrawl.frontier.entry import Candidate
from webcrawl.frontier.operations import BATCH

_Group = tuple[str, int | None]
"""URLs that are added together: host and `rise`."""


def add_calls(
    keys: Keys, candidates: Sequence[Candidate], over: Callable[[str], str]
) -> Iterator[tuple[Call, list[int]]]:
    """Yields calls with at most BATCH URLs, each with the places of its URLs among the candidates.

    `over` returns who is over its budget for a host, and its penalty; empty if nobody is.
    """
    by_shard: dict[int, dict[_Group, list[int]]] = {}
    for place, candidate in enumerate(candidates):
        group = candidate.host, candidate.rise
        by_shard.setdefault(keys.shard(candidate.host), {}).setdefault(group, []).append(place)
    for shard, hosts in by_shard.items():
        for batch in _batches(hosts):
            call = Call("add", keys.queue(shard), _arguments(keys, candidates, batch, over))
            yield call, [place for _, places in batch for place in places]


def _arguments(
    keys: Keys,
    candidates: Sequence[Candidate],
    batch: list[tuple[_Group, list[int]]],
    over: Callable[[str], str],
) -> list[str | bytes | int]:
    arguments: list[str | bytes | int] = []
    now, timed = time.time(), bool(job_of(keys.crawl))
    for (host, rise), places in batch:
        arguments += [host, len(places), "" if rise is None else rise, over(host)]
        for place in places:
            arguments += [_mark(keys, candidates[place]), candidates[place].entry(now, timed=timed)]
    return arguments


def _mark(keys: Keys, candidate: Candidate) -> str | int:
    """The argument of the seen test: "" skips it, "!" queues the URL even if it was seen."""
    if candidate.fingerprint is None:
        return ""
    mark = keys.mark(candidate.host, candidate.fingerprint)
    return f"!{mark}" if candidate.anyway else mark


def _batches(groups: dict[_Group, list[int]]) -> Iterable[list[tuple[_Group, list[int]]]]:
    """Cuts the places of one shard, grouped, into batches of at most BATCH."""
    batch: list[tuple[_Group, list[int]]] = []
    room = BATCH
    for alike, places in groups.items():
        for start in range(0, len(places), BATCH):
            group = places[start : start + BATCH]
            if len(group) > room:
                yield batch
                batch, room = [], BATCH
            batch.append((alike, group))
            room -= len(group)
    if batch:
        yield batch
