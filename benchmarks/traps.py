"""What endless sites take of a crawl: six of them beside 50 honest hosts, by the server's log.

    make bench-traps [ARGS="--only calendar,forum --seeds traps --honest-links none --pages 2000"]
    make bench-traps ARGS="--json FILE --page docs/benchmarks.md"

The six traps are crawled together, until the crawl has its pages. `forum` and `chain` are honest sites that are crawled
whole, one at a time and without a delay, with nothing or with honest hosts beside them. Settings are the default
ones, but for those that loopback needs and the delay. A page or file of an earlier run keeps its other crawls. The exit
status is 1 if a trap takes a hundredth of the fetches or more, or if a page of an honest site is missing.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contender import ROOT, options
from benchmarks.hostile import end, requests
from benchmarks.report import page_with
from benchmarks.served import free_port
from benchmarks.trap_report import BEGIN, DELAY, SEEDS, Crawl, Outcome, counted, table, write
from benchmarks.trap_sites import TRAPS
from benchmarks.trap_web import HOSTS, OUTWARD, WHOLE, TrapWeb


@contextmanager
def served(web: TrapWeb, names: int, log: Path) -> Iterator[None]:
    """Runs the servers in a process of their own; the nameserver has the port `names`."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.trap_servers",
        "--port",
        str(web.port),
        "--names",
        str(names),
    ]
    command += ["--log", str(log), "--pages", str(web.pages), "--hosts", str(web.hosts)]
    command += ["--honest", str(web.honest)]
    command += ["--outward", str(web.outward), "--traps", *web.traps]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise SystemExit("The servers do not start")
        yield
    finally:
        process.kill()
        process.wait()


def measure(crawl: Crawl, settings: dict[str, object], seconds: float) -> Outcome:
    """Crawls for at most `seconds`."""
    web = TrapWeb(
        free_port("0.0.0.0"),
        crawl.pages,
        hosts=crawl.hosts,
        honest=crawl.beside,
        traps=() if crawl.whole else crawl.sites,
        outward=OUTWARD if crawl.is_linked else 0.0,
    )
    names = free_port("127.0.0.1", socket.SOCK_DGRAM)
    with tempfile.TemporaryDirectory(prefix="bench-traps-", ignore_cleanup_errors=True) as folder:
        home, log = Path(folder), Path(folder) / "log"
        (home / "seeds").write_text("\n".join(crawl.start(web)))
        own: dict[str, object] = {
            "DATA_DIR": home / "data",
            "DNS_SERVERS": f"127.0.0.1:{names}",
            "ALLOWED_NETWORKS": "127.0.0.0/8",
            "DOWNLOAD_DELAY": crawl.delay,
            "CRAWL_MAX_PAGES": 0 if crawl.whole else crawl.pages,
            **settings,
        }
        with served(web, names, log):
            begun = time.monotonic()
            run(home, own, crawl.workers, seconds)
        asked = requests(log)
        sites = counted([request for _, request in asked])
        told = {} if crawl.whole else {site: sunk(home, web.start(site)) for site in crawl.sites}
        return Outcome(
            crawl,
            web.whole(crawl.sites[0]) if crawl.whole else web.honest_pages,
            round(asked[-1][0] - begun, 1) if asked else 0.0,
            [dataclasses.replace(site, told=told.get(site.name, "")) for site in sites],
        )


def run(home: Path, settings: dict[str, object], workers: int, seconds: float) -> None:
    verb = ["workers", str(workers)] if workers > 1 else ["crawl"]
    command = [sys.executable, "-m", "scrapy", *verb, "broad", "-a", f"seeds=@{home / 'seeds'}"]
    command += ["-a", "scope=web", *options(settings)]
    with (home / "crawl.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        end(process)
    if process.returncode:
        raise SystemExit((home / "crawl.log").read_text(errors="replace")[-4_000:])


def sunk(home: Path, url: str) -> str:
    """Returns what `scrapy host` says of the sunk pattern of a host with most pages."""
    command = [
        sys.executable,
        "-m",
        "scrapy",
        "host",
        "--json",
        url.rstrip("/"),
        "-s",
        f"DATA_DIR={home / 'data'}",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    patterns: dict[str, Any] = json.loads(done.stdout)["patterns"] if not done.returncode else {}
    rows = [(row["fetched"], name, row["why"]) for name, row in patterns.items() if row["why"]]
    return "`{1}`: {2}".format(*max(rows)) if rows else ""


def crawls(said: argparse.Namespace) -> list[Crawl]:
    """Returns what is to be crawled: all chosen traps together, then each site that is fetched whole."""
    traps = tuple(name for name in said.only if name in TRAPS)
    found = [
        Crawl(traps, said.pages, HOSTS, said.seeds, said.honest_links == "some", said.delay, said.workers)
    ]
    hosts = HOSTS if said.beside else 0
    whole = [
        Crawl((name,), said.pages, hosts, delay=0.0, workers=said.workers, beside=said.beside)
        for name in said.only
        if name in WHOLE
    ]
    return found[: bool(traps)] + whole


def some(said: str) -> list[str]:
    names, known = said.split(","), [*TRAPS, *WHOLE]
    if unknown := set(names) - set(known):
        raise argparse.ArgumentTypeError(f"no site {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def pair(said: str) -> tuple[str, str]:
    name, mark, value = said.partition("=")
    if not (name and mark):
        raise argparse.ArgumentTypeError(f"{said!r} must be NAME=VALUE")
    return name, value


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*TRAPS, *WHOLE]
    parser.add_argument("--only", type=some, default=names, metavar="NAME,...", help=", ".join(names))
    parser.add_argument("--seeds", choices=SEEDS, default="honest", help="; ".join(SEEDS.values()))
    parser.add_argument(
        "--honest-links",
        choices=["some", "none"],
        default="some",
        help="whether honest sites link to each other",
    )
    parser.add_argument(
        "--beside", type=int, default=0, metavar="PAGES", help="of honest hosts beside forum and chain"
    )
    parser.add_argument(
        "--pages", type=int, default=20_000, help="of the crawl; sizes of sites follow from it"
    )
    parser.add_argument("--delay", type=float, default=DELAY, help="DOWNLOAD_DELAY beside traps, in seconds")
    parser.add_argument("--workers", type=int, default=1, help="number of workers")
    parser.add_argument("--seconds", type=float, default=1_800.0, help="the most that a crawl takes")
    parser.add_argument(
        "--set", type=pair, action="append", default=[], metavar="NAME=VALUE", help="a setting"
    )
    parser.add_argument("--json", type=Path, help="write the figures into this file")
    parser.add_argument(
        "--page", type=page_with(BEGIN), help="write the tables between the marks of this page"
    )
    said = parser.parse_args()
    if said.page and not said.json:
        parser.error("--page needs --json, the file that has the figures of earlier crawls")
    return said


def main() -> int:
    said = arguments()
    missed = False
    for crawl in crawls(said):
        outcome = measure(crawl, dict(said.set), said.seconds)
        print(table(outcome), end="\n\n", flush=True)
        if said.json:
            write([outcome], datetime.date.today().isoformat(), said.json, said.page)
        missed |= bool(outcome.missed())
    return missed


if __name__ == "__main__":
    sys.exit(main())
