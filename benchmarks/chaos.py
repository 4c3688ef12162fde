"""Crawls a local web while workers and the engine are killed and suspended, and judges by the log of that web.

    python -m benchmarks.chaos [--seconds 120] [--seed 1] [--engine server|everysec|embedded] [--workers 12]

Workers are killed (kill -9) and restarted, or suspended (SIGSTOP) for longer than a lease. Valkey is killed and
restarted on its append-only file: a server at REDIS_URL that syncs before it answers (`appendfsync always`), one that
syncs once a second and loses what it had not synced, as in a power failure, or the embedded one. With `--workers`, each
worker has a network of its own, which is cut for up to ten seconds (benchmarks.chaos_network), and some have wrong
clocks. After `--seconds` the disturbance ends and the crawl has to finish. Prints a table. The exit status is 1 if a
URL was lost, a host was asked too early or twice at once, stored data is damaged, or shares of shards are uneven.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.chaos_engines import ENGINES, ChaosEngine, Leases
from benchmarks.chaos_network import ENGINE, WorkerLink, enter_own_network, prepare, skewed_clock
from benchmarks.chaos_verdict import Troubles, Verdict, judge
from benchmarks.command import command_line
from tests.crawls import Crawl
from tests.web import LocalWeb, Reply, generated_web

SEEDS = 20
DELAY = 2.0
LEASE_SECONDS = 4.0
LEASE_URLS = 5
FORGETTING_SECONDS = 2 * LEASE_SECONDS
"""How long after a kill of a forgetting engine a newly started worker may ask the host of another one."""
MOST_DEATHS = 100
"""Deaths of workers for one URL; here pages are never the cause."""
BYTES_IN_WORK = 100_000
"""About a hundred of these small pages, as many as Scrapy's default allows of usual pages."""
SHARDS, SHARDS_A_WORKER = 16, 10
SKEWS = (0.0, 0.0, 7.5, 0.0, 0.0, -90.0)
"""Seconds by which the clocks of workers are ahead."""
STEADY_SECONDS = 10.0
PACE = 0.6
"""Minimum time to fetch a host's pages, as a share of the run; the rest is lost to disturbances."""
STRIKES = ("kill", "kill", "kill", "engine", "engine", "pause", "pause")
CUTS = ("cut", "cut", "cut")
EVERY_SECONDS = 3.0
START_SECONDS = 1.0
END_SECONDS = 240.0
AWAY = "no Valkey or Redis server", "the engine became unavailable while the crawl began"
CRAWL: dict[str, Any] = {
    "arguments": {"scope": "web"},
    "tuned": {"lease_urls": LEASE_URLS},
    "CRAWL_ID": "chaos",
    "DOWNLOAD_DELAY": DELAY,
    "FRONTIER_LEASE_SECONDS": LEASE_SECONDS,
    "FRONTIER_MAX_ATTEMPTS": MOST_DEATHS,
    "PROGRESS": "off",
    "SCRAPER_SLOT_MAX_ACTIVE_SIZE": BYTES_IN_WORK,
}


@dataclass
class WorkerSlot:
    """A worker: its present process, None while it is down."""

    number: int
    link: WorkerLink | None = None
    crawl: Crawl | None = None
    stopped: bool = False
    ended: bool = False


