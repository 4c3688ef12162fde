"""Batches of add.lua: discovered URLs by shard and host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from webcrawl.engine.job_crawls import job_of
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call, script_call
from webcrawl.frontier.entry import Candidate
from webcrawl.frontier.operations import BATCH

_Group = tuple[str, int | None]
"""URLs that are added together: host and `rise`."""


def add_calls(
    keys: Keys, candidates: Sequence[Candidate], over: Callable[[str], str]
) -> Iterator[tuple[Call, list[int]]]:
    """Yields calls with at most BATCH URLs, each with the indexes of its URLs among the candidates.

    `over` returns the owner of a budget that is over it for a host, and its penalty; empty if nobody is.
    """
    now, timed = time.time(), bool(job_of(keys.crawl))
    by_shard: dict[int, dict[_Group, list[int]]] = {}
    for index, candidate in enumerate(candidates):
        group = candidate.host, candidate.rise
        by_shard.setdefault(keys.shard(candidate.host), {}).setdefault(group, []).append(index)
    for shard, hosts in by_shard.items():
        for batch in _batches(hosts):
            indexes = [index for _, group in batch for index in group]
            call = script_call(
                "add",
                keys.queue(shard),
                host={
                    "host": [host for (host, _), _ in batch],
                    "urls": [len(group) for _, group in batch],
                    "rise": ["" if rise is None else rise for (_, rise), _ in batch],
                    "over": [over(host) for (host, _), _ in batch],
                },
                url={
                    "mark": [_mark(keys, candidates[index]) for index in indexes],
                    "entry": [candidates[index].entry(now, timed=timed) for index in indexes],
                },
            )
            yield call, indexes


def _mark(keys: Keys, candidate: Candidate) -> str | int:
    """The argument of the seen test: "" skips it, "!" queues the URL even if it was seen."""
    if candidate.fingerprint is None:
        return ""
    mark = keys.mark(candidate.host, candidate.fingerprint)
    return f"!{mark}" if candidate.anyway else mark


def _batches(groups: dict[_Group, list[int]]) -> Iterable[list[tuple[_Group, list[int]]]]:
    """Cuts the indexes of one shard, grouped, into batches of at most BATCH."""
    batch: list[tuple[_Group, list[int]]] = []
    room = BATCH
    for group, indexes in groups.items():
        for start in range(0, len(indexes), BATCH):
            some = indexes[start : start + BATCH]
            if len(some) > room:
                yield batch
                batch, room = [], BATCH
            batch.append((group, some))
            room -= len(some)
    if batch:
        yield batch
