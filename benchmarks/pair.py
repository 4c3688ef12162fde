"""Crawls the same real pages with two of our contenders at the same time, and prints the ratio of their CPU.

    make bench-pair [ARGS="--of full-stored --to full --rounds 8"]
    make bench-pair ARGS="--of full --to full --before v0.1.0"
    make bench-pair ARGS="--of full --to full --setting TEXT=wet --setting TEXT_MARKDOWN=True"

Both see the same machine in the same seconds, so ratios of rounds differ by a hundredth or two, where crawls by turns
(`make bench`) differ by a tenth on a shared machine. CPU is counted as there, and is a little higher for both, because
they share the caches. Speeds cannot be compared.
"""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from benchmarks.command import ROOT, command_line
from benchmarks.compare import crawl, spent
from benchmarks.contender import CONTENDERS, Contender, Task
from benchmarks.served import Web
from benchmarks.sites import available

OURS = [name for name, contender in CONTENDERS.items() if not contender.peer]


def with_settings(contender: Contender, settings: list[str]) -> Contender:
    """Returns a contender with further settings, each as NAME=VALUE."""
    words = [word for setting in settings for word in ("-s", setting)]

    def command(task: Task) -> list[str]:
        return [*contender.command(task), *words]

    return replace(contender, command=command)


def together(pair: list[Contender], web: Web, seeds: list[str]) -> list[float]:
    """Crawls the web with both; returns the CPU of each in seconds."""
    with ThreadPoolExecutor(len(pair)) as threads:
        costs = list(threads.map(lambda contender: spent(contender, web, seeds, 0), pair))
    if any(cost["exit_code"] for cost in costs):
        raise SystemExit("a crawl has failed")
    return [cost["crawler_cpu"] + cost["engine_cpu"] for cost in costs]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--of", choices=OURS, default="full-stored", help="the contender that is measured")
    parser.add_argument("--to", choices=OURS, default="full", help="the contender that it is compared with")
    parser.add_argument("--before", help="compare with the code of this commit, in the same environment")
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the contender that is measured",
    )
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    rounds = options.rounds
    pair = [with_settings(CONTENDERS[options.of], options.setting), CONTENDERS[options.to]]
    with tempfile.TemporaryDirectory(prefix="bench-web-") as home:
        if options.before:
            checkout = Path(home) / "before"
            subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
            subprocess.run(["git", "checkout", "--quiet", options.before], cwd=checkout, check=True)
            # its entry points, before those that are installed: they name its commands
            subprocess.run([sys.executable, "setup.py", "--quiet", "egg_info"], cwd=checkout, check=True)
            pair[1] = replace(pair[1], checkout=checkout)
        for contender in pair:
            compileall.compile_dir(contender.checkout / "webcrawl", quiet=1)
        web = Web("http", available(), Path(home))
        with web.served():
            pages = crawl(pair[1], web, web.seeds, 0).got.pages
            starts, wholes = [], []
            for number in range(1, rounds + 1):
                starts.append(together(pair, web, [web.start]))
                wholes.append(together(pair, web, web.seeds))
                of, to = wholes[-1]
                print(f"{number}/{rounds} {options.of} {of:.1f} s, {options.to} {to:.1f} s", flush=True)
    first = [statistics.median(column) for column in zip(*starts, strict=True)]
    costs = [[(cpu - start) / pages * 1e3 for cpu, start in zip(both, first, strict=True)] for both in wholes]
    ratios = [of / to for of, to in costs]
    of, to = [statistics.median(column) for column in zip(*costs, strict=True)]
    print(f"{pages:,} pages: {options.of} {of:.2f} ms a page, {options.to} {to:.2f}")
    print(
        f"ratio {statistics.median(ratios):.3f} (median of {rounds}; {min(ratios):.3f} to {max(ratios):.3f})"
    )


if __name__ == "__main__":
    main()