class Chaos:
    """Disturbs a crawl of several workers and counts what it does.

    `start` starts the worker of a slot, and `has_begun` tells whether any has sent a request.
    """

    def __init__(
        self,
        dice: random.Random,
        engine: ChaosEngine,
        leases: Leases,
        start: Callable[[WorkerSlot], Crawl],
        slots: Sequence[WorkerSlot],
        has_begun: Callable[[], bool],
    ) -> None:
        self.troubles = Troubles()
        self.story: list[str] = []
        """What was done and when, by the clock of the web's log."""
        self._dice = dice
        self._engine = engine
        self._leases = leases
        self._start = start
        self._slots = slots
        self._kinds = STRIKES + CUTS * any(slot.link for slot in slots)
        self._has_begun = has_begun
        self._strikes = dice.sample(sorted(set(self._kinds)), len(set(self._kinds)))
        """The next ones, from the end: at first each kind once, so that even a short run has all of them."""
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._calm = False
        self._engine_is_down = False
        self._shares: dict[str, int] = {}
        self._shares_since = self._look_at = 0.0

    def run(self, seconds: float) -> bool:
        """Disturbs the crawl for `seconds`, or until it is finished. Returns False if it does not finish in time."""
        for slot in self._slots:
            slot.crawl = self._start(slot)
        started = time.monotonic()
        # on a loaded machine the first request may take longer than many a disturbance
        while not self._has_begun() and not self._all_ended() and time.monotonic() < started + END_SECONDS:
            self._look_after_all()
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
        """Kills all remaining workers."""
        for slot in self._slots:
            if slot.crawl:
                slot.crawl.kill()
            if slot.link:
                slot.link.end()

    def _tell(self, what: str, crawl: Crawl | None = None) -> None:
        self.story.append(f"{time.monotonic():.3f} {what} {crawl.process.pid if crawl else ''}")

    def _all_ended(self) -> bool:
        return all(slot.ended for slot in self._slots)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time.monotonic() + seconds, next(self._numbers), action))

    def _look_after_all(self) -> None:
        while self._agenda and self._agenda[0][0] <= time.monotonic():
            heapq.heappop(self._agenda)[2]()
        for slot in self._slots:
            if slot.crawl and not slot.ended and slot.crawl.process.poll() is not None:
                self._has_ended(slot, slot.crawl)
        if self._kinds != STRIKES and not self._calm and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + 1.0
            self._look_at_shares()
        time.sleep(0.02)

    def _look_at_shares(self) -> None:
        """Notes how uneven the shares of shards are, unless they changed lately."""
        if self._engine_is_down:
            return
        shares, now = self._leases.shares(), time.monotonic()
        if shares.keys() != self._shares.keys():
            self._shares, self._shares_since = shares, now
        elif shares and now - self._shares_since >= STEADY_SECONDS:
            mean = sum(shares.values()) / len(shares)
            uneven = max(abs(number - mean) for number in shares.values()) / mean
            self.troubles.steady_looks += 1
            self.troubles.uneven_shares = max(self.troubles.uneven_shares, round(uneven, 3))

    def _has_ended(self, slot: WorkerSlot, crawl: Crawl) -> None:
        if crawl.process.returncode != 0:
            if any(reason in crawl.stderr for reason in AWAY):
                self.troubles.refused_starts += 1
            else:
                self.troubles.crashes.append(crawl.stderr[-2000:])
        elif self._engine_is_down or not self._leases.open_urls():
            slot.ended = True
            return
        else:
            self.troubles.left_early += 1
        self._bring_down(slot)

    def _bring_down(self, slot: WorkerSlot) -> None:
        slot.crawl = None
        self._later(self._dice.uniform(0.3, 2.0), lambda: self._bring_up(slot))

    def _bring_up(self, slot: WorkerSlot) -> None:
        slot.crawl = self._start(slot)
        self._tell("start", slot.crawl)

    # --- disturbances ---

    def _strike(self) -> None:
        if self._calm:
            return
        if not self._strikes:
            self._strikes = self._dice.sample(self._kinds, len(self._kinds))
        strikes = {"kill": self._kill, "engine": self._kill_engine, "pause": self._pause, "cut": self._cut}
        strikes[self._strikes.pop()]()
        self._later(self._dice.uniform(0.2, 2 * EVERY_SECONDS - 0.2), self._strike)

    def _victim(self) -> tuple[WorkerSlot, Crawl] | None:
        running = [
            (slot, slot.crawl)
            for slot in self._slots
            if slot.crawl and not slot.stopped and slot.crawl.process.poll() is None
        ]
        return self._dice.choice(running) if running else None

    def _kill(self) -> None:
        if victim := self._victim():
            slot, crawl = victim
            crawl.kill()
            self._tell("kill", crawl)
            self.troubles.worker_kills += 1
            self._count_leased(crawl)
            self._bring_down(slot)

    def _pause(self) -> None:
        if victim := self._victim():
            slot, crawl = victim
            slot.stopped = True
            os.killpg(crawl.process.pid, signal.SIGSTOP)
            self._tell("stop", crawl)
            self.troubles.pauses += 1
            self._count_leased(crawl)
            self._later(self._dice.uniform(1.1, 2.5) * LEASE_SECONDS, lambda: self._go_on(slot, crawl))

    def _go_on(self, slot: WorkerSlot, crawl: Crawl) -> None:
        os.killpg(crawl.process.pid, signal.SIGCONT)
        self._tell("go on", crawl)
        slot.stopped = False

    def _cut(self) -> None:
        if (victim := self._victim()) and (link := victim[0].link):
            slot, crawl = victim
            slot.stopped = True
            link.cut()
            self._tell("cut", crawl)
            self.troubles.cuts += 1
            self._count_leased(crawl)
            self._later(self._dice.uniform(0.3, 2.5) * LEASE_SECONDS, lambda: self._mend(slot, link, crawl))

    def _mend(self, slot: WorkerSlot, link: WorkerLink, crawl: Crawl) -> None:
        link.mend()
        self._tell("mend", crawl)
        slot.stopped = False

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
        """Counts the URLs that a killed or suspended worker held, as the engine knows or knew when it was killed."""
        if not self._engine_is_down:
            self._leases.look()
        self.troubles.leased += self._leases.of(crawl.process.pid)


