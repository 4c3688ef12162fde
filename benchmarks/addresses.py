"""Crawls many names on one IP address while workers and the engine are killed, and judges by the log of their server.

    python -m benchmarks.addresses [--names 500] [--pages 2] [--workers 3] [--delay 0.1] [--connections 2] [--every 10]

A worker is killed (kill -9) and started again every `--every` seconds, at every fourth time the engine, which writes
each command to its file; 0 means no kills. Prints how many requests the server got, their rate as a share of what the
delay allows, the shortest gap, the most requests at once, and script calls in the engine for each request. The exit
status is 1 if a page is missing or the limits did not hold.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import redis

from benchmarks.chaos_engines import Server
from benchmarks.command import command_line
from tests.crawls import Crawl
from tests.nameserver import Nameserver, Record
from tests.stamped import HANDLERS, gaps_of
from tests.web import Hit, LocalWeb, Reply
from webcrawl.engine.scripts import script_source

STAMP_SECONDS = 0.002
"""By how much the stamps may show a gap too short: a process may be suspended before it stamps a request."""
LEASE_SECONDS = 6.0
DOWN_SECONDS = 0.5
MOST_SECONDS = 3_600.0
SHARDS = 16


class Calls:
    """Counts the scripts that an engine runs, as it reports them, in a thread. It outlives restarts of the engine."""

    def __init__(self, url: str) -> None:
        self.all = self.of_addresses = 0
        self._url = url
        self._sha = script_source("address")[0]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            with suppress(redis.RedisError, OSError), redis.Redis.from_url(self._url).monitor() as monitor:
                for command in monitor.listen():
                    self.all += command["command"].startswith("EVALSHA ")
                    self.of_addresses += command["command"].startswith(f"EVALSHA {self._sha}")
            time.sleep(0.05)


def site(names: int, pages: int, latency: float) -> tuple[LocalWeb, list[str]]:
    """Returns a web of names with `pages` pages each, and the URLs of all of them."""
    labels = [f"name{n}.test" for n in range(names)]
    web = LocalWeb(*labels)
    links = "".join(f'<a href="/{n}">{n}</a>' for n in range(1, pages))
    urls = []
    for label in labels:
        for n in range(pages):
            body = f"<title>{label} {n}</title>{links}<p>Page {n} of {label}.</p>"
            urls.append(web.put(label, f"/{n}" if n else "/", Reply(body, delay=latency)))
    return web, urls


def disturb(crawls: list[Crawl], start: Callable[[], Crawl], server: Server, every: float) -> int:
    """Kills a worker or the engine at times until all workers have ended; returns how often."""
    next_kill, kills = time.monotonic() + (every or MOST_SECONDS), 0
    until = time.monotonic() + MOST_SECONDS
    while any(crawl.process.poll() is None for crawl in crawls):
        if time.monotonic() > until:
            raise TimeoutError("the crawl does not end")
        if time.monotonic() >= next_kill:
            next_kill, kills = time.monotonic() + every, kills + 1
            if kills % 4 == 0:
                server.kill()
                time.sleep(DOWN_SECONDS)
                server.revive()
            elif crawls[kills % len(crawls)].process.poll() is None:
                crawls[kills % len(crawls)].kill()
                time.sleep(DOWN_SECONDS)
                crawls[kills % len(crawls)] = start()
        time.sleep(0.05)
    return kills


def report(
    log: list[Hit], web: LocalWeb, missing: int, kills: int, calls: Calls, delay: float, most: int
) -> bool:
    """Prints the figures; returns whether the limits held and no page is missing."""
    gaps = gaps_of(log)
    seconds = log[-1].started - log[0].started
    share = (len(log) - 1) * delay / seconds
    early = sum(gap < delay - STAMP_SECONDS for gap in gaps)
    at_once = web.max_concurrency()
    print(f"requests {len(log)} in {seconds:.1f} s, kills {kills}, missing pages {missing}")
    print(f"share of the rate that the delay allows {share:.3f}")
    print(f"shortest gap {min(gaps):.4f} s, requests too early {early}, most at once {at_once}")
    print(
        f"script calls for each request {calls.all / len(log):.2f}, of addresses {calls.of_addresses / len(log):.2f}"
    )
    return not (missing or early or (most and at_once > most))


def options() -> argparse.Namespace:
    parser = command_line(__doc__)
    parser.add_argument("--names", type=int, default=500)
    parser.add_argument("--pages", type=int, default=2, help="of each name")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--delay", type=float, default=0.1, help="POLITENESS_ADDRESS_DELAY")
    parser.add_argument("--connections", type=int, default=2, help="POLITENESS_ADDRESS_CONNECTIONS")
    parser.add_argument("--host-delay", type=float, default=1.0, help="DOWNLOAD_DELAY")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds until the server answers")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two kills; 0: none")
    return parser.parse_args()


def main() -> int:
    given = options()
    web, urls = site(given.names, given.pages, given.latency)
    with (
        tempfile.TemporaryDirectory(prefix="addresses-") as folder,
        Nameserver({"*.test": [Record("A", "127.0.0.1")]}) as nameserver,
        web,
    ):
        server = Server(Path(folder), SHARDS)
        start = partial(
            Crawl.start,
            "broad",
            urls[:: given.pages],
            folder=Path(folder),
            data_dir=Path(folder) / "data",
            ALLOWED_NETWORKS="127.0.0.0/8",
            DNS_SERVERS=nameserver.address,
            DOWNLOAD_HANDLERS=HANDLERS,
            DOWNLOAD_DELAY=given.host_delay,
            FRONTIER_LEASE_SECONDS=LEASE_SECONDS,
            FRONTIER_SHARDS=SHARDS,
            POLITENESS_ADDRESS_CONNECTIONS=given.connections,
            POLITENESS_ADDRESS_DELAY=given.delay,
            PROGRESS="off",
            **server.settings,
        )
        calls = Calls(server.url)
        crawls = [start() for _ in range(given.workers)]
        try:
            kills = disturb(crawls, start, server, given.every)
        finally:
            for crawl in crawls:
                crawl.kill()
            server.end()
        missing = len(set(urls) - set(web.urls()))
        held = report(web.log(), web, missing, kills, calls, given.delay, given.connections)
        return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
