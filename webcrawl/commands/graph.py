"""`scrapy graph`: makes the graphs of pages, hosts and domains in the link store, and ranks their vertices."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import StoresCommand, flag, option
from webcrawl.documents.values import counted
from webcrawl.errors import printable

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl

_LEAST_GB, _MOST_GB = 0.5, 1_000_000
_DUCKDB = "duckdb"


class Command(StoresCommand):
    """Reads the link store, also while crawls write to it; needs no engine."""

    usage = "[options] -o <folder>"
    summary = "Rank pages, hosts and domains by their stored links"
    description = (
        "Make the graphs of pages, hosts and domains from stored links, and rank them; for crawls with LINKS"
    )
    options = (
        option("-o --output", "the folder to write, which must not exist or be empty"),
        flag("--hosts", "only hosts and domains, which takes less time"),
        option("--crawl", "only what this crawl found (CRAWL_ID or the spider's name)"),
        flag("--nofollow", "count links with nofollow too"),
        flag("--plot", "draw degrees and the first of each graph as SVG"),
        option(
            "--engine",
            "duckdb, by default, or a master of Spark, as local[2] or spark://host:port",
            default=_DUCKDB,
        ),
        option("--memory", "GB of memory to use; by default half of what is free", type=float),
        flag("--json", "print the summary as JSON"),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.graph.building import GraphOptions, build, check_libraries
        from webcrawl.links.sources import link_files

        if args or not opts.output:
            raise UsageError("give the folder to write: -o folder")
        if opts.memory is not None and not _LEAST_GB <= opts.memory <= _MOST_GB:
            raise UsageError(f"--memory must be from {_LEAST_GB} to {_MOST_GB:,} GB")
        check_libraries()
        spark = opts.engine != _DUCKDB
        if spark:
            from webcrawl.graph.spark.session import check_master

            if opts.plot:
                raise UsageError("--plot needs --engine duckdb")
            check_master(opts.engine)
        files = link_files(opened.stores)
        memory = int(opts.memory * 1e9) if opts.memory else None
        wanted = GraphOptions(opts.crawl, opts.hosts, opts.nofollow, opts.plot, memory)
        report = _silent if opts.json else _report
        try:
            with _interruptible():
                if spark:
                    from webcrawl.graph.spark.building import build_by_spark

                    summary = build_by_spark(files, Path(opts.output), wanted, opts.engine, report)
                else:
                    summary = build(files, Path(opts.output), wanted, report)
        except KeyboardInterrupt:
            print("Interrupted: nothing was written.", file=sys.stderr)
            self.exitcode = 130
            return
        print(json.dumps(summary) if opts.json else f"Wrote {opts.output}.")
        if files.unfinished:
            print("The latest links are left out: crawls are still writing them.", file=sys.stderr)


def _report(name: str, summary: dict[str, Any], best: Sequence[tuple[str, float]]) -> None:
    print(
        f"{name.capitalize()}: {summary['vertices']:,}, with {counted(summary['edges'], 'edge')}; "
        f"PageRank in {counted(summary['pagerank']['iterations'], 'iteration')}{_centrality(summary)}.",
    )
    print(f"  Who follows links at random is most often on these {name}, with these shares of the time:")
    for label, rank in best:
        print(printable(f"  {rank:>7.1%}  {label}"))
    sys.stdout.flush()


def _centrality(summary: dict[str, Any]) -> str:
    """Returns how harmonic centrality was computed, or "" where it was not."""
    if not (harmonic := summary.get("harmonic")):
        return ""
    error = f" with an error of {harmonic['standard_error']:.0%}" if harmonic["registers"] else ""
    return f", harmonic centrality {harmonic['method']}{error}"


def _silent(name: str, summary: dict[str, Any], best: Sequence[tuple[str, float]]) -> None:
    pass


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lets Ctrl-C interrupt a computation, whose end asyncio would wait for."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
