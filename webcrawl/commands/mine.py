"""`scrapy mine`: mines links into tables, and into weights for crawls with MINED."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import StoresCommand, option
from webcrawl.documents.values import counted
from webcrawl.errors import StoreError, printable
from webcrawl.policies.mined import Mined

if TYPE_CHECKING:
    from webcrawl.mining.targets import Target
    from webcrawl.mining.workspace import MiningTables
    from webcrawl.opened import OpenedCrawl
    from webcrawl.policies.learned_value import ValueModel
    from webcrawl.stores.objects.store import ObjectStore
    from webcrawl.stores.weights_file import WeightsFile

_DUCKDB = "duckdb"


class Command(StoresCommand):
    """Reads table `pages` and the link store, also while crawls write to them; needs no engine."""

    usage = "[options]"
    summary = "Learn from stored links what URLs are worth"
    description = (
        "Find patterns, boilerplate, hubs and anchors in stored links; learn what URLs are worth, for MINED"
    )
    options = (
        option(
            "--target",
            "what a page is worth, by default text (length of its main text); or links (URLs that it was the "
            "first to link to), importance, details.KEY, a column of table pages with numbers, or a condition in SQL "
            "such as \"language = 'ja' AND text_length > 2000\"",
            default="text",
        ),
        option("--crawl", "only what this crawl found (CRAWL_ID or the spider's name)"),
        option("--engine", "duckdb or a master of Spark, as for `scrapy graph`", default=_DUCKDB),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("scrapy mine has only options")
        await asyncio.to_thread(_mine, opened, opts)


def _mine(opened: OpenedCrawl, opts: argparse.Namespace) -> None:
    # slow to import, and not installed everywhere
    from webcrawl.mining.libraries import check_libraries
    from webcrawl.mining.targets import Target
    from webcrawl.stores.weights_file import WeightsFile

    check_libraries()
    target, file = Target.named(opts.target), WeightsFile.of(opened.stores)
    with _workspace(opened, opts.engine) as workspace:
        has_links = _load(opened, workspace, target, opts.crawl)
        value = _learned(workspace, target, file if has_links else None)
        mined = Mined(datetime.now(UTC).isoformat(timespec="seconds"), value)
        if has_links:
            mined = _mined_links(workspace, file.store, mined)
            _print_best(workspace, target)
    file.write(mined)
    print(f"weights: {file.name}")


def _workspace(opened: OpenedCrawl, engine: str) -> AbstractContextManager[MiningTables]:
    from webcrawl.mining.workspace import Workspace

    if engine == _DUCKDB:
        return Workspace(opened.stores.data_dir)
    from webcrawl.graph.spark.session import check_master
    from webcrawl.mining.by_spark import spark_workspace

    check_master(engine)
    return spark_workspace(opened.stores.data_dir, engine)


def _load(opened: OpenedCrawl, workspace: MiningTables, target: Target, crawl: str | None) -> bool:
    """Loads pages and links; returns False if there is no link store."""
    from webcrawl.links.sources import LinkFiles, link_files, link_files_if_any
    from webcrawl.stores.chosen_columns import ChosenColumns

    opened.metadata().close()
    columns = ChosenColumns(opened.stores.metadata)
    try:
        if target.is_own_column:
            columns.check_number(target.column)
        files = link_files(opened.stores) if target.needs_links else link_files_if_any(opened.stores)
        if files is None:
            files = LinkFiles([], 0, [])
            print("Only pages are mined: no links are stored. Crawl with LINKS = True", file=sys.stderr)
        if files.unfinished:
            print("The latest links are left out: crawls are still writing them.", file=sys.stderr)
        workspace.load_links(files, crawl)
        workspace.load_pages(columns, target, crawl)
    finally:
        columns.close()
    if workspace.is_empty:
        subject = f"crawl {crawl!r} has" if crawl else "the crawls have"
        raise StoreError(
            f"nothing to mine: {subject} stored no page and no link. What was mined before stays in use"
        )
    return bool(files.openers)


def _learned(workspace: MiningTables, target: Target, before: WeightsFile | None) -> ValueModel | None:
    """Learns the values of URLs; if learning fails, returns the model in the file `before`.

    Raises StoreError if learning fails and there is no such file.
    """
    from webcrawl.mining.training import learn

    try:
        lesson = learn(workspace, target.name)
    except StoreError as error:
        if before is None:
            raise
        print(f"{error}. What was learned before stays in use.", file=sys.stderr)
        with suppress(StoreError):
            known = before.changed()
            return known.value if known else None
        return None
    pages = counted(lesson.pages, "page")
    print(f"learned {target.name} from {pages}: {_explained(lesson.explained)}")
    return lesson.value


def _explained(share: float | None) -> str:
    if share is None:
        return "too few pages were fetched well to measure what it explains"
    return f"explains {max(share, 0):.0%} of its variance on other pages that were fetched well"


def _print_best(workspace: MiningTables, target: Target) -> None:
    """Prints the best patterns and hubs in words."""
    from webcrawl.mining.workspace import BEST_HUBS, BEST_PATTERNS

    rows = [row for batch in workspace.rows(BEST_PATTERNS) for row in batch]
    if rows:
        print(f"Patterns of URLs by the mean value of their pages ({target.name}):")
    for host, pattern, pages, value in rows:
        shown = f"{value:,.0f}" if value >= 10 else f"{value:,.2f}"
        print(printable(f"  {shown:>11}  {host}{pattern}  ({counted(pages, 'page')})"))
    rows = [row for batch in workspace.rows(BEST_HUBS) for row in batch]
    if rows:
        print("Pages to visit again, because they lead to new URLs first (hubs):")
    for url, new, unique, readings in rows:
        evidence = f"{unique:,} of them on no other page, at {counted(readings, 'reading')}"
        print(printable(f"  {new:>11,}  {url}  ({evidence})"))


def _mined_links(workspace: MiningTables, store: ObjectStore, mined: Mined) -> Mined:
    """Mines the links and writes the tables; returns the weights, extended by those from links."""
    from webcrawl.mining.pages import collect_anchors, find_blocks, judge_pages, marks
    from webcrawl.mining.patterns import add_urls, measure, weights
    from webcrawl.mining.workspace import write_tables

    for step in (add_urls, find_blocks, measure, judge_pages, collect_anchors):
        step(workspace)
    rows = write_tables(workspace, store)
    print(f"tables in {store.uri()}: {', '.join(f'{name} {number:,}' for name, number in rows.items())}")
    return replace(mined, patterns=weights(workspace), marks=marks(workspace))
