"""`scrapy status`: shows the counts of the frontier, its busiest hosts, and the URL patterns that have sunk."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from webcrawl.crawler.command import OpenedCrawlCommand, flag, option
from webcrawl.documents.values import counted
from webcrawl.policies.budgets import OVER

if TYPE_CHECKING:
    from rich.console import Console

    from webcrawl.opened import OpenedCrawl


_LABELS = {
    "archived": "exchanges",
    "stored": "rows",
    "bytes": "bytes received",
    "robots_denied": "robots.txt disallows",
    "ai_denied": "denied by rules for AI",
    "retried": "retries",
    "seen_urls": "seen URLs",
    "looked_up": "links looked up",
    "cache_hit_ratio": "of them known to a worker",
}
"""Name of a figure in JSON -> its word in the glossary, if it has another."""

_ALWAYS = ("pages", "queued")
"""Counts that are printed also when they are zero."""


class Command(OpenedCrawlCommand):
    """Reads the engine, also while the crawl is not running."""

    summary = "Show queued and seen URLs and the busiest hosts"
    description = (
        "Show the numbers of queued, leased, seen and failed URLs, the busiest hosts, and what has sunk"
    )
    options = (
        flag("--json", "print JSON"),
        flag("--all", "also print the counts that are zero"),
        option("--hosts", "number of hosts and patterns, 10 by default", type=int, default=10, metavar="N"),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.web.overview import crawl_report

        await opened.check_exists()
        report = await crawl_report(opened.connection, opts.hosts)
        if opts.json:
            print(json.dumps(report, indent=2))
        else:
            _print(report, with_zeros=opts.all)


def _print(report: dict[str, Any], *, with_zeros: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    counts = Table(title=f"crawl {report['crawl']}: {report['state']}", show_header=False)
    for name, value in _counts(report):
        if value or with_zeros or name in _ALWAYS:
            counts.add_row(_LABELS.get(name, name.replace("_", " ")), _text(name, value))
    console.print(counts)
    if report["busiest_hosts"]:
        _print_busiest(console, report["busiest_hosts"])
    if report["sunk_patterns"]["hosts"]:
        _print_sunk(report["sunk_patterns"])
    if report["over_budget"]["owners"]:
        _print_over(report["over_budget"])


def _counts(report: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yields the rows of the first table."""
    for name, value in report.items():
        if isinstance(value, int | float):
            yield name, value
        elif name == "responses":
            yield name, sum(value.values())
            yield "HTTP errors", sum(number for status, number in value.items() if status >= "400")


def _text(name: str, value: float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.1%}" if name == "cache_hit_ratio" else f"{value:,}"


def _print_busiest(console: Console, rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    hosts = Table(title="busiest hosts")
    hosts.add_column("host")
    hosts.add_column("queued", justify="right")
    hosts.add_column("leased")
    hosts.add_column("waiting for a retry", justify="right")
    hosts.add_column("next retry", justify="right")
    for host in rows:
        due = host["next_attempt"]
        hosts.add_row(
            escape(host["host"]),
            f"{host['queued']:,}",
            "yes" if host["leased"] else "",
            f"{host['waiting']:,}" if host["waiting"] else "",
            "" if due is None else f"in {due:,.0f} s",
        )
    console.print(hosts)


def _print_sunk(sunk: dict[str, Any]) -> None:
    read = "" if sunk["hosts_read"] == sunk["hosts"] else f", of which {sunk['hosts_read']:,} were read"
    old = sunk["fetched"] - sunk["new"]
    print(
        f"sunk: {counted(sunk['patterns'], 'URL pattern')} on {counted(sunk['hosts'], 'host')}{read}; "
        f"{old:,} of their {sunk['fetched']:,} pages gave nothing new"
    )
    for pattern in sunk["worst"]:
        sank = f"sank by {counted(pattern['sinks_by'], 'level')}"
        print(f"  {pattern['host']} {pattern['pattern']} {sank}: {pattern['why']}")


def _print_over(over: dict[str, Any]) -> None:
    owners = counted(over["owners"], "name or domain", "names and domains")
    print(f"over their budgets: {owners} with {counted(over['hosts'], 'host')}")
    for owner, hosts, spending in over["worst"]:
        print(f"  {owner}, {counted(hosts, 'host')}: {spending}")
    print(OVER)
