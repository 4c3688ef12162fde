"""`scrapy checkurl URL`: shows whether and how early a URL would be crawled, and why."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, get_args

from webcrawl.crawler.command import OpenedCrawlCommand, flag, option
from webcrawl.errors import StoreError
from webcrawl.urls.scope import Scope, ScopeKind
from webcrawl.urls.seeds import seed_url, with_scheme

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl


class Command(OpenedCrawlCommand):
    """Sends no request: the robots.txt comes from the crawl's cache. Only the name of the host is resolved."""

    needs_crawl = False
    usage = "[options] <url>"
    summary = "Show whether and how early a URL is crawled"
    description = (
        "Show whether and how early a URL is crawled, by filters, robots.txt, address, seen set and level"
    )
    options = (
        flag("--json", "print JSON"),
        option(
            "--crawl",
            "use the scope of this crawl; by default that of CRAWL_ID, the only crawl, or broad",
            default=None,
        ),
        option("--scope", "check a scope of this kind instead", choices=get_args(ScopeKind)),
        option("--seeds", "seeds of that scope, separated by commas", default=""),
        option(
            "--from",
            "the URL of the page with the link, for LINK_RULES and PatternRecord",
            dest="page",
            metavar="PAGE",
            default="",
        ),
        option(
            "--depth", "the number of links between a seed and the URL, by default 1", type=int, default=1
        ),
        option("--text", "the text of the link, for ANCHOR_WORDS and MINED", default=""),
    )
    takes_crawl = False

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        # imported late: the engine's client is slow to import
        from webcrawl.crawler.url_report import ReportedLink, url_report

        if len(args) != 1:
            raise StoreError("give one URL")
        exists, scope = await opened.connection.adopt_layout(), None
        if opts.scope:
            scope = Scope(opts.scope, [seed_url(seed) for seed in opts.seeds.split(",") if seed])
        link = ReportedLink(with_scheme(args[0]), with_scheme(opts.page), opts.depth, opts.text)
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
