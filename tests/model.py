"""A model of the frontier in plain Python: the oracle for tests of the real one.

Times are in ms of a clock that the test moves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

QUIET = 3_600_000


@dataclass(frozen=True)
class Entry:
    """A URL with its counters."""

    path: str
    level: int
    depth: int = 0
    attempts: int = 0
    returns: int = 0
    blames: int = 0
    dated: bool = False


@dataclass
class HostRecord:
    """The record of a host that all crawls share. `holder` is the crawl and token of the latest lease."""

    until: int = 0
    """No requests before this time."""
    held: int = 0
    """Nobody else can lease the host before this time."""
    holder: tuple[str, int] | None = None
    failures: dict[str, int] = field(default_factory=dict)
    """Of each host that shares the record."""
    forgiven: dict[str, int] = field(default_factory=dict)
    """When the failures of each are reset."""
    delay: float | None = None
    gap: int = 0
    kept: bool = False
    """Whether an operator wrote to the record, which then never expires."""
    left: int | None = None
    """ms until the server deletes the record; None: never."""


@dataclass
class Hosts:
    """The politeness state that crawls share. `clock` returns the time at a host's shard, `unit` what has a record."""

    clock: Callable[[str], int]
    unit: Callable[[str], str] = str
    records: dict[str, HostRecord] = field(default_factory=dict)

    def __getitem__(self, host: str) -> HostRecord:
        return self.records.setdefault(self.unit(host), HostRecord())

    def time_passes(self, ms: int) -> None:
        """Move the servers' clocks by `ms` (negative: set them back), and delete expired records."""
        for host, record in list(self.records.items()):
            if record.left is not None:
                record.left -= ms
                if record.left <= 0:
                    del self.records[host]

    def is_free(self, host: str) -> bool:
        return max(self[host].until, self[host].held) <= self.clock(host)

    def failures(self, host: str) -> int:
        """Number of failures since they were last reset."""
        record = self[host]
        return record.failures.get(host, 0) if self.clock(host) < record.forgiven.get(host, 0) else 0

    def hold(self, host: str, holder: tuple[str, int], lasting: int) -> None:
        record = self[host]
        record.held, record.holder, record.left = self.clock(host) + lasting, holder, None

    def let_go(self, host: str, pause: int, quiet: int) -> None:
        record = self[host]
        record.until = max(record.until, self.clock(host) + pause)
        record.held, record.holder, record.forgiven[host] = 0, None, record.until + quiet
        self._quiet(host, record.until + quiet)

    def keep_held(self, host: str) -> None:
        """Keep the host held after its lease was taken from a worker that may still send requests."""
        record = self[host]
        record.held = max(record.held, self.clock(host)) + record.gap
        self._quiet(host, record.held + QUIET)

    def block_until(self, host: str, pause: int) -> None:
        record = self[host]
        record.until = max(record.until, self.clock(host) + pause)
        record.kept, record.left = True, None

    def set_delay(self, host: str, seconds: float | None) -> None:
        record = self[host]
        record.delay, record.kept, record.left = seconds, True, None

    def _quiet(self, host: str, time: int) -> None:
        if not self[host].kept:
            self._keep(host, time - self.clock(host))

    def _keep(self, host: str, ms: int) -> None:
        self[host].left = ms
        if ms <= 0:
            del self.records[self.unit(host)]


@dataclass(frozen=True)
class Limits:
    """Limits of a host; None: unlimited."""

    pages: int | None = None
    bytes: int | None = None
    depth: int | None = None


@dataclass
class ModelLease:
    """Leased entries by index, and when the lease expires."""

    token: int
    entries: dict[int, Entry]
    next: int
    end: int
    let_go: bool = False
    """The host was released before all URLs were settled."""


