"""`scrapy host`: shows a host of the frontier with its costs, and blocks, delays or limits it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from webcrawl.config.program import program
from webcrawl.crawler.command import OpenedCrawlCommand, exclusive, flag, option
from webcrawl.documents.values import size
from webcrawl.opened import host_named
from webcrawl.policies.budgets import OVER
from webcrawl.urls.canonical import hostname

if TYPE_CHECKING:
    from webcrawl.frontier.host_report import HostReport
    from webcrawl.frontier.records import HostStatus
    from webcrawl.opened import OpenedCrawl

_PARKED = {"blocked": "no: blocked by an operator", "budget": "no: its limit of pages or bytes is reached"}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (0 <= seconds <= 86_400 or seconds == -1):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds from 0 to 86,400, or -1")
    return seconds


def _limit(text: str) -> int:
    number = int(text) if text.isascii() and text.removeprefix("-").isdigit() else -2
    if number < -1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, or -1")
    return number


class Command(OpenedCrawlCommand):
    """A host is scheme, name and port: https://example.org. Delays apply to all crawls, other changes to one."""

    usage = "[options] <https://host>"
    summary = "Show one host; block, slow down or limit it"
    options = (
        flag("--json", "print JSON"),
        exclusive(
            flag("--block", "fetch nothing of it until --unblock"), flag("--unblock", "fetch it again")
        ),
        option(
            "--delay",
            "delay between two requests; -1 sets DOWNLOAD_DELAY again",
            type=_seconds,
            metavar="SECONDS",
        ),
        *(
            option(f"--rule-{name}", f"{what}; may be repeated", action="append", default=[], metavar="RULE")
            for name, what in (("off", "do not use this DUST rule"), ("on", "use it again"))
        ),
        *(
            option(f"--max-{name}", f"limit of {name} for this host; -1 removes it", type=_limit, metavar="N")
            for name in ("pages", "bytes", "depth")
        ),
    )

    def crawl_id(self, args: list[str]) -> str | None:
        if not 1 <= len(args) <= 2:
            raise UsageError("give one host")
        return super().crawl_id(args[1:])

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        # imported late: the engine's client is slow to import
        from webcrawl.frontier.host_report import host_report, switch_rules

        await opened.check_exists()
        host = await _known_host(opened, args[0])
        frontier = opened.connection.frontier
        if opts.block:
            await frontier.block(host)
        if opts.unblock:
            await frontier.unblock(host)
        if opts.delay is not None:
            await frontier.set_delay(host, None if opts.delay < 0 else opts.delay)
        limits = {name: getattr(opts, f"max_{name}") for name in ("pages", "bytes", "depth")}
        if changes := {name: None if most < 0 else most for name, most in limits.items() if most is not None}:
            await frontier.limit(host, dataclasses.replace((await frontier.host(host)).limits, **changes))
        await switch_rules(opened.connection.crawl, host, off=opts.rule_off, on=opts.rule_on)
        report, rule = await host_report(frontier, opened.connection.crawl, host), _rule(opened, host)
        if not report.is_known:
            self.exitcode = 1
            await _tell_unknown(opened, host)
        if opts.json:
            print(json.dumps({**report.as_dict(), "rule": rule}, indent=2))
        elif report.is_known:
            _print(report, rule, await _delay(opened, report.state))
            _print_budgets(report.budgets)
            _print_patterns(report)
            _print_dust(report)


async def _known_host(opened: OpenedCrawl, text: str) -> str:
    """Returns the host that a text names. A bare name is that of https, unless the crawl only knows that of http."""
    host = host_named(text)
    if "://" in text or await _is_known(opened, host):
        return host
    other = _other_scheme(host)
    return other if await _is_known(opened, other) else host


async def _is_known(opened: OpenedCrawl, host: str) -> bool:
    from webcrawl.frontier.host_report import host_report

    return (await host_report(opened.connection.frontier, opened.connection.crawl, host)).is_known


def _other_scheme(host: str) -> str:
    scheme, _, name = host.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{name}"


