"""Rules of hosts that change while a worker crawls: POLITENESS_RULES is read again, and applied to leased hosts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from webcrawl.errors import ConfigurationError
from webcrawl.frontier import Frontier, Lease
from webcrawl.frontier.records import HostLimits
from webcrawl.hosts.rules import HostRules
from webcrawl.hosts.turns import Turns
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.membership import Membership

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_BATCH = 500


@dataclass(slots=True)
class RuleChanges:
    """Applies POLITENESS_RULES to leased hosts, and tells the engine the page limits of rules.

    The limits that the engine does not know yet are kept while it is unavailable.
    """

    frontier: Frontier
    turns: Turns
    hosts: LeasedHosts
    membership: Membership
    _unsaved: set[str] = field(default_factory=set, init=False)
    """Hosts whose page limit the engine does not know yet."""
    _to_review: bool = field(default=False, init=False)
    _next_look: float = field(default_factory=lambda: time.monotonic() + _LOOK_SECONDS, init=False)

    def check(self, lease: Lease) -> None:
        """Releases a host that was just leased, before its first request, if the engine did not know its page limit."""
        rules = self.turns.rules
        if rules is not None and lease.ruled != rules.max_pages(lease.host):
            self._unsaved.add(lease.host)
            self.hosts.release(lease.host)

    async def update(self) -> None:
        """Looks at the file if it is time, and tells the engine what it does not know; call it in each round."""
        rules = self.turns.rules
        if rules is None:
            return
        if rules.path is not None and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_SECONDS
            await self._look(rules)
        while self._unsaved:
            host = next(iter(self._unsaved))
            await self.frontier.rule_limit(host, rules.max_pages(host))
            self._unsaved.discard(host)
        if self._to_review:
            await review_rules(self.frontier, rules.max_pages, self.membership.served())
            self._to_review = False

    async def _look(self, rules: HostRules) -> None:
        try:
            table = await asyncio.to_thread(rules.changed)
        except ConfigurationError as error:
            logger.error("%s. The rules that were read before stay in force.", error)
            return
        if table is None:
            return
        before = rules.limits_pages
        rules.use(table)
        for name in self.turns.host_slots.reconfigure():
            if name in self.hosts:
                self.hosts.delay_changed(name)
        for host in self.hosts:
            host.concurrency = host.turn.concurrency
            self.check(host.lease)
        self._to_review = self._to_review or rules.limits_pages != before
        logger.info("The %d rules of %s were read again.", len(table), rules.path)


async def review_rules(
    frontier: Frontier, pages_of: Callable[[str], int | None], shards: Iterable[int]
) -> None:
    """Sets the limit of each host that has a limit by a rule or a spent budget to the result of `pages_of`.

    Other hosts get their limits when they are leased.
    """
    for shard in shards:
        prefix = frontier.keys.queue(shard)[0]
        for name in ("limits", "parked"):
            async for key, value in frontier.engine.client.hscan_iter(prefix + name, count=_BATCH):
                host, text = key.decode(), value.decode()
                if name == "parked" and text != "budget":
                    continue
                known = await _ruled(frontier, prefix, host) if name == "parked" else _decoded(text)
                if known != (wanted := pages_of(host)):
                    await frontier.rule_limit(host, wanted)


async def _ruled(frontier: Frontier, prefix: str, host: str) -> int | None:
    limits = await frontier.engine.client.hget(f"{prefix}limits", host)
    return _decoded(limits.decode()) if limits else None


def _decoded(text: str) -> int | None:
    return HostLimits.decoded(text).ruled