@dataclass
class ModelFrontier:
    """One crawl. The methods mirror the frontier's operations with arguments and results that a test can compare."""

    crawl: str
    hosts: Hosts
    blames: int = 3
    newest_first: bool = False
    queues: dict[str, list[Entry]] = field(default_factory=dict)
    """Host -> entries in fetch order: by level, then by age (depth-first: newest first)."""
    leases: dict[str, ModelLease] = field(default_factory=dict)
    later: list[tuple[str, Entry, int]] = field(default_factory=list)
    """Host, entry, and when the retry is due."""
    seen: set[int] = field(default_factory=set)
    dead: list[tuple[str, Entry, str]] = field(default_factory=list)
    """Host, entry, reason."""
    scheduled: dict[tuple[str, Entry], int] = field(default_factory=dict)
    """Host and entry -> when it is due."""
    parked: dict[str, str] = field(default_factory=dict)
    """Host -> "blocked" or "budget"."""
    limits: dict[str, Limits] = field(default_factory=dict)
    spent: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Host -> pages, bytes."""
    pages: int = 0
    """Total of all workers, from their tallies."""
    done: int = 0
    added: int = 0
    refused: int = 0

    def add(self, urls: Sequence[tuple[str, Entry, int | None]]) -> list[bool]:
        verdicts = []
        for host, entry, fingerprint in urls:
            deepest = self._limits(host).depth
            if deepest is not None and entry.depth > deepest:
                verdicts.append(False)
                continue
            new = fingerprint is None or fingerprint not in self.seen
            if fingerprint is not None:
                self.seen.add(fingerprint)
            if new:
                self._push(host, entry)
                self.added += 1
            verdicts.append(new)
        return verdicts

    def wake(self, hosts: Collection[str]) -> None:
        """Queue due retries of these hosts again, as a lease call does first in each shard."""
        later = sorted(
            (one for one in self.later if self._is_due(one[0], one[2], hosts)), key=lambda one: one[2]
        )
        self.later = [one for one in self.later if one not in later]
        dated = sorted(
            # retries due at the same time: in the server's order, by their bytes
            (due, first_byte(one.level), len(one.path), one.path, one.depth, host, one)
            for (host, one), due in self.scheduled.items()
            if self._is_due(host, due, hosts)
        )
        for *_, host, entry in dated:
            del self.scheduled[host, entry]
        for host, entry in [(host, entry) for host, entry, _ in later] + [(one[5], one[6]) for one in dated]:
            self._push(host, entry)

    def _is_due(self, host: str, due: int, hosts: Collection[str]) -> bool:
        return host in hosts and due <= self.hosts.clock(host)

    def schedule(self, host: str, entry: Entry, pause: int) -> bool:
        """Returns whether the entry had no date before."""
        entry = replace(entry, dated=True)
        new = (host, entry) not in self.scheduled
        self.scheduled[host, entry] = self.hosts.clock(host) + pause
        return new

    def ready(self) -> dict[str, int]:
        """Hosts that may be leased now, with their best level, from 0 to 7."""
        return {host: level for host, level in self._due().items() if self.allowance(host, 1)}

    def exhausted(self) -> set[str]:
        """Hosts that a lease call will park when it reaches them."""
        return {host for host in self._due() if not self.allowance(host, 1)}

    def _due(self) -> dict[str, int]:
        return {
            host: min(max(queue[0].level, 0), 7)
            for host, queue in self.queues.items()
            if queue
            and not (host in self.leases or host in self.parked or self._has_leased_sibling(host))
            and self.hosts.is_free(host)
        }

    def _has_leased_sibling(self, host: str) -> bool:
        """Whether another host that shares the record is leased, even if its lease has expired and was not reaped."""
        unit = self.hosts.unit
        return any(
            unit(other) == unit(host) and self.holds(other, lease.token)
            for other, lease in self.leases.items()
        )

    def allowance(self, host: str, wanted: int) -> int:
        """How many of `wanted` URLs may be leased; leased URLs count against the limit."""
        limits, (pages, size) = self._limits(host), self.spent.get(host, (0, 0))
        if limits.bytes is not None and size >= limits.bytes:
            return 0
        if limits.pages is None:
            return wanted
        out = len(self.leases[host].entries) if host in self.leases else 0
        return max(0, min(wanted, limits.pages - pages - out))

    def block(self, host: str) -> None:
        self.parked[host] = "blocked"
        if lease := self.leases.pop(host, None):
            self._give_back(host, list(lease.entries.values()))
            if self.hosts[host].holder == (self.crawl, lease.token):
                # the host stays held: its worker does not know about the block yet
                self.hosts.keep_held(host)

    def limit(self, host: str, limits: Limits) -> None:
        self.limits[host] = limits
        if self.parked.get(host) == "budget":
            del self.parked[host]

    def _limits(self, host: str) -> Limits:
        return self.limits.get(host, Limits())

    def lease(self, host: str, token: int, urls: int, *, lasting: int) -> ModelLease:
        """Lease this host under this token."""
        taken = self._pop(host, self.allowance(host, urls))
        self.leases[host] = ModelLease(token, dict(enumerate(taken, 1)), len(taken) + 1, 0)
        self.extend(host, lasting)
        return self.leases[host]

    def extend(self, host: str, lasting: int) -> None:
        """Extend a valid lease to `lasting` ms from now."""
        lease = self.leases[host]
        lease.end = self.hosts.clock(host) + lasting
        if self.holds(host, lease.token) or not lease.let_go:
            self.hosts.hold(host, (self.crawl, lease.token), lasting)

    def holds(self, host: str, token: int) -> bool:
        """Whether a lease is still valid: not reaped, and the host not leased by another crawl since."""
        lease = self.leases.get(host)
        return bool(lease and lease.token == token and self.hosts[host].holder == (self.crawl, token))

    def settles(self, host: str, token: int) -> bool:
        """Whether URLs of a lease can be settled: it is valid, or has let go of its host and was not reaped."""
        lease = self.leases.get(host)
        return self.holds(host, token) or bool(lease and lease.token == token and lease.let_go)

    def let_go(self, host: str, back: Collection[int], *, failures: int, pause: int, quiet: int) -> None:
        """Release the host of a lease, and give back the URLs with these indexes."""
        lease, record = self.leases[host], self.hosts[host]
        entries = [lease.entries.pop(index) for index in sorted(back) if index in lease.entries]
        self._give_back(host, entries)
        if self.holds(host, lease.token):
            record.failures[host] = failures
            self.hosts.let_go(host, pause, quiet)
        lease.let_go = True

    def settle(
        self, host: str, settled: Sequence[tuple[int, str, int, str, int, int]], *, gap: int = 0
    ) -> None:
        """Settle URLs by index, with verdict, delay, reason, pages and bytes."""
        if self.holds(host, self.leases[host].token):
            self.hosts[host].gap = gap
        for index, verdict, pause, reason, pages, size in settled:
            entry = self.leases[host].entries.pop(index, None)
            if entry is None:
                continue
            had_pages, had_size = self.spent.get(host, (0, 0))
            self.spent[host] = had_pages + pages, had_size + size
            if verdict == "done":
                self.done += 1
            elif verdict == "again":
                self.done += 1
                self.schedule(host, replace(entry, attempts=0, returns=0, blames=0), pause)
            elif verdict == "retry":
                due = self.hosts.clock(host) + pause
                self.later.append((host, replace(entry, attempts=entry.attempts + 1), due))
            else:
                self.dead.append((host, entry, reason))

    def keep(
        self, host: str, more: int, *, lasting: int, better_than: int | None = None
    ) -> list[tuple[int, Entry]]:
        """Extend the lease; returns further URLs with their indexes, or none while the host is blocked."""
        self.extend(host, lasting)
        lease, record = self.leases[host], self.hosts[host]
        kept = record.until > self.hosts.clock(host) or host in self.parked or lease.let_go
        taken = [] if kept else self._pop(host, self.allowance(host, more), better_than)
        new = list(enumerate(taken, lease.next))
        lease.entries.update(new)
        lease.next += len(taken)
        return new

    def release(self, host: str, token: int, *, failures: int, pause: int, quiet: int) -> None:
        """Release the lease; one that a block ended releases only the host."""
        record = self.hosts[host]
        if self.settles(host, token):
            self._give_back(host, list(self.leases.pop(host).entries.values()))
        if record.holder == (self.crawl, token):
            record.failures[host] = failures
            self.hosts.let_go(host, pause, quiet)

    def reap(self, *, everything: bool, delay: int, answer: int) -> tuple[int, int]:
        """Returns (hosts reaped, URLs that became dead letters). The first URL of a lease gets the blame."""
        clock = self.hosts.clock
        taken = [host for host, lease in self.leases.items() if everything or lease.end <= clock(host)]
        buried = 0
        for host in taken:
            lease, record = self.leases.pop(host), self.hosts[host]
            entries = [
                replace(lease.entries[i], returns=lease.entries[i].returns + 1) for i in sorted(lease.entries)
            ]
            if entries:
                entries[0] = replace(entries[0], blames=entries[0].blames + 1)
                if entries[0].blames >= self.blames:
                    self.dead.append((host, entries.pop(0), "worker"))
                    buried += 1
            self._give_back(host, entries)
            if record.holder == (self.crawl, lease.token):
                gap = max(delay, round(1000 * (record.delay or 0)), record.gap)
                self.hosts.let_go(host, gap + answer, QUIET)
        return len(taken), buried

    def condemn(self, host: str, reason: str) -> int:
        condemned = self.queues.pop(host, [])
        self.dead += [(host, entry, reason) for entry in condemned]
        return len(condemned)

    def requeue(self, urls: set[tuple[str, str]], reason: str) -> int:
        """Requeue dead letters of these (host, path) whose reason contains `reason`, oldest first."""
        chosen = [one for one in self.dead if (one[0], one[1].path) in urls and reason in one[2]]
        self.dead = [one for one in self.dead if (one[0], one[1].path) not in urls or reason not in one[2]]
        for host, entry, _ in chosen:
            self._push(host, replace(entry, attempts=0, returns=0, blames=0))
        self.added += len(chosen)
        return len(chosen)

    def counts(self) -> dict[str, int]:
        return {
            "queued": sum(len(queue) for queue in self.queues.values()),
            "parked": sum(len(self.queues.get(host, [])) for host in self.parked),
            "leased": sum(len(lease.entries) for lease in self.leases.values()),
            "later": len(self.later),
            "scheduled": len(self.scheduled),
            "seen": len(self.seen),
            "added": self.added,
            "done": self.done,
            "dead": len(self.dead),
            "refused": self.refused,
        }

    def _push(self, host: str, entry: Entry) -> None:
        queue = self.queues.setdefault(host, [])
        queue.insert(0 if self.newest_first else len(queue), entry)
        queue.sort(key=lambda one: one.level)  # stable: age decides within a level

    def _give_back(self, host: str, entries: Sequence[Entry]) -> None:
        queue = [*entries, *self.queues.get(host, [])]
        self.queues[host] = sorted(queue, key=lambda one: one.level)

    def _pop(self, host: str, urls: int, better_than: int | None = None) -> list[Entry]:
        queue = self.queues.get(host, [])
        if better_than is not None:
            urls = min(urls, sum(one.level < better_than for one in queue))
        taken, self.queues[host] = queue[:urls], queue[urls:]
        return taken


def first_byte(level: int) -> int:
    """How the first byte of an entry names its level."""
    return level if 0 <= level <= 7 else 8
