"""Reports to the frontier: which URLs are settled, how many more are wanted, and which hosts are released."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from webcrawl.frontier import LeasedURL, Report
from webcrawl.metrics.totals import DEAD
from webcrawl.worker.leased_hosts import LeasedHost
from webcrawl.worker.state import WorkerState

logger = logging.getLogger(__name__)

_LONG_WAIT_SECONDS = 0.5
_SETTLED_PER_BATCH = 4
_MOST_AHEAD = 1000


class Reporter:
    """Writes and sends the reports of one worker."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._hosts = state.hosts

    async def send(self) -> None:
        """Sends what has changed since the last report.

        The totals go first. If this worker dies in between, its pages are fetched and counted again, never left out.
        """
        state = self._state
        self._keep_links()
        names = [name for name in state.to_report if name in self._hosts]
        state.to_report.clear()
        reports = [self.report(self._hosts[name]) for name in names]
        counted, permits = state.take_counters(), state.permits.take_used()
        answered, unreachable = set(state.answered_hosts), set(state.unreachable_hosts)
        if not reports and not counted and not permits:
            return
        try:
            await state.crawl.workers.beat(counted=counted, permits=permits, seeding=state.seeding)
            await state.crawl.count_hosts(answered, unreachable)
            state.answered_hosts -= answered
            state.unreachable_hosts -= unreachable
            await state.frontier.settle_all(reports, self._on_reply)
        except BaseException:
            state.to_report.update(names)
            raise

    async def send_last(self) -> None:
        """Sends everything, releases all hosts and signs the worker off. The engine has all discovered URLs."""
        state = self._state
        self._keep_links()
        await state.frontier.settle_all([self._end(host) for host in self._hosts], self._on_last_reply)
        if state.importance:
            await state.importance.pay(state.membership.served())
        if state.budgets:
            await state.budgets.send_last()
        await state.crawl.workers.leave(state.take_counters())
        state.discovered.save()

    def _end(self, host: LeasedHost) -> Report:
        """The report of a host when the worker signs off; its lease expires if a request to it is still in flight."""
        return self._release(host, host.report(self._state.discovered.sent))

    def _keep_links(self) -> None:
        """Writes the links of pages, which are not known any more once the pages are reported."""
        if self._state.importance:
            self._state.importance.flush()

    async def give_up(self, name: str) -> None:
        """Makes dead letters of all URLs of a host, those queued in the engine and those leased here."""
        state = self._state
        reason = "the host was given up after too many failures in a row"
        buried = await state.frontier.condemn(name, reason)
        state.given_up.discard(name)
        state.count_given_up(name)
        if name in self._hosts:
            buried += self._hosts[name].bury_rest(reason)
            state.report(name)
        state.counters[f"{DEAD}host"] += buried
        # a crawl of many dead hosts, each with a single URL, would fill the log
        level = logging.WARNING if buried else logging.INFO
        told = "Giving up %s after too many failures in a row; %d more URLs became dead letters."
        logger.log(level, told, name, buried)

    def report(self, host: LeasedHost) -> Report:
        """The current report of a host. It may release the host when no fetch is in flight."""
        host.lease.gap, host.lease.answered = host.turn.gap, host.turn.answered
        report = host.report(self._state.discovered.sent)
        report = self._with_records(report, last=False)
        if report.over and not host.lease.over:
            host.leaving = True  # it sinks now: others come first
        complete = len(report.settled) == len(host.settled)
        idle = host.unsettled == len(host.urls)
        if complete and idle and (host.leaving or _has_long_wait(host)):
            # the engine keeps a back-off across restarts, and another host can use the place
            return self._release(host, report)
        more = self._wanted(host)
        if complete and host.unsettled == 0 and not more:
            return self._release(host, report)
        if not more and (better := self._wanted_better(host)):
            return replace(report, more=better, better_than=host.urls[-1].level)
        return replace(report, more=more)

    def _release(self, host: LeasedHost, report: Report) -> Report:
        """Releases a host, if no request to it is in flight.

        Requests that no URL of its lease is for take its turns too, such as a robots.txt that redirects to it. Another
        worker may ask the host as soon as the engine has the last report, so such a request is waited for.
        """
        host.leaving = True
        if self._state.turns.places.leave(host.lease.host):
            return self.last_report(host)
        self._state.to_report.add(host.lease.host)
        return report

    def last_report(self, host: LeasedHost) -> Report:
        """The report that releases a host, with its failures and the pause before its next request."""
        host.lease.failures = host.turn.failures
        now = time.monotonic()
        wait = host.turn.wait(now)
        pause = max(wait, host.resumes - now)
        asked = pause == wait and host.turn.pace(now).wait_by == "Retry-After"
        quiet = self._state.turns.config.forgive_after
        report = host.report(self._state.discovered.sent)
        return self._with_records(replace(report, pause=pause, quiet=quiet, asked=asked), last=True)

    def _with_records(self, report: Report, *, last: bool) -> Report:
        """Adds what the engine is to know of the host and its URLs. `last`: the host is released."""
        state, name = self._state, report.lease.host
        patterns, dust = state.patterns.to_tell(name, last=last), state.dust.to_tell(name, last=last)
        over = state.budgets.over(name) if state.budgets else ""
        return replace(report, patterns=patterns, dust=dust, over=None if over == report.lease.over else over)

    def _wanted(self, host: LeasedHost) -> int:
        """How many more URLs to lease; a host is kept while no other host waits for its place.

        A fast host gets more than FRONTIER_LEASE_URLS ahead, or it would run out between two reports.
        """
        state = self._state
        fast = max(host.concurrency, len(host.settled)) // _SETTLED_PER_BATCH
        ahead = min(state.window.urls * (1 + fast), _MOST_AHEAD)
        low = len(host.urls) <= ahead // 2
        return ahead - len(host.urls) if low and not host.drained and self._may_keep(host) else 0

    def _wanted_better(self, host: LeasedHost) -> int:
        """How many URLs to lease if they are better than the last one leased ahead; they are handed out first."""
        most = min(self._state.window.urls, _MOST_AHEAD - len(host.urls))
        return most if host.urls and self._may_keep(host) else 0

    def _may_keep(self, host: LeasedHost) -> bool:
        """Whether more URLs of a host may be leased."""
        state = self._state
        others = state.turns.places.answered if host.turn.answered else len(self._hosts)
        room = others < state.window.size
        served = state.membership.serves(state.frontier.keys.shard(host.lease.host))
        return room and served and not (host.frozen or host.leaving or state.closing)

    def _on_last_reply(self, report: Report, _: list[LeasedURL] | None, given: Sequence[int]) -> None:
        """Takes what the purse got for the pages of one report, and observes how long they waited for it."""
        self._observe(self._hosts[report.lease.host], report)
        if self._state.importance:
            self._state.importance.gave(report, given)

    def _observe(self, host: LeasedHost, report: Report) -> None:
        """Observes how long the URLs of a report have waited for their acknowledgement."""
        if host.arrivals is None:
            return
        now = time.monotonic()
        for settled in host.settled[: len(report.settled)]:
            if settled.at is not None:
                host.arrivals.acknowledge(settled.settlement, settled.at, now)

    def _on_reply(self, report: Report, urls: list[LeasedURL] | None, given: Sequence[int]) -> None:
        """Applies the engine's reply to one report: further URLs, or None when the lease was lost."""
        self._on_last_reply(report, urls, given)
        name, host = report.lease.host, self._hosts[report.lease.host]
        self._state.patterns.told(name, report.patterns)
        self._state.dust.told(name, report.dust)
        if report.over is not None:
            host.lease.over = report.over
        del host.settled[: len(report.settled)]
        if host.settled:
            self._state.report(name)
        if urls is None:
            self._hosts.lose(name)
        elif report.pause >= 0:
            self._hosts.drop(name)
        elif report.more:
            if report.better_than is None:
                host.drained = len(urls) < report.more
            self._hosts.add_urls(host, urls)
            if host.settled or not (host.urls or host.unsettled):
                self._state.report(name)


def _has_long_wait(host: LeasedHost) -> bool:
    """Whether the host must be left alone for longer than its usual gap between two requests."""
    return host.turn.wait(time.monotonic()) > host.turn.gap + _LONG_WAIT_SECONDS
