"""The verbs of the frontier, each one script or a few."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from webcrawl.engine.scripts import Call
from webcrawl.frontier.entry import Candidate, LeasedURL
from webcrawl.frontier.operations import BATCH, Operations, milliseconds
from webcrawl.frontier.records import Counts, HostLimits, Lease, Report, Settlement

_COUNTERS = tuple(one.name for one in fields(Counts))
_LOST = -2


@dataclass(slots=True)
class Frontier(Operations):
    """The frontier of one crawl.

    Times given and returned are seconds; the only clock is the server's. Every verb may raise redis-py's connection
    errors (webcrawl.engine.client.UNAVAILABLE), and can then be called again: repeating a verb loses nothing.
    """

    worker: str
    lease_seconds: float = 60.0
    max_attempts: int = 5
    low_share: float = 0.1
    """Share of the hosts picked, and of the URLs of a host, for levels below the best, each in its turn."""
    started_together: int = 1
    """URLs of one host that a worker may have in the air at once."""
    host_limits: HostLimits = HostLimits()
    """What may be taken from a host of which nothing else is told."""
    weight: float = 1.0
    """The crawl's part of a host that other crawls want too."""
    _turn: int = field(default=0, init=False)
    _caller: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    _answered: Counter[int] = field(default_factory=Counter, init=False)
    """Shard -> number of the last lease call that was answered."""
    _unanswered: set[int] = field(default_factory=set, init=False)
    """Shards whose last lease call was not."""

    async def add(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Queue those that were never seen; True for each that was queued. Any number, in any order."""
        verdicts = [False] * len(candidates)
        by_shard: dict[int, dict[str, list[int]]] = {}
        for place, candidate in enumerate(candidates):
            by_shard.setdefault(self.keys.shard(candidate.host), {}).setdefault(candidate.host, []).append(
                place
            )
        calls, places = [], []
        for shard, hosts in by_shard.items():
            for batch in _batches(hosts):
                calls.append(Call("add", self.keys.queue(shard), self._add_arguments(candidates, batch)))
                places.append([place for _, group in batch for place in group])
        for group, reply in zip(places, await self.engine.run_all(calls), strict=True):
            for place, verdict in zip(group, reply.decode(), strict=True):
                verdicts[place] = verdict == "1"
        return verdicts

    def _add_arguments(
        self, candidates: Sequence[Candidate], batch: list[tuple[str, list[int]]]
    ) -> list[str | bytes | int]:
        arguments: list[str | bytes | int] = []
        for host, places in batch:
            arguments += [host, len(places)]
            for place in places:
                arguments += [self._mark(candidates[place]), candidates[place].entry()]
        return arguments

    def _mark(self, candidate: Candidate) -> str | int:
        """A URL as the seen test takes it."""
        if candidate.fingerprint is None:
            return ""
        mark = self.keys.mark(candidate.host, candidate.fingerprint)
        return f"!{mark}" if candidate.anyway else mark

    async def lease(self, hosts: int, urls: int, shards: Sequence[int] | None = None) -> list[Lease]:
        """Up to `hosts` hosts that may be asked now, each with up to `urls` URLs; empty when none is ready.

        `shards`: where to look, everywhere by default. What was given in a reply that was lost comes first, see
        `regain`: then there may be more than `hosts`.
        """
        leases, away = await self._regain()
        order = list(range(self.keys.shards)) if shards is None else list(shards)
        self._turn += 1
        order = order[self._turn % max(1, len(order)) :] + order[: self._turn % max(1, len(order))]
        order = [shard for shard in order if shard not in self._unanswered]
        while order and len(leases) < hosts:
            each, some = divmod(hosts - len(leases), len(order))
            wanted = {shard: each + (place < some) for place, shard in enumerate(order)}
            asked = {shard: self._lease_call(shard, n, urls) for shard, n in wanted.items() if n}
            found, error = await self._leases(asked)
            leases, away = leases + [lease for group in found.values() for lease in group], away or error
            # a shard that gave all that was asked of it may have more
            order = [shard for shard, n in wanted.items() if not n or len(found.get(shard, ())) == n]
        if away and not leases:  # which nobody would know of if the error of another shard were raised
            raise away
        return leases

    async def regain(self) -> list[Lease]:
        """Leases that were given in replies that were lost, as far as they are still good; they last from now."""
        leases, away = await self._regain()
        if away and not leases:
            raise away
        return leases

    async def _regain(self) -> tuple[list[Lease], Exception | None]:
        calls = {
            shard: Call(
                "regain",
                self.keys.queue(shard),
                (self._caller, self._answered[shard] + 1, milliseconds(self.lease_seconds)),
            )
            for shard in self._unanswered
        }
        found, away = await self._leases(calls)
        return [lease for group in found.values() for lease in group], away

    async def _leases(self, calls: Mapping[int, Call]) -> tuple[dict[int, list[Lease]], Exception | None]:
        """What these calls give, by shard; and an error of a shard that did not answer."""
        self._unanswered.update(calls)
        found: dict[int, list[Lease]] = {}
        away = None
        replies = await self.engine.run_all(list(calls.values()), some=True)
        for shard, reply in zip(calls, replies, strict=True):
            if isinstance(reply, Exception):
                away = reply
                continue
            self._unanswered.discard(shard)
            self._answered[shard] += 1
            found[shard] = [lease_of(raw) for raw in reply]
        return found, away

    def _lease_call(self, shard: int, hosts: int, urls: int) -> Call:
        lasting, limits = milliseconds(self.lease_seconds), self.host_limits.encoded()
        arguments = (self.worker, hosts, urls, lasting, self._low_thousandths(), limits, self.weight)
        number = self._answered[shard] + 1
        return Call("lease", self.keys.queue(shard), (*arguments, self._caller, number))

    async def acknowledge(
        self, lease: Lease, settled: Sequence[Settlement] = (), *, more: int = 0
    ) -> list[LeasedURL] | None:
        """Settle URLs of a lease and keep it; returns up to `more` further URLs, or None when the lease was lost.

        What was got by them counts against the host's limits, once: a URL that was settled before is passed over.
        """
        report = Report(lease, settled, more=more)
        return self._acknowledged(lease, await self.engine.run(self._acknowledgement(report)))

    async def release(
        self, lease: Lease, settled: Sequence[Settlement] = (), *, pause: float = 0.0, quiet: float = 3600.0
    ) -> bool:
        """Settle URLs, give the host back and keep everybody from asking it for `pause` seconds.

        URLs not settled return to the head of the queue with nothing counted against them. After `quiet` further
        seconds the server forgets the host's failures. False when the lease had been lost.
        """
        report = Report(lease, settled, pause=pause, quiet=quiet)
        return bool(await self.engine.run(self._acknowledgement(report)))

    async def schedule(self, candidates: Iterable[Candidate], seconds: float) -> int:
        """Queue these URLs in so many seconds, once, known or not; returns how many were not waiting for a date.

        One that waits for a date already gets the new one.
        """
        by_shard: dict[int, list[str | bytes]] = {}
        for one in candidates:
            by_shard.setdefault(self.keys.shard(one.host), []).extend((one.host, one.entry()))
        calls = [
            Call(
                "schedule", self.keys.queue(shard), (milliseconds(seconds), *pairs[start : start + 2 * BATCH])
            )
            for shard, pairs in by_shard.items()
            for start in range(0, len(pairs), 2 * BATCH)
        ]
        return int(sum(await self.engine.run_all(calls)))

    async def extend(self, leases: Sequence[Lease]) -> set[str]:
        """The heartbeat: these leases last `lease_seconds` from now; returns the hosts whose lease was lost.

        `delay` of the others is what an operator says now.
        """
        by_shard: dict[int, list[Lease]] = {}
        for lease in leases:
            by_shard.setdefault(self.keys.shard(lease.host), []).append(lease)
        calls = [
            Call(
                "extend",
                self.keys.queue(shard),
                [
                    milliseconds(self.lease_seconds),
                    *(part for lease in group for part in (lease.host, lease.token)),
                ],
            )
            for shard, group in by_shard.items()
        ]
        lost = set()
        for group, reply in zip(by_shard.values(), await self.engine.run_all(calls), strict=True):
            for lease, delay in zip(group, reply, strict=True):
                if delay == _LOST:
                    lost.add(lease.host)
                else:
                    lease.delay = _delay(delay)
        return lost

    async def reap(
        self, *, everything: bool = False, delay: float = 0.0, answer: float = 0.0
    ) -> tuple[int, int]:
        """Take back the leases that ran out (or all); returns (hosts taken back, URLs that became dead letters).

        Before such a host is asked again `delay` seconds pass, or what was kept to at this host if that is longer: its
        dead worker may have asked it a moment ago. `answer`: further seconds that it may take to answer.
        """
        hosts = buried = 0
        shards = list(range(self.keys.shards))
        arguments = (
            "all" if everything else "expired",
            self.max_attempts,
            self.started_together,
            BATCH,
            milliseconds(delay),
            milliseconds(answer),
        )
        while shards:
            replies = await self.engine.run_all([Call("reap", self.keys.queue(s), arguments) for s in shards])
            hosts += sum(reply[0] for reply in replies)
            buried += sum(reply[1] for reply in replies)
            shards = [shard for shard, reply in zip(shards, replies, strict=True) if reply[0] >= BATCH]
        return hosts, buried

    async def condemn(self, host: str, reason: str) -> int:
        """Make dead letters of all that is queued for a host; returns how many.

        What is in the store counts as such at once too, and stays there but for a little (see SpilledDeadLetters).
        """
        total, more = 0, True
        while more:
            call = Call("condemn", self.keys.queue(self.keys.shard(host)), (host, reason, BATCH))
            buried, more = await self.engine.run(call)
            total += buried
        return total

    async def counts(self) -> Counts:
        hashes = await self.engine.hashes(self.keys.counters(shard) for shard in range(self.keys.shards))
        return Counts(*(sum(int(shard.get(name.encode(), 0)) for shard in hashes) for name in _COUNTERS))

    async def finished(self) -> bool:
        """Whether no URL is queued, leased or waiting anywhere.

        The shards are read twice: a URL that moved from a shard not yet read into one already read shows as a change
        in what was added.
        """
        first = await self.counts()
        if first.open:
            return False
        second = await self.counts()
        return not second.open and second.added == first.added

    async def clear(self) -> None:
        """Forget the crawl: every key of it, but not what is known of hosts. Its leases are lost."""
        await self.reap(everything=True)
        for pattern in self.keys.patterns():
            async for key in self.engine.client.scan_iter(match=pattern, count=BATCH):
                await self.engine.client.unlink(key)

    async def settle_all(
        self,
        reports: Sequence[Report],
        settled: Callable[[Report, list[LeasedURL] | None], None] = lambda *_: None,
    ) -> None:
        """`acknowledge` or `release` for many leases, those on one server in one round trip.

        `settled` is called with each report and the new URLs (none for a release), or None where the lease was lost. It
        is called for what one server answered, too, before the error of another one is raised.
        """
        calls = [self._acknowledgement(report) for report in reports]
        replies = await self.engine.run_all(calls, some=True)
        for report, reply in zip(reports, replies, strict=True):
            if not isinstance(reply, Exception):
                settled(report, self._acknowledged(report.lease, reply))
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply

    def _acknowledgement(self, report: Report) -> Call:
        lease = report.lease
        arguments: list[str | int] = [lease.host, lease.token, milliseconds(self.lease_seconds), report.more]
        arguments += [-1 if report.pause < 0 else milliseconds(report.pause), lease.failures]
        arguments += [milliseconds(report.quiet), milliseconds(lease.gap)]
        arguments += [self.host_limits.encoded(), self._low_thousandths()]
        for one in report.settled:
            arguments += [one.index, one.verdict, milliseconds(one.delay), one.reason, one.pages, one.bytes]
        return Call("acknowledge", self.keys.queue(self.keys.shard(lease.host)), arguments)

    @staticmethod
    def _acknowledged(lease: Lease, reply: Any) -> list[LeasedURL] | None:
        return _urls(lease.host, reply[1:]) if reply else None

    def _low_thousandths(self) -> int:
        return max(round(self.low_share * 1000), int(self.low_share > 0))


def _batches(hosts: dict[str, list[int]]) -> Iterable[list[tuple[str, list[int]]]]:
    """Cut one shard's places, grouped by host, into groups of at most BATCH."""
    batch: list[tuple[str, list[int]]] = []
    room = BATCH
    for host, places in hosts.items():
        for start in range(0, len(places), BATCH):
            group = places[start : start + BATCH]
            if len(group) > room:
                yield batch
                batch, room = [], BATCH
            batch.append((host, group))
            room -= len(group)
    if batch:
        yield batch


def lease_of(raw: list[Any]) -> Lease:
    """A lease as the scripts give it."""
    host = raw[0].decode()
    return Lease(host, int(raw[1]), raw[2], _delay(raw[3]), _urls(host, raw[4]))


def _delay(ms: int) -> float | None:
    return ms / 1000 if ms >= 0 else None


def _urls(host: str, flat: list[Any]) -> list[LeasedURL]:
    return [LeasedURL.decode(flat[i], host, flat[i + 1]) for i in range(0, len(flat), 2)]
