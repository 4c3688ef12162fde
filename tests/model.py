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
    extra: bytes | None = None
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
    queues: dict[str, list[Entry]] = field(default_factory=dict)
    """By host, in the order of fetching: by level, then age."""
    leases: dict[str, ModelLease] = field(default_factory=dict)
    later: list[tuple[str, Entry, bool]] = field(default_factory=list)
    """Host, entry, and whether it is due."""
    seen: set[int] = field(default_factory=set)
    dead: list[tuple[str, Entry, str]] = field(default_factory=list)
    """Host, entry, reason."""
    done: int = 0
    added: int = 0

    def add(self, urls: Sequence[tuple[str, Entry, int | None]]) -> list[bool]:
        verdicts = []
        for host, entry, fingerprint in urls:
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
        for host, entry in awake:
            self._push(host, entry)

    def ready(self) -> dict[str, int]:
        """Hosts that may be leased now, with their best level."""
        return {
            host: queue[0].level
            for host, queue in self.queues.items()
            if queue and host not in self.leases and not (self.hosts[host].blocked or self.hosts[host].held)
        }

    def lease(self, host: str, token: int, urls: int, *, brief: bool) -> ModelLease:
        """This host is leased under this token."""
        record = self.hosts[host]
        record.held, record.brief, record.holder = True, brief, (self.crawl, token)
        taken = self._pop(host, urls)
        lease = ModelLease(token, dict(enumerate(taken, 1)), len(taken) + 1, brief)
        self.leases[host] = lease
        return lease

    def holds(self, host: str, token: int) -> bool:
        """Whether a lease is still good: not taken back, and the host not given to another crawl since."""
        lease = self.leases.get(host)
        return bool(lease and lease.token == token and self.hosts[host].holder == (self.crawl, token))

    def settle(self, host: str, settled: Sequence[tuple[int, str, bool, str]]) -> None:
        """URLs by index, with a verdict, whether a retry is due at once, and a reason."""
        for index, verdict, due, reason in settled:
            entry = self.leases[host].entries.pop(index, None)
            if entry is None:
                continue
            if verdict == "done":
                self.done += 1
            elif verdict == "retry":
                self.later.append((host, replace(entry, attempts=entry.attempts + 1), due))
            else:
                self.dead.append((host, entry, reason))

    def keep(self, host: str, more: int, *, brief: bool) -> list[tuple[int, Entry]]:
        """The lease goes on; returns the further URLs with their indexes, none while the host is blocked."""
        lease, record = self.leases[host], self.hosts[host]
        lease.brief = record.brief = brief
        record.held = True
        taken = [] if record.blocked else self._pop(host, more)
        new = list(enumerate(taken, lease.next))
        lease.entries.update(new)
        lease.next += len(taken)
        return new

    def release(self, host: str, *, failures: int, blocked: bool) -> None:
        record = self.hosts[host]
        record.held = False
        record.failures = failures
        record.blocked |= blocked
        self._give_back(host, list(self.leases.pop(host).entries.values()))

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
                record.held = False
                record.blocked |= blocked or bool(record.delay)
        return len(taken), buried

    def condemn(self, host: str, reason: str) -> int:
        condemned = self.queues.pop(host, [])
        self.dead += [(host, entry, reason) for entry in condemned]
        return len(condemned)

    def requeue(self, urls: set[tuple[str, str]]) -> int:
        """Dead letters of these (host, path), in the order of their death."""
        chosen = [letter for letter in self.dead if (letter[0], letter[1].path) in urls]
        self.dead = [letter for letter in self.dead if (letter[0], letter[1].path) not in urls]
        for host, entry, _ in chosen:
            self._push(host, replace(entry, attempts=0, returns=0, blames=0))
        self.added += len(chosen)
        return len(chosen)

    def counts(self) -> dict[str, int]:
        return {
            "queued": sum(len(queue) for queue in self.queues.values()),
            "leased": sum(len(lease.entries) for lease in self.leases.values()),
            "later": len(self.later),
            "seen": len(self.seen),
            "added": self.added,
            "done": self.done,
            "dead": len(self.dead),
        }

    def _push(self, host: str, entry: Entry) -> None:
        queue = self.queues.setdefault(host, [])
        queue.append(entry)
        queue.sort(key=lambda one: one.level)  # stable: age decides within a level

    def _give_back(self, host: str, entries: Sequence[Entry]) -> None:
        queue = [*entries, *self.queues.get(host, [])]
        self.queues[host] = sorted(queue, key=lambda one: one.level)

    def _pop(self, host: str, urls: int) -> list[Entry]:
        queue = self.queues.get(host, [])
        taken, self.queues[host] = queue[:urls], queue[urls:]
        return taken
