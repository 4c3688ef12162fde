"""The files that a worker reads again when they have changed: POLITENESS_RULES, and the weights of `scrapy mine`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from webcrawl.errors import ConfigurationError, StoreError, StoreUnavailable
from webcrawl.frontier import Frontier, Lease
from webcrawl.frontier.ruled_limits import review_rules
from webcrawl.hosts.rules import HostRules
from webcrawl.hosts.turns import Turns
from webcrawl.policies.mined import Mined
from webcrawl.stores.weights_file import WeightsFile
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.membership import Membership

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_LOOK_FAR_SECONDS = 60.0
"""Seconds between two looks at a file in an object store: each look is a request."""
_WAIT_SECONDS = 5.0


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


class MinedChanges:
    """Passes the weights of `scrapy mine` to `use`, at the start of a worker and again when they have changed.

    The weights that were read before stay in use while the file is damaged or out of reach.
    """

    def __init__(self, file: WeightsFile, use: Callable[[Mined], None]) -> None:
        self._file, self._use = file, use
        self._every = _LOOK_SECONDS if file.is_local else _LOOK_FAR_SECONDS
        self._next_look = 0.0
        self._look: asyncio.Future[Mined | None] | None = None
        self._is_first = True
        self._was_logged = False

    async def update(self) -> None:
        """Looks at the file if it is time; call it in each round.

        Waits only for the first look at an object store, and not for long: later looks must delay no heartbeat.
        """
        if self._look is None:
            if time.monotonic() < self._next_look:
                return
            self._next_look = time.monotonic() + self._every
            self._look = asyncio.get_running_loop().run_in_executor(None, self._file.changed)
            if self._is_first or self._file.is_local:
                await asyncio.wait({self._look}, timeout=_WAIT_SECONDS)
            self._is_first = False
        if self._look.done():
            look, self._look = self._look, None
            self._take(look)

    def _take(self, look: asyncio.Future[Mined | None]) -> None:
        try:
            mined = look.result()
        except StoreError as error:
            self._log(error)
            return
        self._was_logged = False
        if mined is not None:
            self._use(mined)
            logger.info("The weights of %s, mined at %s, are in use.", self._file.name, mined.made)

    def _log(self, error: StoreError) -> None:
        """Logs an error, but only the first one while a store is out of reach."""
        if isinstance(error, StoreUnavailable):
            if self._was_logged:
                return
            self._was_logged = True
        logger.error("%s. The weights that were read before stay in use.", error)
