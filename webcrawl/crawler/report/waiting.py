"""What a crawl waits for, in words, for the progress display. Each look costs the same for a crawl of any size."""

from __future__ import annotations

import time
from collections.abc import Mapping

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.crawler.access import tasks_of
from webcrawl.crawler.components import Pacer, ResourceRules
from webcrawl.crawler.scheduling.tasks import Task, Tasks
from webcrawl.crawler.session import Session
from webcrawl.documents.values import size
from webcrawl.frontier.figures import CrawlFigures
from webcrawl.frontier.gauges import NextHost, NextRetry, next_waits
from webcrawl.hosts.costs import Cost
from webcrawl.hosts.robots import robots_url

STOPPING = "stopping"
"""Begins the line of a crawl that ends."""

_SLOW_SECONDS = 3.0
"""Seconds after which a request is shown."""
_MOST_SHOWN = 3


class Waiting:
    """Looks at one worker and at the engine of its crawl."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session

    @property
    def _tasks(self) -> Tasks:
        return tasks_of(self._crawler)

    async def lines(self, now: CrawlFigures) -> list[str]:
        """Returns one line for each cause of waiting, the most important first; raises UNAVAILABLE."""
        if self._session.turns.ending.is_set():
            return self.stopping()
        lines = []
        if self._tasks.worker.permits.short:
            lines.append("waits for page permits: requests under way may use up CRAWL_MAX_PAGES")
        if slow := self._oldest_request(_SLOW_SECONDS):
            lines.append(slow)
        lines += await self._over_their_share()
        if now.paused:
            return lines
        if now.retrying or (now.queued and not now.leased):
            retry, host = await next_waits(self._session.connection.frontier)
            if retry:
                lines.append(retry_line(now.retrying, retry))
            if host and not now.leased and (queued := now.queued - now.retrying - now.parked) > 0:
                lines.append(host_line(queued, host))
        return lines

    async def _over_their_share(self) -> list[str]:
        """Returns a line about the costliest domains that wait for their share of the workers, if any."""
        crawl = self._session.connection.crawl
        loads = await crawl.costs.loads(await crawl.workers.names())
        waiting = [name for name, load in loads.items() if load.waits]
        costs = dict(zip(waiting, await crawl.costs.of(*waiting), strict=True))
        costliest = sorted(waiting, key=lambda name: -costs[name].weight)[:_MOST_SHOWN]
        return [share_line({name: costs[name] for name in costliest})] if costliest else []

    def without_engine(self, error: BaseException | None) -> list[str]:
        """Returns the lines while the engine does not answer."""
        if self._session.turns.ending.is_set():
            return self.stopping()
        why = f" ({error})" if error else ""
        slow = self._oldest_request(_SLOW_SECONDS)
        return [
            f"waits for the engine, which does not answer{why}; nothing is lost",
            *([slow] if slow else []),
        ]

    def stopping(self) -> list[str]:
        """Returns lines about the work left after Ctrl-C or at the end of the crawl."""
        number = len(self._tasks)
        if not number:
            return [f"{STOPPING}: sends the last results to the engine"]
        requests = "1 request" if number == 1 else f"{number:,} requests"
        return [f"{STOPPING}: {requests} left", self._oldest_request(0.0)]

    def _oldest_request(self, least: float) -> str:
        """Returns a line about the longest request of this worker, if it has taken `least` seconds; otherwise ""."""
        oldest = self._tasks.oldest()
        if oldest is None:
            return ""
        request, task = oldest
        took = time.monotonic() - task.began
        return self._stage(request, task, took) if took >= least else ""

    def _stage(self, request: Request, task: Task, took: float) -> str:
        components, host = self._session.components, task.url.host
        pacer, rules = components.get(Pacer), components.get(ResourceRules)
        # the URL comes last, because a terminal may cut it off
        if task.fetched is not None:
            return (
                f"a result is being processed or stored, {duration(took)} after its turn came: {request.url}"
            )
        sent = pacer.sent_at(request) if pacer else task.began
        if sent is not None:
            took = time.monotonic() - sent
            return f"a response takes {duration(took)}{_time_left(request, took)}: {request.url}"
        if rules is not None and rules.is_asking(host):
            return f"robots.txt takes {duration(took)}: {robots_url(host)}"
        wait = self._session.turns.turn(host).wait(time.monotonic())
        if wait > 0:
            return f"a URL waits {duration(wait)} for its host's turn: {request.url}"
        return f"the host name of a URL takes {duration(took)}: {request.url}"


def share_line(costs: Mapping[str, Cost]) -> str:
    """Returns a line about the domains that wait for their share, with their costs so far."""
    return "over their share, so they wait: " + ", ".join(
        f"{name} ({cost.seconds:,.1f} s of processor, {size(cost.bytes)}, {cost.questions:,} names asked)"
        for name, cost in costs.items()
    )


def duration(seconds: float) -> str:
    """Returns a duration in words: "47 s", "3 min 50 s", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def _time_left(request: Request, took: float) -> str:
    """Returns the time until DOWNLOAD_TIMEOUT ends a request, in words."""
    limit = request.meta.get("download_timeout")
    if not isinstance(limit, int | float) or limit <= took:
        return ""
    return f" (at most {duration(limit - took)} more)"


def retry_line(number: int, retry: NextRetry) -> str:
    """Returns a line about `number` retries, the next of which is `retry`. A due URL only waits for a worker."""
    is_due = round(retry.seconds) <= 0
    attempt = f"for its {_ordinal(retry.attempt)}"
    if number <= 1:
        waits = "is due" if is_due else f"waits {duration(retry.seconds)}"
        return f"1 URL {waits} {attempt} try ({retry.url})"
    waits = "is due" if is_due else duration(retry.seconds)
    return f"{number:,} URLs wait for another try, the next one {waits} {attempt} ({retry.url})"


def host_line(queued: int, host: NextHost) -> str:
    """Returns a line about `queued` URLs, whose next host that may be asked is `host`."""
    urls = "1 queued URL waits" if queued == 1 else f"{queued:,} queued URLs wait"
    failures = f" after {host.failures} failures in a row" if host.failures > 1 else ""
    failures = " after a failure" if host.failures == 1 else failures
    if round(host.seconds) <= 0:
        return f"{urls} for a worker: {host.host} is due{failures}"
    return f"{urls} until a host may be asked: {host.host} in {duration(host.seconds)}{failures}"


def _ordinal(number: int) -> str:
    """Returns an ordinal: 1st, 2nd, 3rd, 4th..."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
