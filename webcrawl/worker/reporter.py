"""Reports to the frontier: which URLs are settled, how many more are wanted, and which hosts are released."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from webcrawl.engine.backoff import IdleTime
from webcrawl.frontier import Crawl, Frontier, LeasedURL, LeaseReport, Settlement
from webcrawl.frontier.figures import GIVEN_UP
from webcrawl.frontier.ledger import owners
from webcrawl.hosts.turns import Turns
from webcrawl.metrics.observations import Observations
from webcrawl.metrics.totals import DEAD
from webcrawl.worker.leased_host import LeasedHost
from webcrawl.worker.leased_hosts import LeasedHosts
from webcrawl.worker.leasing import LeaseWindow
from webcrawl.worker.link_intake import LinkIntake
from webcrawl.worker.membership import Membership, Permits

logger = logging.getLogger(__name__)

_LONG_WAIT_SECONDS = 0.5
_SETTLED_PER_BATCH = 4
_MOST_AHEAD = 1000
_CLASSES_SECONDS = 1.0
_MOST_NAMED = 20
"""The number of given-up hosts of a worker whose names the totals have."""


class Tally:
    """What a worker has counted for the totals of its crawl since its last report.

    `observed` gets the sums, for the metrics of the worker; None without METRICS_PORT and TRACES.
    """

    def __init__(self, observed: Observations | None = None) -> None:
        self.counters = Counter[str]()
        """Increments for the totals."""
        self.answered_hosts: set[str] = set()
        """Hosts that answered and are not counted yet."""
        self.unreachable_hosts: set[str] = set()
        """Hosts that could not be reached and are not counted yet."""
        self._observed = observed
        self._named_hosts = 0

    def count_given_up(self, host: str) -> None:
        """Counts a host that was given up. The totals have the names of the first of these hosts."""
        self.counters["hosts_given_up"] += 1
        if self._named_hosts < _MOST_NAMED:
            self._named_hosts += 1
            self.counters[f"{GIVEN_UP}{host}"] += 1

    def take_counters(self) -> Counter[str]:
        """Returns the increments to send, and starts again at zero."""
        taken = Counter(self.counters)
        if self._observed is not None:
            self._observed.counts.update(taken)
        self.counters.clear()
        return taken


@dataclass(slots=True)
class Reporter:
    """Writes and sends the reports of one worker."""

    frontier: Frontier
    crawl: Crawl
    turns: Turns
    hosts: LeasedHosts
    intake: LinkIntake
    membership: Membership
    permits: Permits
    window: LeaseWindow
    tally: Tally
    idle: IdleTime
    _leases_more: bool = field(default=True, init=False)
    """Whether more URLs may be leased: the worker does not close."""

    async def send(self, *, seeding: bool, closing: bool) -> None:
        """Sends what has changed since the last report.

        The totals go first. If this worker dies in between, its pages are fetched and counted again, never left out.
        """
        self._leases_more = not closing
        self._keep_links()
        for name in self.intake.take_grown():
            if name in self.hosts:
                self.hosts[name].drained = False
        tally = self.tally
        names = [name for name in self.hosts.to_report if name in self.hosts]
        self.hosts.to_report.clear()
        reports = [self._report(self.hosts[name]) for name in names]
        counted, permits = tally.take_counters(), self.permits.take_used()
        answered, unreachable = set(tally.answered_hosts), set(tally.unreachable_hosts)
        if not reports and not counted and not permits:
            return
        try:
            await self.crawl.workers.beat(counted=counted, permits=permits, seeding=seeding)
            await self.crawl.count_hosts(answered, unreachable)
            tally.answered_hosts -= answered
            tally.unreachable_hosts -= unreachable
            await self.frontier.settle_all(reports, self._on_reply)
        except BaseException:
            self.hosts.to_report.update(names)
            raise

    async def send_last(self) -> None:
        """Sends everything, releases all hosts and signs the worker off.

        A page with links that the engine does not have is not settled: it will be fetched again.
        """
        self._keep_links()
        await self.frontier.settle_all([self._end(host) for host in self.hosts], self._on_last_reply)
        await self.intake.send_last_worth(self.membership.served())
        await self.crawl.workers.leave(self.tally.take_counters())
        self.intake.close()

    def _end(self, host: LeasedHost) -> LeaseReport:
        """The report of a host when the worker signs off; its lease expires if a request to it is still in flight."""
        return self._release(host, host.report(self.intake.sent))

    def _keep_links(self) -> None:
        """Writes the links of pages, which the worker forgets when the pages are reported."""
        if self.intake.credit:
            self.intake.credit.flush()

    async def give_up(self, name: str) -> None:
        """Makes dead letters of all URLs of a host, queued in the engine or leased here."""
        reason = "the host was given up after too many failures in a row"
        buried = await self.frontier.condemn(name, reason)
        self.tally.count_given_up(name)
        if name in self.hosts:
            buried += self.hosts[name].bury_rest(reason)
            self.hosts.report(name)
        self.tally.counters[f"{DEAD}host"] += buried
        # a crawl of many dead hosts, each with a single URL, would fill the log
        level = logging.WARNING if buried else logging.INFO
        message = "Giving up %s after too many failures in a row; %d more URLs became dead letters."
        logger.log(level, message, name, buried)

    def report_owned(self, owner: str) -> None:
        """Reports the leased hosts of a name or domain that is over its budget now, or no longer."""
        for host in self.hosts:
            if owner in owners(host.lease.host):
                self.hosts.report(host.lease.host)

    def log_lost_leases(self) -> None:
        """Logs one line, because a worker that was suspended loses all its leases at once."""
        if lost := self.hosts.lost:
            self.tally.counters["lost_leases"] += len(lost)
            logger.warning(
                "The lease of %s%s was lost: the host was blocked, or this worker sent no heartbeat for "
                "FRONTIER_LEASE_SECONDS.",
                lost[0],
                f" (and of {len(lost) - 1} more hosts)" if len(lost) > 1 else "",
            )
            lost.clear()

    def _report(self, host: LeasedHost) -> LeaseReport:
        """The current report of a host. It may release the host when no fetch is in flight."""
        host.lease.gap, host.lease.answered = host.turn.gap, host.turn.answered
        report = self.intake.records.complete(host.report(self.intake.sent), last=False)
        if report.over and not host.lease.over:
            host.leaving = True  # it sinks now: other hosts come first
        complete = len(report.settled) == len(host.settled)
        idle = host.unsettled == len(host.urls)
        if complete and idle and (host.leaving or _has_long_wait(host)):
            # the engine keeps a back-off across restarts, and another host can use the lease meanwhile
            return self._release(host, report)
        more = self._wanted(host)
        if complete and host.unsettled == 0 and not more:
            return self._release(host, report)
        if more:
            return replace(report, more=more)
        if self.frontier.traffic is not None:
            return self._with_lacking(host, report)
        better = self._wanted_better(host)
        return replace(report, more=better, better_than=host.urls[-1].rank) if better else report

    def _release(self, host: LeasedHost, report: LeaseReport) -> LeaseReport:
        """Releases a host, if no request to it is in flight.

        Requests for URLs outside its lease take its turns too, as for a robots.txt that redirects to the host. Another
        worker may ask the host as soon as the engine has the last report, so the worker waits for these requests.
        """
        host.leaving = True
        if self.turns.host_slots.leave(host.lease.host):
            return self._last_report(host)
        self.hosts.to_report.add(host.lease.host)
        return report

    def _last_report(self, host: LeasedHost) -> LeaseReport:
        """The report that releases a host, with its failures and the pause before its next request."""
        report = self._with_pause(host, host.report(self.intake.sent))
        self.idle.foresee(report.pause)
        return self.intake.records.complete(report, last=True)

    def hand_over(self, host: LeasedHost) -> LeaseReport:
        """The report that releases a host, but keeps its lease for URLs that were handed out and are not settled."""
        host.lease.gap, host.lease.answered = host.turn.gap, host.turn.answered
        back = tuple(Settlement(url.index, "back") for url in host.urls)
        return self._with_pause(host, LeaseReport(host.lease, back, lets_go=True))

    def _with_pause(self, host: LeasedHost, report: LeaseReport) -> LeaseReport:
        """A report with the failures of a host and the pause before its next request."""
        host.lease.failures = host.turn.failures
        now = time.monotonic()
        wait = host.turn.wait(now)
        pause = max(wait, host.resumes - now)
        asked = pause == wait and host.turn.pace(now).wait_by == "Retry-After"
        return replace(report, pause=pause, quiet=self.turns.config.forgive_after, asked=asked)

    def _wanted(self, host: LeasedHost) -> int:
        """How many more URLs to lease; a host is kept while no other host waits to be leased.

        A fast host gets more than the usual number of URLs ahead, or it would run out between two reports.
        """
        fast = max(host.concurrency, len(host.settled)) // _SETTLED_PER_BATCH
        ahead = min(self.window.urls * (1 + fast), _MOST_AHEAD)
        low = len(host.urls) <= ahead // 2
        return ahead - len(host.urls) if low and not host.drained and self._may_keep(host) else 0

    def _wanted_better(self, host: LeasedHost) -> int:
        """How many URLs to lease if they are better than the last URL leased ahead; they are handed out first."""
        most = min(self.window.urls, _MOST_AHEAD - len(host.urls))
        return most if host.urls and self._may_keep(host) else 0

    def _with_lacking(self, host: LeasedHost, report: LeaseReport) -> LeaseReport:
        """The report that asks for URLs of the classes of which few are leased, each second.

        Otherwise, a class that has no turn would keep out the others, while its URLs are leased and wait.
        """
        now = time.monotonic()
        if now - host.classes_asked < _CLASSES_SECONDS or not self._may_lease(host):
            return report
        host.classes_asked, most = now, self.window.urls
        leased = Counter(url.fetch_class for url in host.urls)
        enough_of = {name for name, number in leased.items() if number > most // 2}
        return replace(report, more=most, enough_of=enough_of)

    def _may_keep(self, host: LeasedHost) -> bool:
        """Whether a host may be kept for more of its URLs: its slice is not over, or no other host waits for it."""
        others = self.turns.served if host.turn.answered else len(self.hosts)
        return self._may_lease(host) and (others < self.window.size or not host.slice_over(time.monotonic()))

    def _may_lease(self, host: LeasedHost) -> bool:
        """Whether more URLs of a host may be leased."""
        served = self.membership.serves(self.frontier.keys.shard(host.lease.host))
        return served and self._leases_more and not (host.frozen or host.leaving)

    def _on_last_reply(self, report: LeaseReport, _: list[LeasedURL] | None, given: Sequence[int]) -> None:
        """Divides the credit of the pages of a report, and observes how long they waited for their acknowledgement."""
        self._observe(self.hosts[report.lease.host], report)
        if self.intake.credit:
            self.intake.credit.divide(report, given)

    def _observe(self, host: LeasedHost, report: LeaseReport) -> None:
        """Observes how long the URLs of a report have waited for their acknowledgement."""
        if host.arrivals is None:
            return
        now = time.monotonic()
        for settled in host.settled[: len(report.settled)]:
            if settled.at is not None:
                host.arrivals.acknowledge(settled.settlement, settled.at, now)

    def _on_reply(self, report: LeaseReport, urls: list[LeasedURL] | None, given: Sequence[int]) -> None:
        """Applies the engine's reply to one report: further URLs, or None when the lease was lost."""
        self._on_last_reply(report, urls, given)
        name, host = report.lease.host, self.hosts[report.lease.host]
        self.intake.records.saved(report)
        del host.settled[: len(report.settled)]
        if host.settled:
            self.hosts.report(name)
        if urls is None:
            self.hosts.lose(name)
        elif report.pause >= 0:
            self.hosts.drop(name)
        elif report.more:
            if report.better_than is None and not report.enough_of:
                host.drained = len(urls) < report.more
            self.hosts.add_urls(host, urls)
            if host.settled or not (host.urls or host.unsettled):
                self.hosts.report(name)


def _has_long_wait(host: LeasedHost) -> bool:
    """Whether the host must be left alone for longer than its usual gap between two requests."""
    return host.turn.wait(time.monotonic()) > host.turn.gap + _LONG_WAIT_SECONDS
