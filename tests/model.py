"""A model of the frontier in plain Python: the oracle that the real one is compared with.

Times are of two kinds only, long past or far off, so the model needs no clock: a pause, a block or a delay either is
over or never ends, and a lease that is meant to run out has done so when `Hosts.time_passes` is called.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Entry:
    """A URL and what has been counted against it."""

    path: str
    level: int
    depth: int = 0
    attempts: int = 0
    returns: int = 0
    blames: int = 0


@dataclass
class HostRecord:
    """What all crawls know of a host. `holder` is the crawl and token of who was given it last."""

    blocked: bool = False
    held: bool = False
    brief: bool = False
    """Its lease runs out at once when time passes."""
    holder: tuple[str, int] | None = None
    failures: int = 0
    delay: float | None = None


@dataclass
class Hosts:
    """The politeness that crawls share."""

    records: dict[str, HostRecord] = field(default_factory=dict)

    def __getitem__(self, host: str) -> HostRecord:
        return self.records.setdefault(host, HostRecord())

    def time_passes(self) -> None:
        """Brief leases run out."""
        for record in self.records.values():
            if record.brief:
                record.held = False


@dataclass(frozen=True)
class Limits:
    """The most that is taken from a host; None: anything."""

    pages: int | None = None
    bytes: int | None = None
    depth: int | None = None


@dataclass
class ModelLease:
    """Entries handed out by index, and whether the lease runs out at once when time passes."""

    token: int
    entries: dict[int, Entry]
    next: int
    brief: bool


@dataclass
class ModelFrontier:
    """One crawl. The methods are the frontier's verbs; they take and return what a test can compare."""

    crawl: str
    hosts: Hosts
    blames: int = 3
    newest_first: bool = False
    low_share: float = 0.0
    """Above 0, lower levels are not always after higher ones: what a host gives is told by `levels`."""
    queues: dict[str, list[Entry]] = field(default_factory=dict)
    """By host, in the order of fetching: by level, then age (depth-first: the youngest first)."""
    leases: dict[str, ModelLease] = field(default_factory=dict)
    later: list[tuple[str, Entry, bool]] = field(default_factory=list)
    """Host, entry, and whether it is due."""
    seen: set[int] = field(default_factory=set)
    dead: list[tuple[str, Entry, str]] = field(default_factory=list)
    """Host, entry, reason."""
    scheduled: dict[tuple[str, Entry], tuple[bool, int]] = field(default_factory=dict)
    """Host and entry -> whether it is due, and its place in the order of dates."""
    parked: dict[str, str] = field(default_factory=dict)
    """Host -> "blocked" or "budget"."""
    limits: dict[str, Limits] = field(default_factory=dict)
    spent: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Host -> pages, bytes."""
    pages: int = 0
    """Of all workers, as tallied."""
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
        """Retries of these hosts are queued again if they are due: what a lease call does first in a shard."""
        awake = [(host, entry) for host, entry, due in self.later if due and host in hosts]
        self.later = [one for one in self.later if not (one[2] and one[0] in hosts)]
        dated = sorted(
            (place, host, entry)
            for (host, entry), (due, place) in self.scheduled.items()
            if due and host in hosts
        )
        for _, host, entry in dated:
            del self.scheduled[host, entry]
        for host, entry in [*awake, *((host, entry) for _, host, entry in dated)]:
            self._push(host, entry)

    def schedule(self, host: str, entry: Entry, *, due: bool, place: int) -> bool:
        """Whether it had no date yet."""
        new = (host, entry) not in self.scheduled
        self.scheduled[host, entry] = due, place
        return new

    def ready(self) -> dict[str, int]:
        """Hosts that may be leased now, with their best level."""
        return {host: level for host, level in self._due().items() if self.allowance(host, 1)}

    def exhausted(self) -> set[str]:
        """Hosts that a lease call will park when it comes upon them."""
        return {host for host in self._due() if not self.allowance(host, 1)}

    def _due(self) -> dict[str, int]:
        return {
            host: queue[0].level
            for host, queue in self.queues.items()
            if queue
            and not (host in self.leases or host in self.parked)
            and not (self.hosts[host].blocked or self.hosts[host].held)
        }

    def allowance(self, host: str, wanted: int) -> int:
        """How many of these URLs may be handed out, what is out already counted."""
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
            # the host stays held: its worker has not heard of it yet
            self._give_back(host, list(lease.entries.values()))

    def block_until(self, host: str, *, ever: bool) -> None:
        self.hosts[host].blocked |= ever

    def limit(self, host: str, limits: Limits) -> None:
        self.limits[host] = limits
        if self.parked.get(host) == "budget":
            del self.parked[host]

    def _limits(self, host: str) -> Limits:
        return self.limits.get(host, Limits())

    def lease(
        self, host: str, token: int, urls: int, *, brief: bool, levels: Sequence[int] = ()
    ) -> ModelLease:
        """This host is leased under this token; `levels` are what the URLs are of that it gave."""
        record = self.hosts[host]
        record.held, record.brief, record.holder = True, brief, (self.crawl, token)
        taken = self._pop(host, self.allowance(host, urls), levels)
        lease = ModelLease(token, dict(enumerate(taken, 1)), len(taken) + 1, brief)
        self.leases[host] = lease
        return lease

    def holds(self, host: str, token: int) -> bool:
        """Whether a lease is still good: not taken back, and the host not given to another crawl since."""
        lease = self.leases.get(host)
        return bool(lease and lease.token == token and self.hosts[host].holder == (self.crawl, token))

    def settle(
        self, host: str, settled: Sequence[tuple[int, str, bool, str, int, int]], *, place: int
    ) -> None:
        """URLs by index, with a verdict, whether a retry is due at once, a reason, and the pages and bytes got.

        `place` orders their dates.
        """
        for index, verdict, due, reason, pages, size in settled:
            entry = self.leases[host].entries.pop(index, None)
            if entry is None:
                continue
            had_pages, had_size = self.spent.get(host, (0, 0))
            self.spent[host] = had_pages + pages, had_size + size
            if verdict == "done":
                self.done += 1
            elif verdict == "again":
                self.done += 1
                self.schedule(
                    host, replace(entry, attempts=0, returns=0, blames=0), due=due, place=place + index
                )
            elif verdict == "retry":
                self.later.append((host, replace(entry, attempts=entry.attempts + 1), due))
            else:
                self.dead.append((host, entry, reason))

    def keep(
        self, host: str, more: int, *, brief: bool, levels: Sequence[int] = ()
    ) -> list[tuple[int, Entry]]:
        """The lease goes on; returns the further URLs with their indexes, none while the host is blocked."""
        lease, record = self.leases[host], self.hosts[host]
        lease.brief = record.brief = brief
        record.held = True
        kept = record.blocked or host in self.parked
        taken = [] if kept else self._pop(host, self.allowance(host, more), levels)
        new = list(enumerate(taken, lease.next))
        lease.entries.update(new)
        lease.next += len(taken)
        return new

    def release(self, host: str, token: int, *, failures: int, blocked: bool) -> None:
        """Of a lease that was lost to a block, the host alone is given back."""
        record = self.hosts[host]
        if self.holds(host, token):
            self._give_back(host, list(self.leases.pop(host).entries.values()))
        if record.holder == (self.crawl, token):
            record.held, record.holder = False, None
            record.failures = failures
            record.blocked |= blocked

    def reap(self, *, everything: bool, blocked: bool) -> tuple[int, int]:
        """Returns (hosts taken back, URLs that became dead letters). The first URL of a lease is to blame."""
        taken = [host for host, lease in self.leases.items() if everything or lease.brief]
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
                record.held, record.holder = False, None
                record.blocked |= blocked or bool(record.delay)
        return len(taken), buried

    def condemn(self, host: str, reason: str) -> int:
        condemned = self.queues.pop(host, [])
        self.dead += [(host, entry, reason) for entry in condemned]
        return len(condemned)

    def requeue(self, urls: set[tuple[str, str]], reason: str) -> int:
        """Dead letters of these (host, path) with a text in their reason, in the order of their death."""
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

    def _pop(self, host: str, urls: int, levels: Sequence[int] = ()) -> list[Entry]:
        """With a share of lower levels, the first of these levels, of each in its order, as far as there are any."""
        queue = self.queues.get(host, [])
        if not self.low_share:
            taken, self.queues[host] = queue[:urls], queue[urls:]
            return taken
        taken = []
        for level in levels[:urls]:
            place = next((n for n, one in enumerate(queue) if one.level == level), None)
            if place is not None:
                taken.append(queue.pop(place))
        # those that the real one should have given and did not
        return taken + [queue.pop(0) for _ in range(min(urls - len(taken), len(queue)))]
