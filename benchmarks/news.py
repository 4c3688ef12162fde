"""How soon a crawl with RECRAWL fetches new articles: 200 hubs and 20,000 articles that appear over a compressed day.

    make bench-news [ARGS="--hubs 40 --articles 2000 --day 120 --json FILE"]

Crawls a generated web of news on loopback twice: with the policy of this project, then with the same interval between
two visits of any page, so that there are at least as many requests. The server's log is the witness. Delays are in
seconds from the time when an article appears to the first request for it, or to the end of the day. The exit status is
1 if fewer than 95 % of the articles are fetched before the day ends, or if the median delay is more than half of that
of the uniform policy.

A day of the crawl takes `--day` seconds, but its threshold follows the capacity within a real day. So each crawl is
given a threshold at the start, as it has one after some days; the uniform policy does not use it.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from scrapy.utils.project import get_project_settings

from benchmarks.command import ROOT, command_line, records_table, web_crawl, write_figures
from benchmarks.news_web import NewsWeb, serve
from benchmarks.servers import free_dns_port, free_port, requests, serving
from webcrawl.frontier.planning import Planning, RecrawlState
from webcrawl.opened.crawl import OpenedCrawl
from webcrawl.policies.crawl_threshold import Threshold

LEAST_FETCHED, MOST_OF_UNIFORM = 0.95, 0.5
MINUTES = 1_440
BEGINNING_SECONDS, ENDING_SECONDS = 25, 120


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
    settings: dict[str, object] = {
        "RECRAWL": True,
        "RECRAWL_MIN_INTERVAL": interval or options.day / MINUTES,
        "RECRAWL_MAX_AGE": interval or "7d",
        "DOWNLOAD_DELAY": options.delay,
        "CLOSESPIDER_TIMEOUT": options.day,
        "LOG_LEVEL": "WARNING",
    }
    settings |= dict(pair.split("=", 1) for pair in options.set)
    with tempfile.TemporaryDirectory(prefix="bench-news-", ignore_cleanup_errors=True) as folder:
        home, log = Path(folder), Path(folder) / "log"
        command = web_crawl(home, map(web.seed, range(web.hosts)), names, settings)
        with serving(serve, web, names, log):
            crawl = subprocess.Popen(command, cwd=ROOT)
            time.sleep(BEGINNING_SECONDS)
            asyncio.run(give_threshold(home, options.threshold))
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


def interval_of(found: NewsDelays, options: Namespace) -> float:
    """Returns an interval at which visits of all pages take at least as many requests.

    Half of the articles are known on average; half of that time, because those of the late day do not come back.
    """
    known = options.hubs + 10 * options.hubs * 0.8 + options.articles / 2
    return known * options.day / found.again / 2


async def give_threshold(home: Path, threshold: float) -> None:
    """Sets the threshold of the crawl whose data is in a folder, once it has begun."""
    settings = get_project_settings()
    settings.setdict({"DATA_DIR": str(home / "data")})
    async with OpenedCrawl(settings) as opened:
        connection = opened.connection
        await connection.connect()
        await opened.check_exists()
        planning = Planning(connection.engine, connection.keys, "benchmark")
        await planning.set_state(Threshold(threshold), RecrawlState())


def main() -> int:
    parser = command_line(__doc__, json=True)
    parser.add_argument("--hubs", type=int, default=200)
    parser.add_argument("--articles", type=int, default=20_000)
    parser.add_argument("--day", type=float, default=600, help="seconds")
    parser.add_argument("--delay", type=float, default=0.1, help="DOWNLOAD_DELAY")
    parser.add_argument(
        "--threshold", type=float, default=4e-5, help="weighted days, for a day of this length"
    )
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="further settings")
    options = parser.parse_args()
    ours = measure("webcrawl", options)
    print(ours, file=sys.stderr)
    uniform = measure("uniform", options, interval_of(ours, options))
    print(records_table([ours, uniform]))
    write_figures(options.json, policies=[ours, uniform])
    return 0 if reached(ours, uniform) else 1


def reached(ours: NewsDelays, uniform: NewsDelays) -> bool:
    """Whether enough articles are fetched, and soon enough, beside a uniform policy with as many requests."""
    is_soon = ours.median_delay <= MOST_OF_UNIFORM * uniform.median_delay
    return ours.fetched >= LEAST_FETCHED and is_soon and uniform.requests >= ours.requests


if __name__ == "__main__":
    sys.exit(main())
