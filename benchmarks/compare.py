"""Crawls the same real pages with this project and with others, side by side.

    make bench [ARGS="--only links,scrapy --webs http,many --repeat 5 --pages 500 --json FILE"]

Needs Linux, nginx, and Debian's packages python3-doc, postgresql-doc-15 and rust-doc; missing packages are left
out. The contenders take turns, and each figure is the median of its runs. In each turn every other contender runs once,
and ours run before each of them, because our runs are short and a shared machine changes from minute to minute. CPU is
user and system time of all processes, less that of crawling a single page; the web servers are not counted. Pages a
second are counted by the web server, from its first answer to its last.
"""

from __future__ import annotations

import compileall
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import Namespace
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.command import ROOT, command_line, names_of, records_table, write_figures
from benchmarks.contender import CONTENDERS, Contender, Task
from benchmarks.report import Result, Run, bars, result
from benchmarks.served import WEBS, Web
from benchmarks.sites import Site, available

LIMIT_SECONDS = 600
OPEN_FILES = 20_000
"""So many connections to thousands of hosts may be open in one process; many accounts have 1,024."""
# the default contenders of each web: TLS handshakes concern only fetching
DEFAULT = {
    "http": list(CONTENDERS),
    "https": ["links", "links-curl", "full", "scrapy"],
    "many": ["links", "full", "scrapy"],
    "thousand": ["links", "colly"],
    "polite": ["links", "scrapy", "colly"],
    "small": ["links", "scrapy"],
}


def crawl(contender: Contender, web: Web, seeds: list[str], pages: int) -> Run:
    """Runs one crawl, and counts what the web was asked for; prints the end of its output if it fails."""
    web.forget()
    cost = spent(contender, web, seeds, pages)
    return Run(web.got(), **cost)


def spent(contender: Contender, web: Web, seeds: list[str], pages: int) -> dict[str, Any]:
    """Runs one crawl in an empty folder; returns what measured.py prints of it."""
    home = Path(tempfile.mkdtemp(prefix="bench-"))
    command = [sys.executable, str(ROOT / "benchmarks" / "measured.py"), *contender.server(home), "--"]
    command += contender.words(Task(seeds, pages, web.per_host, web.delay, home))
    trusted = {"SSL_CERT_FILE": str(web.authority)} if web.authority else {}
    with (home / "output").open("wb") as output:
        process = subprocess.Popen(
            command,
            # Scrapy uses the project of the current folder; the other contenders have none
            cwd=home if contender.peer else contender.checkout,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **contender.path(), **trusted},
        )
        try:
            cost: dict[str, Any] = json.loads(process.communicate(timeout=LIMIT_SECONDS)[0])
        except subprocess.TimeoutExpired:
            raise SystemExit(f"{contender.title} did not end in time: {home}/output") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if cost["exit_code"]:
        print((home / "output").read_text(errors="replace")[-3000:])
    shutil.rmtree(home)
    return cost


def in_turn(chosen: list[Contender]) -> list[Contender]:
    """The order of runs in one turn: each of the others once, ours before each, so that both see the same minutes."""
    own = [contender for contender in chosen if not contender.peer]
    others = [contender for contender in chosen if contender.peer]
    return [contender for other in others for contender in (*own, other)] or own


def take_turns(chosen: list[Contender], web: Web, repeat: int, pages: int) -> list[Result]:
    """Runs turn after turn, so that a disturbance of the machine affects all contenders."""
    starts: dict[str, list[Run]] = {contender.name: [] for contender in chosen}
    runs: dict[str, list[Run]] = {contender.name: [] for contender in chosen}
    for turn in range(repeat):
        for contender in in_turn(chosen):
            starts[contender.name].append(crawl(contender, web, [web.start], 0))
            run = crawl(contender, web, web.seeds, pages)
            runs[contender.name].append(run)
            got = run.got
            print(
                f"{turn + 1}/{repeat} {contender.title}: {got.pages} pages in {got.seconds:.1f} s, "
                f"{run.cpu:.1f} s of CPU, {got.again} again, {got.other} other, {got.connections} connections, "
                f"gaps {got.gaps}, {got.hosts} hosts at once, exit {run.exit_code}",
                flush=True,
            )
    return [result(each.name, each.title, starts[each.name], runs[each.name]) for each in chosen]


def measure(kind: str, sites: list[Site], chosen: list[Contender], options: Namespace) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="bench-web-") as home:
        print(f"{WEBS[kind]}:", flush=True)
        web = Web(kind, sites, Path(home))
        with web.served():
            results = take_turns(chosen, web, options.repeat, options.pages)
    print(records_table(results), *bars(kind, results), sep="\n", flush=True)
    return results


def allow_open_files() -> None:
    """Raises the limit of open files, which all processes inherit; raises SystemExit if this account may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < OPEN_FILES:
        raise SystemExit(
            f"A web of thousands of hosts needs {OPEN_FILES} open files, and this account may have {hard}. "
            f"Run `ulimit -Hn {OPEN_FILES}` as root in this shell first, or leave the web polite out (--webs)."
        )
    if soft not in (-1, resource.RLIM_INFINITY) and soft < OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))


def main() -> int:
    turns = 3, "turns, in each of which all run"
    pages = 0, "end each crawl after about so many (0: all)"
    parser = command_line(__doc__, json=True, repeat=turns, pages=pages)
    parser.add_argument("--only", type=names_of(CONTENDERS), help="contenders: " + ",".join(CONTENDERS))
    parser.add_argument("--webs", type=names_of(WEBS), default=list(WEBS), help="webs: " + ",".join(WEBS))
    options = parser.parse_args()
    if {"thousand", "polite", "small"} & set(options.webs):
        allow_open_files()
    sites = available()
    wanted = {web: options.only or DEFAULT[web] for web in options.webs}
    ready = {name: CONTENDERS[name].prepare() for name in dict.fromkeys(chain(*wanted.values()))}
    # as an installation does; with PYTHONDONTWRITEBYTECODE each crawl would compile all modules again
    for checkout in {CONTENDERS[name].checkout for name in ready}:
        compileall.compile_dir(checkout / "webcrawl", quiet=1)
    chosen = {web: [CONTENDERS[name] for name in names if ready[name]] for web, names in wanted.items()}
    webs = {web: measure(web, sites, chosen[web], options) for web in options.webs}
    write_figures(options.json, webs=webs)
    # wget2 ends with 8 after any missing page
    own = [result for results in webs.values() for result in results if not CONTENDERS[result.name].peer]
    return max((run.exit_code for result in own for run in result.runs), default=0)


if __name__ == "__main__":
    sys.exit(main())
