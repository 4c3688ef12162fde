"""What attacks cost honest hosts: one worker crawls ten of them beside one attack at a time.

    make bench-hostile [ARGS="--only robots,links --seconds 60 --json FILE"]

Each of the ten hosts has 40 small pages, which are asked with a delay of 0.3 s. The requests are those in the servers'
logs. The exit status is 1 if an attack makes the honest hosts wait longer, or takes more memory, than the bars allow.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.command import ROOT, command_line, records_table, web_crawl, write_figures
from benchmarks.hostile_servers import ATTACKS, HOSTS, PAGES, serve
from benchmarks.measured import Use, use_of
from benchmarks.servers import free_dns_port, free_port, requests, serving

DELAY = 0.3
MOST_SECONDS, MOST_GAP, MOST_MEGABYTES = 16.0, 1.0, 500.0
LEAST_SECONDS = 20.0
"""An attack is watched for as long, because its memory may peak after the last honest page."""
POLL_SECONDS = 0.25
END_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One crawl beside an attack.

    pages     honest pages asked for; `wanted` is all of them
    seconds   from the start of the command to the last of these pages, None if some were not asked for in time
    gap       the longest time between two requests to honest hosts, in seconds
    worker    the highest sum of the resident memory of the worker and its children but the engine, in MB
    engine    the highest resident memory of the engine, in MB
    requests  requests to the attack's hosts
    """

    attack: str
    pages: int
    wanted: int
    seconds: float | None
    gap: float
    worker: float
    engine: float
    requests: int

    def missed(self) -> list[str]:
        """The bars that this crawl does not reach."""
        late = self.seconds is None or self.seconds > MOST_SECONDS
        bars = {"time": late, "gap": self.gap > MOST_GAP, "memory": self.worker > MOST_MEGABYTES}
        return [bar for bar, is_missed in bars.items() if is_missed]


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a crawl; one that does not end in time is killed, and its keeper ends its engine."""
    for stop in (process.terminate, process.terminate, process.kill):
        stop()
        try:
            process.wait(END_SECONDS / 2)
        except subprocess.TimeoutExpired:
            continue
        return


def pages(asked: Sequence[tuple[float, str]]) -> int:
    return len({url for _, url in asked if not url.endswith("/robots.txt")})


def longest_gap(asked: Sequence[tuple[float, str]], until: float) -> float:
    """The longest time between two requests, or from the last one to `until`; times in seconds."""
    times = [*(moment for moment, _ in asked), until]
    return max((later - earlier for earlier, later in zip(times, times[1:], strict=False)), default=0.0)


def measure(name: str, seconds: float, hosts: int = HOSTS) -> Outcome:
    """Crawls `hosts` honest hosts beside an attack, for at most `seconds`."""
    attack, wanted = ATTACKS[name], hosts * PAGES
    ports = free_port("0.0.0.0"), free_port("0.0.0.0")
    names = free_dns_port()
    with tempfile.TemporaryDirectory(prefix="bench-hostile-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        log, bad_log = home / "honest.log", home / "bad.log"
        seeds = [f"http://bad{number}.test:{ports[1]}/" for number in range(attack.hosts)]
        seeds += [f"http://honest{number}.test:{ports[0]}/0" for number in range(hosts)]
        command = web_crawl(home, seeds, names, **attack.settings, DOWNLOAD_DELAY=DELAY)
        with (
            serving(serve, "honest", ports[0], names, log),
            serving(serve, name, ports[1], 0, bad_log),
            (home / "crawl.log").open("wb") as output,
        ):
            begun = time.monotonic()
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
            try:
                most = watch(process, log, wanted, begun, seconds)
            finally:
                end(process)
        asked = requests(log)
        done, last = pages(asked) >= wanted, asked[-1][0] if asked else begun
        return Outcome(
            name,
            pages(asked),
            wanted,
            round(last - begun, 1) if done else None,
            round(longest_gap(asked, last if done else begun + seconds), 2),
            round(most.worker),
            round(most.engine),
            len(requests(bad_log)),
        )


def watch(process: subprocess.Popen[bytes], log: Path, wanted: int, begun: float, seconds: float) -> Use:
    """Waits until the honest pages were asked for, or the time is over; returns the peaks of the memory."""
    worker = engine = 0.0
    while process.poll() is None and (passed := time.monotonic() - begun) < seconds:
        now = use_of(process.pid)
        worker, engine = max(worker, now.worker), max(engine, now.engine)
        if passed > LEAST_SECONDS and pages(requests(log)) >= wanted:
            break
        time.sleep(POLL_SECONDS)
    return Use(worker, engine, 0.0)


def main() -> int:
    options = command_line(
        __doc__, ATTACKS, json=True, seconds=(60.0, "the most that an attack takes")
    ).parse_args()
    outcomes = []
    for name in options.only:
        outcomes.append(measure(name, options.seconds))
        missed = outcomes[-1].missed() or ["none"]
        print(f"{name}: {ATTACKS[name].sentence}. Missed bars: {', '.join(missed)}", flush=True)
    print(records_table(outcomes))
    write_figures(options.json, attacks=outcomes)
    return any(outcome.missed() for outcome in outcomes)


if __name__ == "__main__":
    sys.exit(main())
