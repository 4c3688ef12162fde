"""What attacks cost honest hosts: one worker crawls ten of them beside one attack at a time.

    make bench-hostile [ARGS="--only robots,links --seconds 60 --json FILE --page docs/benchmarks.md"]

Each of the ten hosts has 40 small pages, which are asked with a delay of 0.3 s. The requests are those in the servers'
logs. The exit status is 1 if an attack makes the honest hosts wait longer, or takes more memory, than the bars allow.
"""

from __future__ import annotations

import argparse
import datetime
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.contender import ROOT, options
from benchmarks.hostile_servers import ATTACKS, HOSTS, PAGES
from benchmarks.long import Use, use
from benchmarks.report import measured_on, page_with, put_between, put_figures
from benchmarks.served import free_port

BEGIN, END = "<!-- bench-hostile writes from here -->", "<!-- bench-hostile writes to here -->"
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


@contextmanager
def server(kind: str, log: Path, port: int, names: int = 0) -> Iterator[None]:
    """Runs the honest hosts or those of an attack in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.hostile_servers", kind, "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--names", str(names), "--log", str(log)], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise SystemExit(f"The hosts of {kind} do not start")
        yield
    finally:
        process.kill()
        process.wait()


def crawl(home: Path, seeds: Iterable[str], names: int, own: Mapping[str, object]) -> subprocess.Popen[bytes]:
    """Starts a crawl with settings of its own."""
    (home / "seeds").write_text("\n".join(seeds))
    settings: dict[str, object] = {
        **own,
        "DATA_DIR": home / "data",
        "DNS_SERVERS": f"127.0.0.1:{names}",
        "ALLOWED_NETWORKS": "127.0.0.0/8",
        "DOWNLOAD_DELAY": DELAY,
    }
    with (home / "crawl.log").open("wb") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "scrapy",
                "crawl",
                "broad",
                "-a",
                f"seeds=@{home / 'seeds'}",
                "-a",
                "scope=web",
            ]
            + options(settings),
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a crawl; one that does not end in time is killed, and its keeper ends its engine."""
    for stop in (process.terminate, process.terminate, process.kill):
        stop()
        try:
            process.wait(END_SECONDS / 2)
        except subprocess.TimeoutExpired:
            continue
        return


def requests(log: Path) -> list[tuple[float, str]]:
    """The requests of a log: times, and hosts with paths."""
    lines = (line.partition(" ") for line in log.read_text().splitlines(keepends=True) if line.endswith("\n"))
    return [(float(moment), url.strip()) for moment, _, url in lines]


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
    names = free_port("127.0.0.1", socket.SOCK_DGRAM)
    with tempfile.TemporaryDirectory(prefix="bench-hostile-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        log, bad_log = home / "honest.log", home / "bad.log"
        seeds = [f"http://bad{number}.test:{ports[1]}/" for number in range(attack.hosts)]
        seeds += [f"http://honest{number}.test:{ports[0]}/0" for number in range(hosts)]
        with server("honest", log, ports[0], names), server(name, bad_log, ports[1]):
            begun = time.monotonic()
            process = crawl(home, seeds, names, attack.settings)
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
        now = use(process.pid)
        worker, engine = max(worker, now.worker), max(engine, now.engine)
        if passed > LEAST_SECONDS and pages(requests(log)) >= wanted:
            break
        time.sleep(POLL_SECONDS)
    return Use(worker, engine, 0.0)


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "| attack | what | honest pages | seconds | longest gap, s | worker MB | engine MB | its requests | missed |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for one in outcomes:
        what = ATTACKS[one.attack].sentence.replace("<a>", "`<a>`")
        took = "-" if one.seconds is None else f"{one.seconds:.1f}"
        missed = ", ".join(one.missed())
        lines.append(
            f"| `{one.attack}` | {what} | {one.pages} | {took} | {one.gap:.2f} | {one.worker:.0f} | "
            f"{one.engine:.0f} | {one.requests:,} | {f'**{missed}**' if missed else ''} |"
        )
    return "\n".join(lines)


def some(said: str) -> list[str]:
    names = said.split(",")
    if unknown := set(names) - set(ATTACKS):
        raise argparse.ArgumentTypeError(f"no attack {', '.join(unknown)}; there are {', '.join(ATTACKS)}")
    return names


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", type=some, default=list(ATTACKS), metavar="NAME,...", help=", ".join(ATTACKS)
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="the most that an attack takes")
    parser.add_argument("--json", type=Path, help="write the figures into this file")
    parser.add_argument(
        "--page", type=page_with(BEGIN), help="write the table into this Markdown page, between its marks"
    )
    return parser.parse_args()


def main() -> int:
    said = arguments()
    outcomes = []
    for name in said.only:
        outcomes.append(measure(name, said.seconds))
        print(outcomes[-1], *outcomes[-1].missed(), flush=True)
    print(table(outcomes))
    today = datetime.date.today().isoformat()
    if said.page:
        put_between(said.page, BEGIN, END, f"{measured_on(today)}.\n\n{table(outcomes)}")
    if said.json:
        put_figures(said.json, today, attacks=[asdict(one) for one in outcomes])
    return any(one.missed() for one in outcomes)


if __name__ == "__main__":
    sys.exit(main())
