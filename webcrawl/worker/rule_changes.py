"""Applies POLITENESS_RULES to leased hosts, and looks whether their file has changed."""

from __future__ import annotations

import asyncio
import logging
import time

from webcrawl.errors import ConfigurationError
from webcrawl.frontier import Lease
from webcrawl.frontier.ruled_limits import review_rules
from webcrawl.hosts.rules import Rules
from webcrawl.worker.state import WorkerState

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0


class RuleChanges:
    """Tells the engine the page limits of rules. What is still to be told survives an engine that is unavailable."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._untold: set[str] = set()
        """Hosts whose page limit the engine does not know yet."""
        self._to_review = False
        self._next_look = time.monotonic() + _LOOK_SECONDS

    def check(self, lease: Lease) -> None:
        """Releases a host that was just leased, before its first request, if the engine did not know its page limit."""
        rules = self._state.turns.rules
        if rules is not None and lease.ruled != rules.max_pages(lease.host):
            self._release(lease.host)

    async def update(self) -> None:
        """Looks at the file if it is time, and tells the engine what it does not know; call it in each round."""
        rules = self._state.turns.rules
        if rules is None:
            return
        if rules.path is not None and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_SECONDS
            await self._look(rules)
        while self._untold:
            host = next(iter(self._untold))
            await self._state.frontier.rule_limit(host, rules.max_pages(host))
            self._untold.discard(host)
        if self._to_review:
            await review_rules(self._state.frontier, rules.max_pages, self._state.membership.served())
            self._to_review = False

    async def _look(self, rules: Rules) -> None:
        try:
            table = await asyncio.to_thread(rules.changed)
        except ConfigurationError as error:
            logger.error("%s. The rules that were read before stay in force.", error)
            return
        if table is None:
            return
        before = rules.limits_pages
        rules.use(table)
        for name in self._state.turns.places.reconfigure():
            if name in self._state.hosts:
                self._state.delay_changed(name)
        for host in self._state.hosts:
            host.concurrency = host.turn.concurrency
            self.check(host.lease)
        self._to_review = self._to_review or rules.limits_pages != before
        logger.info("The %d rules of %s were read again.", len(table), rules.path)

    def _release(self, host: str) -> None:
        self._untold.add(host)
        self._state.hosts[host].leaving = True
        self._state.report(host)
