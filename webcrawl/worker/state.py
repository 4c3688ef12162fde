"""The state that one worker's facade and loop share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from webcrawl.config import FrontierConfig
from webcrawl.frontier import Candidate, Crawl, Frontier
from webcrawl.frontier.figures import GIVEN_UP
from webcrawl.frontier.ledger import owners
from webcrawl.hosts.costs import Costs
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.worker.budgets import Budgets
from webcrawl.worker.discovered import Discovered
from webcrawl.worker.dust import Dust
from webcrawl.worker.importance import Importance
from webcrawl.worker.lease_window import LeaseWindow
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.membership import Membership
from webcrawl.worker.patterns import Patterns
from webcrawl.worker.permits import Permits

_MOST_NAMED = 20
"""Given-up hosts of a worker whose names the totals have."""


@dataclass(slots=True)
class WorkerState:
    """The parts of one worker, and what they leave for the next round of its loop.

    `wake` is called when `Worker.next` may have a URL, or when the worker has finished.
    """

    frontier: Frontier
    crawl: Crawl
    turns: Turns
    config: FrontierConfig
    wake: Callable[[], None]
    hosts: LeasedHosts
    permits: Permits
    membership: Membership
    discovered: Discovered
    counters: Counter[str]
    """Increments for the crawl's totals, sent with the next report."""
    importance: Importance | None
    costs: Costs = field(default_factory=Costs)
    """What hosts have cost since the last heartbeat."""
    answered_hosts: set[str] = field(default_factory=set)
    """Hosts that answered and are not counted yet."""
    unreachable_hosts: set[str] = field(default_factory=set)
    """Hosts that could not be reached and are not counted yet."""
    to_report: set[str] = field(default_factory=set)
    """Leased hosts with something to report."""
    given_up: set[str] = field(default_factory=set)
    """Hosts whose queued URLs are to become dead letters."""
    named_hosts: int = 0
    """Given-up hosts whose names this worker has added to the totals."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the loop has something to do."""
    seeding: bool = True
    closing: bool = False
    finished: str | None = None
    """Why the crawl is over: "finished", "max_pages", "max_bytes", "stopped" or "frontier_error"; else None."""
    failure: Exception | None = None
    pages: int = 0
    """Pages that this worker has finished."""
    processing: Callable[[float], Sequence[tuple[str, float]]] = lambda _: ()
    """Returns the URLs that were fetched by a monotonic time and are still processed, each with such a time."""
    window: LeaseWindow = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        self.patterns.changed = self.dust.changed = self.reconsider
        self.dust.queue = self.queue_instead
        self.hosts.report = self.report
        if self.budgets:
            self.budgets.changed = self.budget_changed
        self.window = LeaseWindow(config.lease_hosts, config.most_lease_hosts, config.lease_urls)

    @property
    def patterns(self) -> Patterns:
        """The records of URL patterns."""
        return self.hosts.patterns

    @property
    def dust(self) -> Dust:
        """The DUST rules."""
        return self.hosts.dust

    @property
    def budgets(self) -> Budgets | None:
        """What names and domains spend; None if they have no budgets."""
        return self.hosts.budgets

    @property
    def observed(self) -> Observations | None:
        """What the worker has observed for its metrics and traces; None without METRICS_PORT and TRACES."""
        return self.hosts.observed

    def report(self, host: str) -> None:
        """Includes a host in the next report."""
        self.to_report.add(host)
        self.changed.set()

    def delay_changed(self, host: str) -> None:
        """Reschedules a host whose delay has changed, and reports the new delay."""
        self.hosts.reschedule(host)
        self.report(host)

    def leave_addresses(self, seconds: float) -> None:
        """Leaves IP addresses to other workers for so many seconds: the engine may not know when they ask them."""
        if self.turns.addresses:
            self.turns.addresses.engine_restarted(seconds)

    def reconsider(self, host: str) -> None:
        """Settles leased URLs that sink or are replaced now, and reports what the engine is to know of the host."""
        if host in self.hosts:
            self.hosts[host].reconsider(self.patterns, self.dust)
            self.report(host)

    def queue_instead(self, candidate: Candidate) -> int:
        """Adds a URL instead of a leased one; returns how many discovered URLs the engine must have then."""
        self.counters["rewritten"] += 1
        self.discovered.add(candidate)
        return self.discovered.total

    def budget_changed(self, owner: str) -> None:
        """Reports the leased hosts of an owner that is over its budget now, or no longer."""
        for host in self.hosts:
            if owner in owners(host.lease.host):
                self.report(host.lease.host)

    def count_given_up(self, host: str) -> None:
        """Counts a host that was given up, and names it in the totals if it is one of the first."""
        self.counters["hosts_given_up"] += 1
        if self.named_hosts < _MOST_NAMED:
            self.named_hosts += 1
            self.counters[f"{GIVEN_UP}{host}"] += 1

    def finish(self, reason: str) -> None:
        """Ends the crawl for this worker."""
        if self.finished != reason:
            self.finished = reason
            self.wake()

    def take_counters(self) -> Counter[str]:
        """Returns the increments to send, and starts again at zero."""
        taken = Counter(self.counters)
        if self.observed is not None:
            self.observed.counts.update(taken)
        self.counters.clear()
        return taken
