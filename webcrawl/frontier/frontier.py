"""The verbs of the frontier. Each verb runs one or several Lua scripts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from webcrawl.engine.scripts import Call, script_call
from webcrawl.errors import ConfigurationError
from webcrawl.frontier.adding import Addition
from webcrawl.frontier.cold_hosts import ColdHosts
from webcrawl.frontier.cold_seen import KNOWN, MAYBE, ColdSeen, seen_call
from webcrawl.frontier.entry import Candidate, LeasedURL, decode_urls
from webcrawl.frontier.leasing import Leasing
from webcrawl.frontier.operations import BATCH, Operations, batches, milliseconds
from webcrawl.frontier.records import FrontierCounts, HostLimits, Lease, LeaseReport, Settlement, decode_delay
from webcrawl.policies.traffic import CLASSES, Traffic

_COUNTERS = tuple(counter.name for counter in fields(FrontierCounts))
_LOST = -2
_PATIENCE = 5.0
"""Seconds for which the part of the seen set in the store is waited for."""
_REPORTS = 50
"""The most reports of a call, which keeps the engine from all other calls for some milliseconds."""


def _nobody(_: str) -> str:
    return ""


@dataclass(slots=True)
class Frontier(Operations):
    """The frontier of one crawl.

    Times are seconds, by the engine's clock. Every verb may raise a connection error
    (webcrawl.engine.client.UNAVAILABLE). The verb can then be called again: repeating a verb loses nothing.
    """

    worker: str
    lease_seconds: float = 60.0
    max_attempts: int = 5
    low_share: float = 0.1
    """The share of leased hosts from levels below the best level."""
    started_together: int = 1
    """The most URLs of one host that a worker fetches at once."""
    host_limits: HostLimits = HostLimits()
    """Limits of hosts without limits of their own."""
    weight: float = 1.0
    """The crawl's share of a host that other crawls want too."""
    purse: str = ""
    """The purse that gets the credit of acknowledged pages, see webcrawl.frontier.credit."""
    over: Callable[[str], str] = _nobody
    """Returns "owner penalty" if an owner of the host is over its budget, otherwise an empty text."""
    traffic: Traffic | None = None
    """The shares of the classes of fetches, which count the URLs that this worker leases; None without TRAFFIC."""
    cold: ColdSeen | None = None
    """The part of the seen set that is in the store; None if the crawl has no store."""
    cold_hosts: ColdHosts | None = None
    """The records of idle hosts that are in the store; None if the crawl has no store."""
    _leasing: Leasing = field(init=False)

    def __post_init__(self) -> None:
        self._leasing = Leasing(
            self.engine,
            self.keys,
            self.worker,
            milliseconds(self.lease_seconds),
            self._low_thousandths(),
            self.host_limits.encoded(),
            self.weight,
            self._class_turns,
        )

    async def add(self, candidates: Sequence[Candidate] | Addition) -> list[bool]:
        """Queues the URLs that were never seen; returns True for each queued URL. Takes any number, in any order.

        Raises StoreError while the part of the seen set in the store cannot be read, StoreUnavailable if it takes long.
        An `Addition` can then be added again, and keeps what the engine has answered.
        """
        addition = candidates if isinstance(candidates, Addition) else Addition(candidates)
        try:
            while not addition.is_complete:
                if addition.unsure:
                    patience = min(_PATIENCE, self.lease_seconds / 4)
                    await addition.ask(self.keys, self._stored_seen, patience)
                calls = list(addition.calls(self.keys, self.over))
                addition.take(calls, await self.engine.run_all([call for call, _ in calls]))
        finally:
            if addition is not candidates:
                addition.abandon()
        return addition.verdicts

    async def is_seen(self, host: str, fingerprint: int) -> bool:
        """Whether a URL of the host is in the exact seen set, so that it was queued at some time.

        Raises StoreError if the part of the set in the store cannot be read.
        """
        mark = self.keys.mark(host, fingerprint)
        state = await self.engine.run(seen_call(self.keys, mark))
        return state == KNOWN or (state == MAYBE and (await self._stored_seen.have([mark]))[0])

    @property
    def _stored_seen(self) -> ColdSeen:
        """The part of the seen set in the store, when the engine says that a URL may be there."""
        if self.cold is None:
            raise ConfigurationError(
                f"crawl {self.keys.crawl!r} has parts of its frontier in a store: set FRONTIER_SPILL_URI to it"
            )
        return self.cold.of(self.keys)

    async def lease(
        self,
        hosts: int,
        urls: int,
        shards: Sequence[int] | None = None,
        *,
        new: int | None = None,
        enough_of: Collection[str] = (),
    ) -> list[Lease]:
        """Leases up to `hosts` hosts that may be asked now, with up to `urls` URLs each; [] if no host is ready.

        Hosts that have answered come first. With `new`, hosts that never answered do not count in `hosts`; up to `new`
        of them are leased in addition. `shards` restricts the search; no URL is of a class of `enough_of` (TRAFFIC).
        Leases whose reply was lost are returned too (see `regain`), so there may be more than asked for.
        """
        served = range(self.keys.shards) if shards is None else shards
        return self._counted(await self._leasing.lease(hosts, new, urls, served, enough_of))

    async def regain(self) -> list[Lease]:
        """Returns leases whose reply was lost, if they are still valid, and extends them from now."""
        return self._counted(await self._leasing.regain())

    async def acknowledge(
        self,
        lease: Lease,
        settled: Sequence[Settlement] = (),
        *,
        more: int = 0,
        better_than: int | None = None,
    ) -> list[LeasedURL] | None:
        """Settles URLs and keeps the lease; returns up to `more` further URLs, or None if the lease was lost.

        The further URLs are the best of the host; with `better_than`, only URLs of a better level than `better_than`.
        Pages and bytes count once against the host's limits: a URL that was settled before is skipped.
        """
        report = LeaseReport(lease, settled, more=more, better_than=better_than)
        return self._urls_of_reply(lease, await self._settle(report))

    async def release(
        self, lease: Lease, settled: Sequence[Settlement] = (), *, pause: float = 0.0, quiet: float = 3600.0
    ) -> bool:
        """Settles URLs and releases the host, which no worker may ask for `pause` seconds; False for a lost lease.

        Other URLs of the lease return to the head of the queue, untried. After `quiet` more seconds the engine forgets
        the host's failures.
        """
        return bool(await self._settle(LeaseReport(lease, settled, pause=pause, quiet=quiet)))

    async def settle_all(
        self,
        reports: Sequence[LeaseReport],
        settled: Callable[[LeaseReport, list[LeasedURL] | None, Sequence[int]], None] = lambda *_: None,
    ) -> None:
        """Acknowledges or releases many leases, with one round trip to each server.

        Calls `settled` with each report, its further URLs (None if the lease was lost), and the purse's credit for each
        settled URL, if any. If a server fails, the replies of other servers are handled before its error is raised.
        """
        groups = [
            (shard, group[start : start + _REPORTS])
            for shard, group in self.keys.by_shard(reports, attrgetter("lease.host")).items()
            for start in range(0, len(group), _REPORTS)
        ]
        together = sum(report.more > 0 for report in reports)
        calls = [self._report_call(shard, group, together) for shard, group in groups]
        replies = await self.engine.run_all(calls, some=True)
        for (_, group), rows in zip(groups, replies, strict=True):
            if isinstance(rows, Exception):
                continue
            for report, reply in zip(group, rows, strict=True):
                settled(report, self._urls_of_reply(report.lease, reply), reply.credits if reply else ())
        for rows in replies:
            if isinstance(rows, Exception):
                raise rows

    async def schedule(self, candidates: Iterable[Candidate], seconds: float) -> int:
        """Queues URLs once, in `seconds` seconds, seen or not; returns the number of URLs that had no date before.

        The new date of a URL replaces an old date.
        """
        by_shard = self.keys.by_shard(candidates, attrgetter("host"))
        calls = [
            script_call(
                "schedule",
                self.keys.queue(shard),
                ms=milliseconds(seconds),
                url={
                    "host": [candidate.host for candidate in some],
                    "entry": [candidate.entry() for candidate in some],
                },
            )
            for shard, group in by_shard.items()
            for some in batches(group)
        ]
        return int(sum(await self.engine.run_all(calls)))

    async def extend(self, leases: Sequence[Lease]) -> set[str]:
        """Extends leases to `lease_seconds` from now; returns the hosts whose leases were lost.

        Sets the `delay` of the other leases to the delay that an operator has set.
        """
        by_shard = self.keys.by_shard(leases, attrgetter("host"))
        calls = [
            script_call(
                "extend",
                self.keys.queue(shard),
                lease_ms=milliseconds(self.lease_seconds),
                lease={"host": [lease.host for lease in group], "token": [lease.token for lease in group]},
            )
            for shard, group in by_shard.items()
        ]
        lost = set()
        for group, reply in zip(by_shard.values(), await self.engine.run_all(calls), strict=True):
            for lease, delay in zip(group, reply, strict=True):
                if delay == _LOST:
                    lost.add(lease.host)
                else:
                    lease.delay = decode_delay(delay)
        return lost

    async def reap(
        self, *, everything: bool = False, delay: float = 0.0, answer: float = 0.0
    ) -> tuple[int, int]:
        """Reclaims expired leases, or with `everything` all; returns (reclaimed hosts, URLs that became dead letters).

        Each host then waits for `delay` seconds, or its usual gap if that is longer, because the dead worker may have
        asked a moment ago. It waits for `answer` more seconds, which the response may take.
        """
        hosts = buried = 0
        shards = list(range(self.keys.shards))
        while shards:
            calls = [
                script_call(
                    "reap",
                    self.keys.queue(shard),
                    which="all" if everything else "expired",
                    most_blames=self.max_attempts,
                    started=self.started_together,
                    most=BATCH,
                    delay_ms=milliseconds(delay),
                    answer_ms=milliseconds(answer),
                )
                for shard in shards
            ]
            replies = await self.engine.run_all(calls)
            hosts += sum(reply.taken for reply in replies)
            buried += sum(reply.buried for reply in replies)
            shards = [shard for shard, reply in zip(shards, replies, strict=True) if reply.taken >= BATCH]
        return hosts, buried

    async def condemn(self, host: str, reason: str) -> int:
        """Makes dead letters of all queued URLs of a host; returns their number.

        URLs in the store count at once too, but most of them stay there (see SpilledDeadLetters).
        """
        total, more = 0, True
        while more:
            keys = self.keys.queue(self.keys.shard(host))
            buried, more = await self.engine.run(
                script_call("condemn", keys, host=host, reason=reason, batch=BATCH)
            )
            total += buried
        return total

    async def counts(self) -> FrontierCounts:
        hashes = await self.engine.hashes(self.keys.counters(shard) for shard in range(self.keys.shards))
        return FrontierCounts(
            *(sum(int(shard.get(name.encode(), 0)) for shard in hashes) for name in _COUNTERS)
        )

    async def finished(self) -> bool:
        """Whether no URL is queued, leased or waiting in any shard.

        Reads the shards twice, because a URL that moves between shards meanwhile changes the number of added URLs.
        """
        first = await self.counts()
        if first.open:
            return False
        second = await self.counts()
        return not second.open and second.added == first.added

    async def clear(self) -> None:
        """Deletes every key of the crawl, but not the shared records of hosts. All leases are lost."""
        await self.reap(everything=True)
        for pattern in self.keys.patterns():
            async for key in self.engine.client.scan_iter(match=pattern, count=BATCH):
                await self.engine.client.unlink(key)

    def _counted(self, leases: list[Lease]) -> list[Lease]:
        """Counts the URLs of leases in the shares of their classes."""
        for lease in leases if self.traffic else ():
            self._count(lease.host, lease.urls)
        return leases

    def _count(self, host: str, urls: Sequence[LeasedURL]) -> None:
        if self.traffic:
            self.traffic.of(host).lease(url.fetch_class for url in urls)

    def _class_turns(self, together: int, enough_of: Collection[str] = ()) -> bytes:
        return self.traffic.packed(together, enough_of) if self.traffic else b""

    def _urls_of_reply(self, lease: Lease, reply: Any) -> list[LeasedURL] | None:
        if not reply:
            return None
        urls = decode_urls(lease.host, reply.urls, reply.worths)
        self._count(lease.host, urls)
        return urls

    async def _settle(self, report: LeaseReport) -> Any:
        """Sends one report; returns its reply."""
        (reply,) = await self.engine.run(
            self._report_call(self.keys.shard(report.lease.host), [report], together=1)
        )
        return reply

    def _report_call(self, shard: int, reports: Sequence[LeaseReport], together: int) -> Call:
        """Returns the call for some of so many reports that lease more URLs at once."""
        leases = [report.lease for report in reports]
        settled = [url for report in reports for url in report.settled]
        return script_call(
            "acknowledge",
            self.keys.queue(shard),
            lease_ms=milliseconds(self.lease_seconds),
            limits=self.host_limits.encoded(),
            purse=self.purse,
            share=self._low_thousandths(),
            report={
                "host": [lease.host for lease in leases],
                "token": [lease.token for lease in leases],
                "settles": [len(report.settled) for report in reports],
                "more": [report.more for report in reports],
                "pause_ms": [-1 if report.pause < 0 else milliseconds(report.pause) for report in reports],
                "lets_go": [int(report.lets_go) for report in reports],
                "failures": [lease.failures for lease in leases],
                "quiet_ms": [milliseconds(report.quiet) for report in reports],
                "gap_ms": [milliseconds(lease.gap) for lease in leases],
                "better_than": [
                    "" if report.better_than is None else report.better_than for report in reports
                ],
                "answered": [int(lease.answered) for lease in leases],
                "patterns": [_changed(report.patterns) for report in reports],
                "dust": [_changed(report.dust) for report in reports],
                "over": [_changed(report.over) for report in reports],
                "asked": [int(report.asked) for report in reports],
                "class_turns": [
                    self._class_turns(together, report.enough_of) if report.more else b""
                    for report in reports
                ],
            },
            url={
                "index": [url.index for url in settled],
                "verdict": [url.verdict for url in settled],
                "delay_ms": [milliseconds(url.delay) if url.delay else 0 for url in settled],
                "reason": [url.reason for url in settled],
                "next_class": [
                    "" if url.next_class is None else CLASSES.index(url.next_class) for url in settled
                ],
                "pages": [url.pages for url in settled],
                "bytes": [url.bytes for url in settled],
                "flags": [bool(url.links) + 2 * url.failed for url in settled],
            },
        )

    def _low_thousandths(self) -> int:
        return max(round(self.low_share * 1000), int(self.low_share > 0))


def _changed(report: str | bytes | None) -> str | bytes:
    """Returns an argument of acknowledge.lua: "" if the report is unchanged, "-" if it is empty now."""
    return "" if report is None else report or "-"
