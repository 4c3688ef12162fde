"""URLs on their way into the frontier: what the engine has answered so far, and the calls that are left."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import xxhash

from webcrawl.engine.keys import Keys, job_of
from webcrawl.engine.scripts import Call, script_call
from webcrawl.errors import StoreUnavailable
from webcrawl.frontier.cold_seen import ColdSeen
from webcrawl.frontier.entry import Candidate
from webcrawl.frontier.operations import BATCH

_ASKED = ord("?")
"""The verdict on a URL that is to be added again with an answer."""

_Group = tuple[str, int | None]
"""URLs that are added together: host and `rise`."""


@dataclass(slots=True)
class Addition:
    """Some URLs until the engine has them all; `Frontier.add` can be repeated with it after an error.

    A repeat queues no URL twice, even if the reply was lost. URLs that the seen test does not refuse are recognised by
    the name of their batch, for ten minutes.

    The engine leaves URLs out that may be in the part of the seen set that is in the store. They are added again with
    an answer of the store.
    """

    candidates: Sequence[Candidate]
    verdicts: list[bool] = field(init=False)
    """Whether each URL was queued."""
    shallow: set[str] = field(default_factory=set, init=False)
    """Hosts of URLs that are deeper than an operator allows. These URLs do not count as seen."""
    unsure: dict[int, str] = field(default_factory=dict, init=False)
    """The indexes of the URLs that need an answer of the store, and the descriptors of the parts that may have them."""
    _answers: dict[int, str] = field(init=False)
    """The indexes of the URLs for the next calls, and what is known of their cold buckets; "" for nothing."""
    _name: str = field(default="", init=False)
    _reading: asyncio.Task[list[str]] | None = field(default=None, init=False)
    _waited: bool = field(default=False, init=False)
    """The store has kept `ask` waiting or has failed, so the parts may have been replaced."""

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begins anew, as with an engine that may have lost some of the URLs; it recognises what it has."""
        self.abandon()
        self.verdicts = [False] * len(self.candidates)
        self._answers = dict.fromkeys(range(len(self.candidates)), "")
        self.unsure, self._waited = {}, False

    @property
    def is_complete(self) -> bool:
        """Whether the engine has all URLs."""
        return not (self._answers or self.unsure)

    async def ask(self, keys: Keys, seen: ColdSeen, patience: float) -> None:
        """Asks the store for the unsure URLs.

        Raises StoreError if it fails, StoreUnavailable if it takes longer than `patience` seconds. The next call then
        goes on with the same read, and only looks.
        """
        if self._reading is None:
            urls = map(self.candidates.__getitem__, self.unsure)
            marks = [keys.mark(url.host, url.fingerprint or 0) for url in urls]
            # a bucket may change before its answer arrives, so the answer names its version
            parts = await seen.parts_of(marks) if self._waited else list(self.unsure.values())
            self._reading = asyncio.create_task(seen.answers(marks, parts))
            self._waited = False
        done, _ = await asyncio.wait([self._reading], timeout=0.0 if self._waited else patience)
        self._waited = True
        if not done:
            raise StoreUnavailable("the store of the seen set does not answer")
        reading, self._reading = self._reading, None
        self._answers = dict(zip(self.unsure, reading.result(), strict=True))
        self.unsure, self._waited = {}, False

    def abandon(self) -> None:
        """Ends a read of the store, if there is one."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def calls(self, keys: Keys, over: Callable[[str], str]) -> Iterator[tuple[Call, list[int]]]:
        """Yields calls with at most BATCH URLs, each with the indexes of its URLs among the candidates.

        `over` returns "owner penalty" if an owner of the host is over its budget, otherwise an empty text.
        """
        now, timed = time.time(), bool(job_of(keys.crawl))
        by_shard: dict[int, dict[_Group, list[int]]] = {}
        for index in self._answers:
            candidate = self.candidates[index]
            group = candidate.host, candidate.rise
            by_shard.setdefault(keys.shard(candidate.host), {}).setdefault(group, []).append(index)
        for shard, hosts in by_shard.items():
            for batch in _batches(hosts):
                indexes = [index for _, group in batch for index in group]
                call = script_call(
                    "add",
                    keys.queue(shard),
                    batch=self._name_of(indexes),
                    host={
                        "host": [host for (host, _), _ in batch],
                        "urls": [len(group) for _, group in batch],
                        "rise": ["" if rise is None else rise for (_, rise), _ in batch],
                        "over": [over(host) for (host, _), _ in batch],
                    },
                    url={
                        "mark": [
                            _mark(keys, self.candidates[index], self._answers[index]) for index in indexes
                        ],
                        "entry": [self.candidates[index].entry(now, timed=timed) for index in indexes],
                    },
                )
                yield call, indexes

    def _name_of(self, indexes: Sequence[int]) -> str:
        """Returns the name by which the engine recognises a repeat of a call; "" if the seen test refuses its URLs.

        A repeat has the same URLs with the same answers.
        """
        urls = map(self.candidates.__getitem__, indexes)
        if not any(url.anyway or url.fingerprint is None for url in urls):
            return ""
        self._name = self._name or os.urandom(8).hex()
        what = repr([(index, self._answers[index]) for index in indexes])
        return f"{self._name}{xxhash.xxh64_hexdigest(what.encode())}"

    def take(self, calls: Sequence[tuple[Call, list[int]]], replies: Sequence[Any]) -> None:
        """Takes the replies to all calls."""
        self._answers = {}
        for (_, indexes), reply in zip(calls, replies, strict=True):
            for index, verdict in zip(indexes, reply.verdicts.decode(), strict=True):
                self.verdicts[index] = verdict == "1"
                if verdict == "d":
                    self.shallow.add(self.candidates[index].host)
            if reply.parts:
                asked = [
                    index for index, verdict in zip(indexes, reply.verdicts, strict=True) if verdict == _ASKED
                ]
                self.unsure.update(zip(asked, (part.decode() for part in reply.parts), strict=True))


def _mark(keys: Keys, candidate: Candidate, answer: str) -> str | int:
    """Returns the argument of the seen test: "" skips it, "!" queues a URL that was seen, "?" has an answer."""
    if candidate.fingerprint is None:
        return ""
    number = keys.mark(candidate.host, candidate.fingerprint)
    mark = f"!{number}" if candidate.anyway else number
    return f"?{mark} {answer}" if answer else mark


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
