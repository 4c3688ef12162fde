"""Changes the levels and dates of URLs that wait, or drops them, beside running workers.

A script makes the changes of a host, and finds the URLs in the host's lists at that moment. So a URL that was leased
meanwhile is not changed. A part of a queue in the store is written again without the changed URLs, and replaces the
old part only if the old part has not moved. While a checkpoint or a listing reads a shard, its changes wait. URLs move
between lists during the search, so URLs that are not found are searched once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import Call, script_call
from webcrawl.errors import PartLost, StoreError
from webcrawl.frontier.cold_seen import ColdSeen
from webcrawl.frontier.entry import LeasedURL
from webcrawl.frontier.listing.changes import Changes, OpenChange
from webcrawl.frontier.operations import BATCH
from webcrawl.frontier.overtaken import sift
from webcrawl.frontier.tails import Tails

_SEARCHES = 2
_LOOK_SECONDS = 1.0
_CALLS_AT_ONCE = 200
_OUTCOMES = {"1": "changed", "2": "unchanged"}

Host = tuple[str, list[OpenChange]]


@dataclass(slots=True)
class URLChanger:
    """Makes `changes`. `fingerprint` returns the fingerprint of a URL; `waiting` is called while a shard is being read.

    The outcomes are "changed", "unchanged" (it was so before), "leased", "dead", "dropped" (before), "done" (seen, but
    no longer waiting), "unknown", and "unreachable" (the store that may have the URL is unavailable, see `problem`).
    """

    engine: Engine
    keys: Keys
    tails: Tails
    changes: Changes
    fingerprint: Callable[[str], int]
    waiting: Callable[[], None] = lambda: None
    problem: str = ""
    _unreachable: set[str] = field(default_factory=set, init=False)
    """Hosts with parts that could not be read."""

    async def run(self) -> None:
        """Makes all changes; another run changes nothing more. Raises EngineUnavailable, EngineError."""
        for shard in self.changes.shards():
            for _ in range(_SEARCHES):
                await self._search_queues(shard)
                for name in ("later", "scheduled"):
                    await self._search_waiting(shard, name)
            for host, wanted in self.changes.open(shard):
                await self._classify(shard, host, wanted)

    async def _search_queues(self, shard: int) -> None:
        searched: set[str] = set()
        for hosts in _groups(self.changes.open(shard)):
            calls = [self._set_urls(shard, host, wanted) for host, wanted in hosts]
            for (host, wanted), reply in zip(hosts, await self._run_all(calls), strict=True):
                if reply.read >= 0:
                    self._settle(shard, host, wanted, reply.outcomes)
                if host in searched:
                    continue
                searched.add(host)
                for level in (text.decode().strip() for text in reply.levels):
                    for name in ("q:", "out:") if reply.read < 0 else ():
                        await self._search_list(shard, host, level, name)
                    await self._search_parts(shard, host, level)

    async def _search_list(self, shard: int, host: str, level: str, name: str) -> None:
        """Searches a long list in pieces from its end, because entries leave at its head."""
        key, passed = f"{self.keys.queue(shard)[0]}{name}{host} {level}", 0
        while entries := await self.engine.client.lrange(key, -passed - BATCH, -passed - 1):
            if wanted := list(self._wanted(shard, host, entries).values()):
                call = self._set_urls(shard, host, wanted, level, name, passed)
                [reply] = await self._run_all([call])
                self._settle(shard, host, wanted, reply.outcomes)
                passed -= reply.left
            passed += len(entries)

    async def _search_parts(self, shard: int, host: str, level: str) -> None:
        key = f"{self.keys.queue(shard)[0]}tail:{host} {level}"
        for part in await self.engine.client.lrange(key, 0, -1):
            try:
                await self._change_part(shard, host, level, part)
            except PartLost:
                continue
            except StoreError as error:
                self.problem = str(error)
                self._unreachable.add(host)
                return

    async def _change_part(self, shard: int, host: str, level: str, part: bytes) -> None:
        entries = await self.tails.read(shard, part)
        changes = self._wanted(shard, host, entries)
        meant = [entry for entry in entries if _path(host, entry) in changes]
        meant = (await sift(self.engine, self.keys, shard, host.encode(), meant)).live
        paths = {_path(host, entry) for entry in meant}
        same = {path for path in paths if changes[path].is_level(int(float(level)))}
        self.changes.settle(shard, host, [(path, "unchanged") for path in same])
        wanted = [changes[path] for path in paths - same]
        if not wanted:
            return
        leave = [entry for entry in meant if _path(host, entry) not in same]
        gone = set(leave)
        stay = [entry for entry in entries if entry not in gone]
        new = await self.tails.write(shard, stay) if stay else b""
        call = script_call(
            "set_part",
            self.keys.queue(shard),
            host=host,
            level=level,
            old=part,
            new=new,
            entries=leave,
            url=_columns(wanted),
        )
        [[outcomes]] = await self._run_all([call])
        if outcomes != b"lost":
            self._settle(shard, host, wanted, outcomes)

    async def _search_waiting(self, shard: int, name: str) -> None:
        key, cursor = self.keys.queue(shard)[0] + name, 0
        while True:
            cursor, members = await self.engine.client.zscan(key, cursor=cursor, count=BATCH)
            hosts: list[str] = []
            wanted: list[OpenChange] = []
            set_members: list[bytes] = []
            for member, _ in members:
                head, _, entry = member.partition(b"\n")
                host = head.partition(b" ")[2].decode()
                if change := self.changes.find(shard, host, _path(host, entry)):
                    hosts.append(host)
                    wanted.append(change)
                    set_members.append(member)
            if wanted:
                columns = _columns(wanted)
                call = script_call(
                    "set_waiting",
                    self.keys.queue(shard),
                    set=name,
                    url={"member": set_members, "level": columns["level"], "date": columns["date"]},
                )
                [outcomes] = await self._run_all([call])
                for host, change, outcome in zip(hosts, wanted, outcomes.decode(), strict=True):
                    if outcome in _OUTCOMES:
                        self.changes.settle(shard, host, [(change.path, _OUTCOMES[outcome])])
            if not cursor:
                return

    async def _classify(self, shard: int, host: str, wanted: Sequence[OpenChange]) -> None:
        """Finds out why URLs do not wait."""
        prefix = self.keys.queue(shard)[0]
        [lease] = await self.engine.hashes([f"{prefix}lease:{host}"])
        leased = {_path(host, entry) for index, entry in lease.items() if index.isdigit()}
        urls = [host + change.path for change in wanted]
        marks = [self.keys.mark(host, self.fingerprint(url)) for url in urls]
        states = await self._are_seen(host, marks)
        known = [await self.engine.client.hmget(prefix + name, urls) for name in ("dead", "dropped")]
        rows = zip(wanted, states, *known, strict=True)
        unreachable = host in self._unreachable
        self.changes.settle(
            shard,
            host,
            [
                (change.path, _reason(change.path in leased, dead, dropped, unreachable, seen))
                for change, seen, dead, dropped in rows
            ],
        )

    async def _are_seen(self, host: str, marks: Sequence[int]) -> list[bool]:
        """Whether marks are in the seen set; if its part in the store cannot be read, they may all be there."""
        try:
            return await ColdSeen(self.tails).are_seen(marks)
        except StoreError as error:
            self.problem = str(error)
            self._unreachable.add(host)
            return [True] * len(marks)

    def _wanted(self, shard: int, host: str, entries: Sequence[bytes]) -> dict[str, OpenChange]:
        """Returns the open changes of queued entries, by path."""
        changes = {}
        for path in dict.fromkeys(_path(host, entry) for entry in entries):
            if (change := self.changes.find(shard, host, path)) is not None:
                changes[path] = change
        return changes

    def _settle(self, shard: int, host: str, wanted: Sequence[OpenChange], outcomes: bytes) -> None:
        settled = [
            (change.path, _OUTCOMES[outcome])
            for change, outcome in zip(wanted, outcomes.decode(), strict=True)
            if outcome in _OUTCOMES
        ]
        self.changes.settle(shard, host, settled)

    async def _run_all(self, calls: Sequence[Call]) -> list[Any]:
        """Runs scripts, and repeats those whose shard a checkpoint or a listing is reading."""
        replies: list[Any] = [None] * len(calls)
        left, has_waited = list(range(len(calls))), False
        while left:
            work = partial(self.engine.run_all, [calls[index] for index in left])
            for index, reply in zip(left, await self.engine.retry_until_available(work), strict=True):
                replies[index] = reply
            left = [index for index in left if replies[index] in (None, [], b"h")]
            if left:
                if not has_waited:
                    self.waiting()
                has_waited = True
                await asyncio.sleep(_LOOK_SECONDS)
        return replies

    def _set_urls(
        self,
        shard: int,
        host: str,
        wanted: Sequence[OpenChange],
        level: str = "",
        name: str = "",
        passed: int = 0,
    ) -> Call:
        """Returns a call that changes URLs in all lists of a host, or in a piece of the list of a level."""
        return script_call(
            "set_urls",
            self.keys.queue(shard),
            host=host,
            most=BATCH,
            level=level,
            list=name,
            passed=passed,
            url=_columns(wanted),
        )


def _reason(leased: bool, dead: bytes | None, dropped: bytes | None, unreachable: bool, seen: bool) -> str:
    if leased:
        return "leased"
    if dead is not None:
        return "dead"
    if dropped is not None:
        return "dropped"
    if unreachable and seen:
        return "unreachable"
    return "done" if seen else "unknown"


def _groups(hosts: Iterator[Host]) -> Iterator[list[Host]]:
    """Yields hosts whose changes are sent together."""
    group: list[Host] = []
    changes = 0
    for host in hosts:
        group.append(host)
        changes += len(host[1])
        if len(group) >= _CALLS_AT_ONCE or changes >= BATCH:
            yield group
            group, changes = [], 0
    if group:
        yield group


def _columns(wanted: Sequence[OpenChange]) -> dict[str, list[str | int]]:
    """Returns changes as the columns of a script's rows."""
    return {
        "path": [change.path for change in wanted],
        "level": ["" if change.level is None else change.level for change in wanted],
        "date": [change.date for change in wanted],
    }


def _path(host: str, entry: bytes) -> str:
    return LeasedURL.decode(0, host, entry).path
