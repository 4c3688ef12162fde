"""`scrapy compact`: merges the small files of stored links and texts."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import StoresCommand, option
from webcrawl.documents.values import counted

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl

_TABLES = ("links", "texts")


class Command(StoresCommand):
    """Works also while crawls write to the tables; needs no engine."""

    usage = "[options] [links] [texts]"
    summary = "Merge small files of links and texts"
    description = (
        "Finish the journals of links and texts that killed crawls left, and merge small Parquet files into larger "
        "ones, in folders or object stores; without arguments those of all tables that exist. With LAKE, tables of "
        "Iceberg get the merged files"
    )

    options = (
        option(
            "--engine",
            "a master of Spark, as local[2] or spark://host:port, whose executors merge the files",
        ),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.config import read
        from webcrawl.errors import StoreError
        from webcrawl.links.merging import merge_files
        from webcrawl.links.sources import has_link_files, link_files
        from webcrawl.stores.tables.text_merges import merge_texts
        from webcrawl.stores.tables.texts import text_files

        if unknown := [name for name in args if name not in _TABLES]:
            raise UsageError(f"{unknown[0]!r} is none of {', '.join(_TABLES)}")
        if opts.engine:
            from webcrawl.graph.spark.merging import merge_by_spark
            from webcrawl.graph.spark.session import check_master

            check_master(opts.engine)
        stores = opened.stores
        exist = {"links": has_link_files(stores), "texts": bool(text_files(stores))}
        tables = args or [name for name in _TABLES if exist[name]]
        if missing := [name for name in tables if not exist[name]]:
            raise StoreError(f"no {missing[0]} are stored")
        if not tables:
            raise StoreError(
                "neither links nor texts are stored: crawl with LINKS = True or TEXT = 'parquet'"
            )
        for name in tables:
            if name == "links":
                link_files(stores)  # finishes journals
            if opts.engine:
                merged = merge_by_spark(stores, name, opts.engine)
            else:
                merged = merge_files(stores) if name == "links" else merge_texts(stores)
            what = (
                f"merged {counted(merged.before, 'file')} into {merged.after:,}"
                if merged.before
                else "nothing to merge, because there are no two small files"
            )
            print(f"{name}: {what}.", file=sys.stderr)
        if read(self.settings, "LAKE"):
            from webcrawl.lake.update import update_files

            update_files(stores, opened.config.crawl_id, tables)  # its readers would miss the merged files
