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
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from benchmarks.command import command_line
from benchmarks.compare import crawl, spent
from benchmarks.contender import CONTENDERS, Contender
from benchmarks.served import Web
from benchmarks.sites import available

OURS = [name for name, contender in CONTENDERS.items() if not contender.peer]


def with_settings(contender: Contender, settings: list[str]) -> Contender:
    """Returns a contender with further settings, each as NAME=VALUE."""
    words = [word for setting in settings for word in ("-s", setting)]
    return replace(contender, command=lambda task: [*contender.command(task), *words])


def together(pair: list[Contender], web: Web, seeds: list[str]) -> list[float]:
    """Crawls the web with both; returns the CPU of each in seconds."""
    with ThreadPoolExecutor(len(pair)) as threads:
        costs = list(threads.map(lambda contender: spent(contender, web, seeds, 0), pair))
    if any(cost["exit_code"] for cost in costs):
        raise SystemExit("a crawl has failed")
    return [cost["crawler_cpu"] + cost["engine_cpu"] for cost in costs]


def main() -> None:
    parser = command_line(
        __doc__,
        of=("full-stored", "the contender that is measured", OURS),
        to=("full", "the contender that it is compared with", OURS),
        before=(str, "compare with the code of this commit, in the same environment"),
        rounds=8,
    )
    parser.add_argument("--setting", action="append", default=[], help="NAME=VALUE, of what is measured")
    options = parser.parse_args()
    rounds = options.rounds
    pair = [with_settings(CONTENDERS[options.of], options.setting), CONTENDERS[options.to]]
    with tempfile.TemporaryDirectory(prefix="bench-web-") as home:
        if options.before:
            pair[1] = replace(pair[1], checkout=Path(home) / "before", revision=options.before)
        for contender in pair:
            contender.prepare()
            compileall.compile_dir(contender.checkout / "webcrawl", quiet=1)
        web = Web("http", available(), Path(home))
        with web.served():
            pages = crawl(pair[1], web, web.seeds, 0).got.pages
            starts, wholes = [], []
            for number in range(1, rounds + 1):
                starts.append(together(pair, web, [web.start]))
                wholes.append(together(pair, web, web.seeds))
                print(f"{number}/{rounds}", " beside ".join(f"{cpu:.1f} s" for cpu in wholes[-1]), flush=True)
    first = [statistics.median(column) for column in zip(*starts, strict=True)]
    costs = [[(cpu - start) / pages * 1e3 for cpu, start in zip(both, first, strict=True)] for both in wholes]
    ratios = [of / to for of, to in costs]
    own, other = [statistics.median(column) for column in zip(*costs, strict=True)]
    print(f"{pages:,} pages: {options.of} {own:.2f} ms a page, {options.to} {other:.2f}")
    print(f"ratio {statistics.median(ratios):.3f} (of {rounds}; {min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
