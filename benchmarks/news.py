"""How soon a crawl with RECRAWL fetches new articles: 40 hubs and 2,000 articles that appear over a compressed day.

    make bench-news [ARGS="--hubs 200 --articles 20000 --day 1500 --threshold 1e-4 --json FILE"]

Crawls a generated web of news on loopback with the policy of this project, then with the same interval between two
visits of any page, at which there are as many requests or a few more. It is made shorter until there are. The server's
log is the witness. Delays are in seconds from the time when an article appears to the first request for it, or to the
end of the day. The exit status is 1 if fewer than 95 % of the articles are fetched before the day ends, or if the
median delay is more than half of that of the uniform policy.

A day of the crawl takes `--day` seconds, but its threshold follows the capacity within a real day. So each crawl is
given a threshold, as it has one after some days; the uniform policy does not use it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from argparse import Namespace
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from scrapy.utils.project import get_project_settings

from benchmarks.command import ROOT, SETTINGS, command_line, records_table, web_crawl, write_figures
from benchmarks.news_web import ARCHIVE, SECTIONS, NewsWeb
from benchmarks.servers import free_dns_port, free_port, requests, serving, wait_until
from benchmarks.trap_sites import serve_prose
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.frontier.planning import Planning, RecrawlState
from webcrawl.opened.crawl import OpenedCrawl
from webcrawl.policies.crawl_threshold import Threshold

LEAST_FETCHED, MOST_OF_UNIFORM = 0.95, 0.5
MINUTES = 1_440
ENDING_SECONDS = 120
MOST_A_SECOND = 50
"""Requests that two cores bear."""
MORE_REQUESTS = 1.05
MOST_TRIES, SHORTER = 4, 0.8
"""Of the uniform policy, each with an interval that is shorter by this factor."""


@dataclass(frozen=True, slots=True)
class NewsDelays:
    """The delays of a policy in seconds. `interval`: between two visits of a page, if it is the same for all."""

    policy: str
    requests: int
    again: int
    interval: float
    fetched: float
    median_delay: float
    delay_of_nine_tenths: float


def measure(policy: str, options: Namespace, interval: float = 0.0) -> NewsDelays:
    """Crawls the web for a day, with one interval for all pages unless it is 0."""
    names = free_dns_port()
    web = NewsWeb(free_port("0.0.0.0"), options.hubs, options.articles, options.day)
    with tempfile.TemporaryDirectory(prefix="bench-news-", ignore_cleanup_errors=True) as folder:
        home, log = Path(folder), Path(folder) / "log"
        command = web_crawl(
            home,
            map(web.seed, range(web.hosts)),
            names,
            options.set,
            RECRAWL=True,
            RECRAWL_MIN_INTERVAL=interval or options.day / MINUTES,
            RECRAWL_MAX_AGE=interval or "7d",
            DOWNLOAD_DELAY=options.delay,
            CLOSESPIDER_TIMEOUT=options.day,
            LOG_LEVEL="WARNING",
        )
        with serving(serve_prose, web, names, log):
            crawl = subprocess.Popen(command, cwd=ROOT)
            wait_until(lambda: bool(log.read_text()), crawl, log)
            asyncio.run(keep_threshold(home, options.threshold, crawl))
            crawl.wait(options.day + ENDING_SECONDS)
        asked = requests(log)
    return delays(policy, web, asked, interval)


def delays(policy: str, web: NewsWeb, asked: list[tuple[float, str]], interval: float) -> NewsDelays:
    """Returns the delays by the requests of a log until the day ends."""
    began = asked[0][0]
    pages, first = 0, dict[str, float]()
    for moment, request in asked:
        page, _, status = request.rpartition(" ")
        if moment - began <= web.day and not page.endswith("/robots.txt"):
            pages += 1
            if status == "200":
                first.setdefault(page, moment - began)
    articles = web.articles()
    late = [first.get(article, web.day) - appears for article, appears in articles.items()]
    return NewsDelays(
        policy,
        pages,
        pages - len(first),
        interval,
        len(first.keys() & articles.keys()) / len(articles),
        median(late),
        quantiles(late, n=10)[-1],
    )


def interval_of(ours: NewsDelays, options: Namespace) -> float:
    """Returns the shortest interval at which visits of all pages should take hardly more requests.

    All pages have their turns at the same times, since the first visits are at the start. What does not fit into the
    rest of the day is not fetched.
    """
    hosts = max(1, options.hubs // (SECTIONS + 1))
    first, fastest = hosts * (1 + SECTIONS * (1 + ARCHIVE)), min(MOST_A_SECOND, hosts / options.delay)

    def fetched(interval: float) -> float:
        requests, now = float(first), interval
        while now < options.day:
            known = first + options.articles * now / options.day
            requests += min(known, (options.day - now) * fastest)
            now += interval
        return requests

    interval = options.day / MINUTES
    while interval < options.day and fetched(interval) > MORE_REQUESTS * ours.requests:
        interval *= 1.01
    return interval


async def keep_threshold(home: Path, threshold: float, crawl: subprocess.Popen[bytes]) -> None:
    """Gives a threshold to the crawl whose data is in a folder, until it ends."""
    settings = get_project_settings()
    settings.setdict({"DATA_DIR": str(home / "data")})
    async with OpenedCrawl(settings) as opened:
        await opened.connection.connect()
        await opened.check_exists()
        planning = Planning(opened.connection.engine, opened.connection.keys, "benchmark")
        with suppress(*UNAVAILABLE):
            while crawl.poll() is None:
                await planning.set_state(Threshold(threshold), RecrawlState())
                await asyncio.sleep(1)


def main() -> int:
    parser = command_line(
        __doc__,
        json=True,
        hubs=40,
        articles=2_000,
        day=(300.0, "seconds"),
        delay=(0.1, "DOWNLOAD_DELAY"),
        threshold=(4e-5, "weighted days, for a day of this length"),
        set=SETTINGS,
    )
    options = parser.parse_args()
    ours = measure("webcrawl", options)
    print(ours, file=sys.stderr)
    interval = interval_of(ours, options)
    for _ in range(MOST_TRIES):
        uniform = measure("uniform", options, interval)
        print(uniform, file=sys.stderr)
        if uniform.requests >= ours.requests:
            break
        interval *= SHORTER
    print(records_table([ours, uniform]))
    write_figures(options.json, policies=[ours, uniform])
    return 0 if reached(ours, uniform) else 1


def reached(ours: NewsDelays, uniform: NewsDelays) -> bool:
    """Whether enough articles are fetched, and soon enough, beside a uniform policy with as many requests."""
    is_soon = ours.median_delay <= MOST_OF_UNIFORM * uniform.median_delay
    return ours.fetched >= LEAST_FETCHED and is_soon and uniform.requests >= ours.requests


if __name__ == "__main__":
    sys.exit(main())
