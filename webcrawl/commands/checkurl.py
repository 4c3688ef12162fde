"""`scrapy checkurl URL`: shows whether and how early a URL would be crawled, and why."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, get_args

from webcrawl.crawler.command import OpenedCrawlCommand
from webcrawl.errors import StoreError
from webcrawl.urls.scope import Scope, ScopeKind
from webcrawl.urls.seeds import seed_url

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """Fetches nothing: the robots.txt verdict comes from the crawl's cached copy. The name of the host is resolved."""

    needs_crawl = False

    def syntax(self) -> str:
        return "[options] <url>"

    def short_desc(self) -> str:
        return "Show whether and how early a URL is crawled"

    def long_desc(self) -> str:
        return "Show whether a URL would be crawled, and how early, by filters, robots.txt, address, seen set and level"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--crawl",
            default=None,
            help="use the scope of this crawl; by default that of CRAWL_ID, the only crawl, or broad",
        )
        parser.add_argument("--scope", choices=get_args(ScopeKind), help="check a scope of this kind instead")
        parser.add_argument("--seeds", default="", help="seeds of that scope, separated by commas")
        parser.add_argument(
            "--from",
            dest="page",
            metavar="PAGE",
            default="",
            help="the URL of the page with the link, for LINK_RULES and PatternRecord",
        )
        parser.add_argument(
            "--depth",
            type=int,
            default=1,
            help="the number of links between a seed and the URL, by default 1",
        )
        parser.add_argument("--text", default="", help="the text of the link, for ANCHOR_WORDS and MINED")

    def crawl_id(self, args: list[str]) -> str | None:
        return None

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        # imported late: the engine's client is slow to import
        from webcrawl.crawler.url_report import ReportedLink, url_report

        if len(args) != 1:
            raise StoreError("give one URL")
        exists, scope = await opened.connection.adopt_layout(), None
        if opts.scope:
            scope = Scope(opts.scope, [seed_url(seed) for seed in opts.seeds.split(",") if seed])
        link = ReportedLink(args[0], opts.page, opts.depth, opts.text)
        assert self.settings is not None
        report = await url_report(opened, self.settings, link, exists=exists, scope=scope)
        if opts.json:
            print(json.dumps(report, indent=2))
        else:
            _print(report)


def _print(report: dict[str, Any]) -> None:
    for name, value in report.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for inner, verdict in value.items():
                print(f"  {inner:<24} {_shown(verdict)}")
        else:
            print(f"{name + ':':<13} {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):  # a term
        return f"{value['weight']:+.4f}  {value['why']}"
    return f"{value:+g}" if isinstance(value, float) else str(value)
