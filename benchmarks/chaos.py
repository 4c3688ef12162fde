"""Crawl a local web while workers and the engine are killed and stopped, then judge by the log of that web.

    python -m benchmarks.chaos [--seconds 120] [--seed 1] [--workers 3] [--hosts 200]
                               [--engine server|everysec|embedded]

Workers are killed (kill -9) and started again, stopped (SIGSTOP) for longer than a lease and let go on, and so is
Valkey killed and started on its append-only file: a server of its own at REDIS_URL that syncs before it answers
(`appendfsync always`), one that syncs once a second and loses what it had not synced, as in a power failure, or the
embedded one. After `--seconds` the trouble ends and the crawl has to finish. Prints a table, or JSON; the exit status
is 1 when a URL was lost, a host was asked too early or twice at once, or what was stored is not whole.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chaos_engines import ENGINES, ChaosEngine
from benchmarks.chaos_verdict import Troubles, Verdict, judge
from benchmarks.leases import Leases
from tests.crawls import Crawl
from tests.web import LocalWeb, Reply

DELAY = 2.0
LEASE_SECONDS = 4.0
LEASE_URLS = 5
FORGETTING_SECONDS = 2 * LEASE_SECONDS
"""After a kill of an engine that forgets: until then a worker that was started meanwhile may ask where another does."""
MOST_DEATHS = 100
"""Of workers, under one URL: here it is never the page that kills them."""
BYTES_IN_WORK = 100_000
"""Pages here are small: in proportion to them what Scrapy's default is to pages of the web, about a hundred."""
SHARDS = 16
SEEDS = 20
PACE = 0.6
"""Share of the time that a host's pages take, at the least: the rest is lost to the trouble."""
STRIKES = ("kill", "kill", "kill", "engine", "engine", "pause", "pause")
EVERY_SECONDS = 3.0
START_SECONDS = 4.0
END_SECONDS = 240.0
AWAY = "no Valkey or Redis server"


def tangled_web(dice: random.Random, web: LocalWeb, pages: int) -> set[str]:
    """Publish `pages` pages that can all be reached from the first SEEDS ones; returns their URLs.

    Most answer at once, some take up to half a second. No page's text is another's.
    """
    labels = sorted(web.sites)
    places = [(labels[n % len(labels)], "/" if n < len(labels) else f"/p{n}.html") for n in range(pages)]
    urls = [web.url(label, path) for label, path in places]
    links = [[dice.choice(urls) for _ in range(dice.randrange(6))] for _ in urls]
    for number in range(1, pages):
        # from an early page: a chain of pages would be crawled one after the other
        links[dice.randrange(number // 4 + 1)].append(urls[number])
    for (label, path), url, targets in zip(places, urls, links, strict=True):
        words = " ".join(f"{dice.getrandbits(40):08x}" for _ in range(60))
        anchors = "".join(f'<a href="{target}">{target}</a>\n' for target in targets)
        slow = dice.random() < 0.1
        body = f"<title>{url}</title><p>{words}</p>{anchors}"
        web.put(label, path, Reply(body, delay=dice.uniform(0, 0.5 if slow else 0.02)))
    return set(urls)


@dataclass
class Place:
    """A worker, whatever process that is just now; none while it is down."""

    crawl: Crawl | None = None
    stopped: bool = False
    ended: bool = False


class Chaos:
    """What is done to a crawl of several workers, and counted. `start` starts one worker."""

    def __init__(
        self, dice: random.Random, engine: ChaosEngine, start: Callable[[], Crawl], workers: int
    ) -> None:
        self.troubles = Troubles()
        self.story: list[str] = []
        """What was done when, on the clock of the web's log."""
        self._dice = dice
        self._engine = engine
        self._leases = Leases(engine.url, SHARDS)
        self._start = start
        self._places = [Place() for _ in range(workers)]
        self._strikes: list[str] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._calm = False
        self._engine_is_down = False

    def run(self, seconds: float) -> bool:
        """Make trouble for so long, or until the crawl is finished; then False if it does not finish in time."""
        for place in self._places:
            place.crawl = self._start()
        begun = time.monotonic()
        self._later(START_SECONDS, self._strike)
        while not self._all_ended() and time.monotonic() < begun + seconds:
            self._look_after_all()
        self.troubles.seconds = round(time.monotonic() - begun, 1)
        self._calm = True
        while not self._all_ended() and time.monotonic() < begun + 2 * seconds + END_SECONDS:
            self._look_after_all()
        return self._all_ended()

    def end(self) -> None:
        """Leave no process behind."""
        for place in self._places:
            if place.crawl:
                place.crawl.kill()

    def _tell(self, what: str, crawl: Crawl | None = None) -> None:
        self.story.append(f"{time.monotonic():.3f} {what} {crawl.process.pid if crawl else ''}")

    def _all_ended(self) -> bool:
        return all(place.ended for place in self._places)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time.monotonic() + seconds, next(self._numbers), action))

    def _look_after_all(self) -> None:
        while self._agenda and self._agenda[0][0] <= time.monotonic():
            heapq.heappop(self._agenda)[2]()
        for place in self._places:
            if place.crawl and not place.ended and place.crawl.process.poll() is not None:
                self._has_ended(place, place.crawl)
        time.sleep(0.02)

    def _has_ended(self, place: Place, crawl: Crawl) -> None:
        if crawl.process.returncode != 0:
            if AWAY in crawl.stderr:
                self.troubles.refused_starts += 1
            else:
                self.troubles.crashes.append(crawl.stderr[-2000:])
        elif self._engine_is_down or not self._leases.open_urls():
            place.ended = True
            return
        else:
            self.troubles.left_early += 1
        self._bring_down(place)

    def _bring_down(self, place: Place) -> None:
        place.crawl = None
        self._later(self._dice.uniform(0.3, 2.0), lambda: self._bring_up(place))

    def _bring_up(self, place: Place) -> None:
        place.crawl = self._start()
        self._tell("start", place.crawl)

    # --- the trouble ---

    def _strike(self) -> None:
        if self._calm:
            return
        if not self._strikes:
            self._strikes = self._dice.sample(STRIKES, len(STRIKES))
        {"kill": self._kill, "engine": self._kill_engine, "pause": self._pause}[self._strikes.pop()]()
        self._later(self._dice.uniform(0.2, 2 * EVERY_SECONDS - 0.2), self._strike)

    def _victim(self) -> tuple[Place, Crawl] | None:
        running = [
            (place, place.crawl)
            for place in self._places
            if place.crawl and not place.stopped and place.crawl.process.poll() is None
        ]
        return self._dice.choice(running) if running else None

    def _kill(self) -> None:
        if victim := self._victim():
            place, crawl = victim
            crawl.kill()
            self._tell("kill", crawl)
            self.troubles.worker_kills += 1
            self._count_leased(crawl)
            self._bring_down(place)

    def _pause(self) -> None:
        if victim := self._victim():
            place, crawl = victim
            place.stopped = True
            os.killpg(crawl.process.pid, signal.SIGSTOP)
            self._tell("stop", crawl)
            self.troubles.pauses += 1
            self._count_leased(crawl)
            self._later(self._dice.uniform(1.1, 2.5) * LEASE_SECONDS, lambda: self._go_on(place, crawl))

    def _go_on(self, place: Place, crawl: Crawl) -> None:
        os.killpg(crawl.process.pid, signal.SIGCONT)
        self._tell("go on", crawl)
        place.stopped = False

    def _kill_engine(self) -> None:
        if not self._engine_is_down:
            self._leases.look()
            self._engine.kill()
            self._tell("kill the engine")
            self.troubles.engine_killed_at.append(time.monotonic())
            self._engine_is_down = True
            self.troubles.engine_kills += 1
            self._later(self._dice.uniform(0.1, 2.0), self._revive_engine)

    def _revive_engine(self) -> None:
        self._engine.revive()
        self._tell("the engine is back")
        self._engine_is_down = False

    def _count_leased(self, crawl: Crawl) -> None:
        """What a worker held that is dead or asleep: as the engine says, or said when it was killed."""
        if not self._engine_is_down:
            self._leases.look()
        self.troubles.leased += self._leases.of(crawl.process.pid)