def slow_web(dice: random.Random, web: LocalWeb, pages: int, seeds: list[str]) -> set[str]:
    """Publishes `pages` linked pages, some of them slow (up to 0.5 s); returns the URLs that a crawl must find."""
    links = generated_web(dice.randrange(1_000_000), web, pages)
    for label, bodies in web.sites.items():
        for path, body in list(bodies.items()):
            slow = dice.random() < 0.1
            web.put(label, path, Reply(str(body), delay=dice.uniform(0, 0.5 if slow else 0.02)))
    return links.reachable(*seeds)


def write_story(folder: Path, story: list[str], web: LocalWeb) -> None:
    """Writes what was done and the log of the web, in order of time."""
    hits = [
        f"{hit.started:.3f} asked {hit.status} {web.url(hit.host, hit.path)} until {hit.finished:.3f}"
        for hit in web.log()
    ]
    lines = sorted([*hits, *story], key=lambda line: float(line.split()[0]))
    (folder / "story.txt").write_text("\n".join(lines))


def run(
    folder: Path, *, seconds: float, seed: int = 1, workers: int = 0, hosts: int = 200, engine: str = "server"
) -> Verdict:
    """Does the whole run, with its files in `folder`. `workers`: each with a network of its own; 0: three without."""
    dice = random.Random(seed)
    network = "10.77" if workers else "127.0"
    # each host has a network (/24) of its own: hosts of one network share a budget, as those of a domain
    labels = [f"{network}.{1 + n % 250}.{1 + n // 250}" for n in range(hosts)]
    shards = max(SHARDS, SHARDS_A_WORKER * workers)
    data = folder / "data"
    slots = [WorkerSlot(number, WorkerLink(number) if workers else None) for number in range(workers or 3)]
    with LocalWeb(*labels) as web:
        seeds = [web.url(label) for label in sorted(labels)[:SEEDS]]
        expected = slow_web(dice, web, round(hosts * seconds * PACE / DELAY), seeds)
        server = ENGINES[engine](data, shards, ENGINE if workers else "")
        leases = Leases(server.url, shards)
        settings = {**CRAWL, **server.settings, "FRONTIER_SHARDS": shards}
        settings["ALLOWED_NETWORKS"] = f"{network}.0.0/{16 if workers else 8}"
        clocks = [skewed_clock(SKEWS[slot.number % len(SKEWS)]) for slot in slots if slot.link]

        def start(slot: WorkerSlot) -> Crawl:
            apart: dict[str, Any] = {}
            if slot.link:
                apart = {"within": slot.link.command, "env": clocks[slot.number]}
            return Crawl.start("broad", seeds, folder=folder, data_dir=data, **apart, **settings)

        chaos = Chaos(dice, server, leases, start, slots, lambda: bool(web.hits))
        chaos.troubles.skewed_clocks = sum(map(bool, clocks))
        try:
            finished = chaos.run(seconds)
            figures = leases.figures()
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
    parser = command_line(
        __doc__,
        seconds=(120.0, "duration of the disturbance"),
        seed=1,
        engine=("server", "", ENGINES),
        workers=(0, "workers with a network each; 0: three without"),
        hosts=200,
    )
    options = parser.parse_args()
    if options.workers:
        if options.engine == "embedded":
            parser.error("--workers needs --engine server or everysec")
        enter_own_network("benchmarks.chaos")
        prepare()
        if not skewed_clock(1.0):
            print("libfaketime is not installed (apt-get install faketime): all clocks are right.")
    # a run that is ended takes its workers with it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    verdict = run(folder, **vars(options))
    print(verdict.table())
    if verdict.faults():
        print(f"Data, logs and what was done when (story.txt): {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
