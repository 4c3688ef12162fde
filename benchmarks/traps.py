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
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.command import ROOT, add_settings, command_line, names_of, scrapy, today, web_crawl
from benchmarks.hostile import end
from benchmarks.servers import free_dns_port, free_port, requests, serving
from benchmarks.trap_report import DELAY, SECTION, SEEDS, Crawl, Outcome, counted, crawl_table, write
from benchmarks.trap_sites import TRAPS
from benchmarks.trap_web import HOSTS, OUTWARD, WHOLE, TrapWeb, serve


def served(web: TrapWeb, names: int, log: Path) -> AbstractContextManager[None]:
    """Runs the servers in a process of their own; the nameserver has the port `names`."""
    return serving(serve, web, names, log)


def measure(crawl: Crawl, settings: Mapping[str, object], seconds: float) -> Outcome:
    """Crawls for at most `seconds`."""
    web = TrapWeb(
        free_port("0.0.0.0"),
        crawl.pages,
        hosts=crawl.hosts,
        honest=crawl.beside,
        traps=() if crawl.whole else crawl.sites,
        outward=OUTWARD if crawl.is_linked else 0.0,
    )
    names = free_dns_port()
    with tempfile.TemporaryDirectory(prefix="bench-traps-", ignore_cleanup_errors=True) as folder:
        home, log = Path(folder), Path(folder) / "log"
        own = {"DOWNLOAD_DELAY": crawl.delay, "CRAWL_MAX_PAGES": 0 if crawl.whole else crawl.pages}
        command = web_crawl(home, crawl.start(web), names, {**own, **settings}, crawl.workers)
        with served(web, names, log):
            begun = time.monotonic()
            run(command, home / "crawl.log", seconds)
        asked = requests(log)
        sites = counted([request for _, request in asked])
        patterns = {} if crawl.whole else {site: sunk(home, web.start(site)) for site in crawl.sites}
        return Outcome(
            crawl,
            web.whole(crawl.sites[0]) if crawl.whole else web.honest_pages,
            round(asked[-1][0] - begun, 1) if asked else 0.0,
            [dataclasses.replace(site, sunk=patterns.get(site.name, "")) for site in sites],
        )


def run(command: list[str], output: Path, seconds: float) -> None:
    """Runs a crawl for at most `seconds`; raises SystemExit if it fails."""
    with output.open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        end(process)
    if process.returncode:
        raise SystemExit(output.read_text(errors="replace")[-4_000:])


def sunk(home: Path, url: str) -> str:
    """Returns what `scrapy host` says of the sunk pattern of a host with most pages."""
    command = scrapy("host", "--json", url.rstrip("/"), DATA_DIR=home / "data")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
    patterns: dict[str, Any] = json.loads(done.stdout)["patterns"] if not done.returncode else {}
    rows = [(row["fetched"], name, row["why"]) for name, row in patterns.items() if row["why"]]
    return "`{1}`: {2}".format(*max(rows)) if rows else ""


def crawls(options: argparse.Namespace) -> list[Crawl]:
    """Returns what is to be crawled: all chosen traps together, then each site that is fetched whole."""
    traps = tuple(name for name in options.only if name in TRAPS)
    is_linked, workers = options.honest_links == "some", options.workers
    together = Crawl(traps, options.pages, HOSTS, options.seeds, is_linked, options.delay, workers)
    hosts = HOSTS if options.beside else 0
    whole = [
        Crawl((name,), options.pages, hosts, delay=0.0, workers=workers, beside=options.beside)
        for name in options.only
        if name in WHOLE
    ]
    return [together, *whole] if traps else whole


def arguments() -> argparse.Namespace:
    parser, names = command_line(__doc__), [*TRAPS, *WHOLE]
    parser.add_argument(
        "--only", type=names_of(names), default=names, metavar="NAME,...", help=", ".join(names)
    )
    parser.add_argument("--seeds", choices=SEEDS, default="honest", help="; ".join(SEEDS.values()))
    parser.add_argument(
        "--honest-links", choices=["some", "none"], default="some", help="between honest sites"
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
    add_settings(parser, "a setting")
    SECTION.add_options(parser)
    options = parser.parse_args()
    if options.page and not options.json:
        parser.error("--page needs --json, the file that has the figures of earlier crawls")
    return options


def main() -> int:
    options = arguments()
    missed = False
    for crawl in crawls(options):
        outcome = measure(crawl, dict(options.set), options.seconds)
        print(crawl_table(outcome), end="\n\n", flush=True)
        if options.json:
            write([outcome], today(), options.json, options.page)
        missed |= bool(outcome.missed())
    return missed


if __name__ == "__main__":
    sys.exit(main())