async def _tell_unknown(opened: OpenedCrawl, host: str) -> None:
    """Says that the crawl has no URL of the host, and whether it knows the host with the other scheme."""
    other = _other_scheme(host)
    hint = f", but it knows {other}" if await _is_known(opened, other) else ""
    print(
        f"{program()} host: crawl {opened.connection.keys.crawl!r} has never had a URL of {host}{hint}",
        file=sys.stderr,
    )


async def _delay(opened: OpenedCrawl, state: HostStatus) -> str:
    """Returns the delay that is in force, and its cause if a worker reports it."""
    from webcrawl.frontier.workers import AllVitals

    crawl = opened.connection.crawl
    vitals = await AllVitals(crawl.engine, crawl.keys).of(await crawl.workers.alive())
    for worker in vitals.values():
        if pace := worker.paces.get(state.host):
            return f"{pace.gap:g} s, by {pace.gap_by}"
    if state.delay is not None and state.delay >= state.gap:
        return f"{state.delay:g} s, by operator"
    if state.gap:
        return f"{state.gap:g} s"
    return f"{opened.politeness.delay:g} s, by DOWNLOAD_DELAY"


def _rule(opened: OpenedCrawl, host: str) -> str | None:
    """Returns the rule of POLITENESS_RULES for the host, or None."""
    rules = opened.rules
    return str(rule) if rules and (rule := rules.of(hostname(host))).match else None


def _print(report: HostReport, rule: str | None, delay: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    state, shares, limits = report.state, report.shares, report.state.limits
    table = Table(title=escape(state.host), show_header=False)
    for name, value in (
        ("queued", f"{state.queued:,}"),
        ("leased", "yes" if state.leased else "no"),
        ("crawled", _PARKED[state.parked] if state.parked else "yes"),
        ("pages", _of(state.pages, limits.ruled if limits.pages is None else limits.pages)),
        ("bytes", _of(state.bytes, limits.bytes)),
        ("depth limit", "DEPTH_LIMIT" if limits.depth is None else f"{limits.depth:,}"),
        ("delay", delay),
        ("rule", escape(rule or "none in POLITENESS_RULES")),
        ("next request", f"in {state.waits:,.1f} s" if state.waits else "at any time"),
        ("failures in a row", f"{state.failures:,}"),
        ("unknown paths", escape(state.unknown_paths or "not asked")),
    ):
        table.add_row(name, value)
    costs = Table("cost", "of the host", f"of {escape(shares['domain'].name)}", "of all hosts")
    for name, row in (
        ("seconds of processor", [f"{share.cost.seconds:,.1f}" for share in shares.values()]),
        ("received", [size(share.cost.bytes) for share in shares.values()]),
        ("names asked", [f"{share.cost.questions:,}" for share in shares.values()]),
        ("waits for its share", [f"{share.cost.waits:,}" for share in shares.values()]),
        ("connections now", [f"{share.load.connections:,}" for share in shares.values()]),
        ("pages in processing", [f"{share.load.unfinished:,}" for share in shares.values()]),
    ):
        costs.add_row(name, *row)
    console = Console()
    console.print(table)
    console.print(costs)


def _print_budgets(budgets: dict[str, dict[str, object]]) -> None:
    for owner, budget in budgets.items():
        sunk = "; over it, so others come first" if budget["is_over"] else ""
        print(
            f"budget of {owner}: {budget['pages']:,} pages; it cost as much as {budget['spent']:,.0f} "
            f"(copies and errors cost more); other domains that link to it: {budget['linking_domains']:,}{sunk}"
        )
    if any(budget["is_over"] for budget in budgets.values()):
        print(OVER)


def _print_patterns(report: HostReport) -> None:
    for pattern, row in report.pattern_rows().items():
        why = f"; sank by {row['sinks_by']} levels: {row['why']}" if row["why"] else ""
        print(f"{pattern}: {row['fetched']:,} pages, {row['new']:,} new, {row['links']:,} new links{why}")


def _print_dust(report: HostReport) -> None:
    for rule, row in report.dust_rows().items():
        pairs = f": {row['same']:,} pairs alike, {row['other']:,} different" if "same" in row else ""
        print(f"DUST rule {rule} ({row['state']}){pairs}")


def _of(spent: int, most: int | None) -> str:
    return f"{spent:,}" if most is None else f"{spent:,} of {most:,}"