def write_story(folder: Path, story: list[str], web: LocalWeb) -> None:
    """What was done, and the log of the web, in one order."""
    told = [
        f"{hit.started:.3f} asked {hit.status} {web.url(hit.host, hit.path)} until {hit.finished:.3f}"
        for hit in web.log()
    ]
    lines = sorted([*told, *story], key=lambda line: float(line.split()[0]))
    (folder / "story.txt").write_text("\n".join(lines))


def run(
    folder: Path, *, seconds: float, seed: int = 1, workers: int = 3, hosts: int = 200, engine: str = "server"
) -> Verdict:
    """The whole run, its files in `folder`."""
    dice = random.Random(seed)
    labels = [f"127.0.{1 + n // 250}.{1 + n % 250}" for n in range(hosts)]
    data = folder / "data"
    with LocalWeb(*labels) as web:
        expected = tangled_web(dice, web, pages=round(hosts * seconds * PACE / DELAY))
        seeds = [web.url(label) for label in sorted(labels)[:SEEDS]]
        server = ENGINES[engine](data, SHARDS)

        def start() -> Crawl:
            return Crawl.start(
                "broad",
                seeds,
                folder=folder,
                data_dir=data,
                arguments={"scope": "web"},
                ALLOWED_NETWORKS="127.0.0.0/8",
                CRAWL_ID="chaos",
                DOWNLOAD_DELAY=DELAY,
                FRONTIER_LEASE_SECONDS=LEASE_SECONDS,
                tuned={"lease_urls": LEASE_URLS},
                FRONTIER_MAX_ATTEMPTS=MOST_DEATHS,
                FRONTIER_SHARDS=SHARDS,
                PROGRESS="off",
                SCRAPER_SLOT_MAX_ACTIVE_SIZE=BYTES_IN_WORK,
                **server.settings,
            )

        chaos = Chaos(dice, server, start, workers)
        try:
            finished = chaos.run(seconds)
            figures = Leases(server.url, SHARDS).figures()
        finally:
            chaos.end()
            server.end()
            write_story(folder, chaos.story, web)
        return judge(
            web,
            expected,
            data,
            chaos.troubles,
            figures,
            delay=DELAY,
            urls_a_lease=LEASE_URLS,
            finished=finished,
            grace=FORGETTING_SECONDS if server.forgets else 0.0,
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="how long there is trouble")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--engine", choices=ENGINES, default="server")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--keep", type=Path, help="folder for data and logs, which is kept")
    arguments = parser.parse_args()
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    verdict = run(
        folder,
        seconds=arguments.seconds,
        seed=arguments.seed,
        workers=arguments.workers,
        hosts=arguments.hosts,
        engine=arguments.engine,
    )
    print(verdict.json() if arguments.json else verdict.table())
    if not arguments.keep:
        shutil.rmtree(folder)
    return 1 if verdict.faults() else 0


if __name__ == "__main__":
    sys.exit(main())
