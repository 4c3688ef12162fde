"""The budgets of names and registered domains in one worker: what their hosts spend, and who is over a budget."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from webcrawl.frontier import Lease
from webcrawl.frontier.ledger import BudgetEntry, Ledger, owners
from webcrawl.policies.budgets import NEW_HOST, WASTE, Slowdown, Spending, cost, slowdown
from webcrawl.worker.trust import Trust

_EVERY_SECONDS = 0.3
_MOST_ENTRIES = 5_000
"""The number of owners whose counts are sent at once."""
_MOST_KNOWN = 20_000
"""Owners whose spending a worker remembers, about 150 bytes each."""
_MOST_LINKS = 30_000
"""Links from a domain to a host that a worker remembers as sent, about 150 bytes each."""


class Budgets:
    """Counts what owners of budgets spend, sends the counts from time to time, and knows who is over a budget.

    The counts of the last second are lost if the worker is killed.
    """

    def __init__(self, ledger: Ledger, delay: float, trust: Trust | None = None) -> None:
        """`delay`: the usual seconds between two requests to a host; `trust`: None if hosts have no trust."""
        self._ledger, self._delay, self.trust = ledger, delay, trust
        self._entries: dict[str, BudgetEntry] = {}
        self._known: OrderedDict[str, Spending] = OrderedDict()
        self._linked: OrderedDict[str, set[str]] = OrderedDict()
        """Registered domain -> hosts to which links of its pages were sent."""
        self._links = 0
        """The number of hosts in all sets of `_linked`."""
        self._over: set[str] = set()
        self._slowdown = Slowdown()
        self._send_at = 0.0

    def open(self, host: str, *, answered: bool) -> None:
        """Asks the engine what the owners of a leased host have spent, unless the worker knows it.

        `answered`: the host has answered before. A new host costs its registered domain, if that is another name.
        """
        for owner in owners(host):
            if owner not in self._known:
                self._entry(owner)
        if not answered:
            for domain in owners(host)[1:]:
                self._entry(domain).spent += NEW_HOST

    def spend(self, host: str, importance: float | None) -> None:
        """Counts a URL that is handed out; `importance` is a multiple of the mean, None if unknown."""
        for owner in owners(host):
            domains = self._known.get(owner, Spending()).domains
            self._entry(owner).spent += cost(importance, domains)

    def waste(self, host: str) -> None:
        """Counts that a page of a host gave nothing new, if somebody is over a budget."""
        if self.over(host):
            for owner in owners(host):
                self._entry(owner).spent += WASTE

    def link(self, source: str, links: Iterable[str]) -> None:
        """Counts the links of a page of the host `source` to other registered domains."""
        own = f"{source}/"
        hosts = {link[: link.find("/", 8)] for link in links if not link.startswith(own)}
        if not hosts:
            return
        domain = owners(source)[-1]
        for host in self._not_yet_sent(domain, hosts):
            if self.trust:
                self.trust.link(source, host)
            if owners(host)[-1] != domain:
                for owner in owners(host):
                    self._entry(owner).domains.add(domain)

    def over(self, host: str) -> str:
        """Returns the owner of a host that is over its budget, and the penalty, as in "a.example 4".

        That is the text that the engine has; empty if no owner is over its budget.
        """
        if not self._known and not self._entries:
            return ""
        for owner in owners(host):
            spending, entry = self._known.get(owner, Spending()), self._entries.get(owner)
            if entry:
                spending = spending._replace(spent=spending.spent + entry.spent)
            if spending.is_over:
                return f"{owner} {spending.penalty}"
        return ""

    def sinks(self, lease: Lease) -> bool:
        """Whether a leased host sinks, because it is over a budget, and the engine does not know it yet."""
        return not lease.over and bool(self.over(lease.host))

    async def send_if_due(self, shards: Sequence[int], changed: Callable[[str], None]) -> None:
        """Sends the counts from time to time; `shards` are the shards that this worker serves.

        `changed` is called with each owner that is over its budget now, or no longer.
        """
        now = time.monotonic()
        if now < self._send_at and len(self._entries) < _MOST_ENTRIES:
            return
        self._send_at = now + _EVERY_SECONDS
        # together, because the reports of finished URLs wait for both
        await asyncio.gather(self._send(shards, changed), *([self.trust.send()] if self.trust else ()))

    async def _send(self, shards: Sequence[int], changed: Callable[[str], None]) -> None:
        entries, self._entries = self._entries, {}
        owners_changed = []
        for owner, spending in (await self._ledger.add(entries)).items():
            known = self._known.get(owner)
            if known is None and not entries[owner].spent and entries[owner].domains:
                continue  # the host is only linked to, and not crawled here
            self._known[owner] = spending
            self._known.move_to_end(owner)
            if spending.is_over != (owner in self._over):
                self._over ^= {owner}
                owners_changed.append(owner)
        while len(self._known) > _MOST_KNOWN:
            self._over.discard(self._known.popitem(last=False)[0])
        for owner in owners_changed:
            changed(owner)
        for _ in range(1 + bool(owners_changed)):  # hosts that are over now wait from now on
            self._slowdown = slowdown(*await self._ledger.slow_down(shards, self._slowdown, self._delay))

    async def send_last(self) -> None:
        """Sends the last counts, when the worker ends."""
        entries, self._entries = self._entries, {}
        await self._ledger.add(entries)
        if self.trust:
            await self.trust.send_last()

    def _entry(self, owner: str) -> BudgetEntry:
        return self._entries.setdefault(owner, BudgetEntry())

    def _not_yet_sent(self, domain: str, hosts: set[str]) -> set[str]:
        """Returns the hosts whose links from a domain were not sent yet, and remembers them as sent."""
        sent = self._linked.setdefault(domain, set())
        self._linked.move_to_end(domain)
        # a difference of sets, because most pages of a site link to the same hosts
        new = hosts - sent
        sent |= new
        self._links += len(new)
        while self._links > _MOST_LINKS:
            self._links -= len(self._linked.popitem(last=False)[1])
        return new
