"""The pages of hosts: a table that is read in windows, and the page of a host with actions for operators."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from starlette.responses import Response

from webcrawl.documents.values import without_class
from webcrawl.errors import CrawlError, StoreError
from webcrawl.frontier.dead_letters import CrawlDeadLetters, Reasons
from webcrawl.frontier.host_answers import StoredRobots, stored_robots
from webcrawl.frontier.host_report import host_report, switch_rules
from webcrawl.frontier.host_table import LISTS, HostRow, HostTable
from webcrawl.frontier.workers import AllVitals, Vitals
from webcrawl.hosts.politeness import Pace
from webcrawl.opened import host_named
from webcrawl.stores.metadata import Metadata
from webcrawl.urls.canonical import hostname
from webcrawl.web.crawls import in_metadata
from webcrawl.web.page import DashboardPage, View, whole

page = DashboardPage("hosts", "Hosts")

_ROWS = 100
_MOST_STORED = 1_000
_MOST_LETTERS = 5_000
_MOST_DELAY = 86_400

ORDERS: Mapping[str, Callable[[HostRow], Any]] = {
    "name": lambda row: hostname(row.host).split(".")[::-1],
    "queued": lambda row: -row.queued,
    "pages": lambda row: -row.pages,
    "bytes": lambda row: -row.bytes,
    "errors": lambda row: -row.errors,
    "failures": lambda row: -row.failures,
    "gap": lambda row: -max(row.gap, row.delay or 0.0),
    "waits": lambda row: -row.waits,
    "cost": lambda row: -row.cost.weight,
}
"""The sort keys by order. Names are sorted alphabetically, numbers in descending order; "-" reverses an order."""
_USUAL = {
    "fetched": "pages",
    "failing": "errors",
    "retrying": "failures",
    "waiting": "waits",
    "costliest": "cost",
}
"""The initial orders by list; other lists are sorted by the lengths of their queues."""
_IN_ORDER = frozenset({"waiting", "costliest"})
"""The lists that the engine keeps in the order of `_USUAL`, over the whole crawl."""


@page.get()
async def table(view: View) -> Response:
    query = view.query
    name, text, after = query.get("list", ""), query.get("text", "").strip(), query.get("after", "")
    if not name:  # after a crawl, no host has a queue
        name = "queued" if (await view.connection.frontier.counts()).queued else "fetched"
    usual = _USUAL.get(name, "queued")
    order = query.get("order", usual)
    key = ORDERS.get(order.removeprefix("-"))
    if key is None:
        raise StoreError(f"{order!r} is no order: choose one of {', '.join(ORDERS)}")
    start = whole(query.get("start", "0"), "start")
    crawl = view.connection.crawl
    window = await HostTable(crawl, view.connection.cold_hosts).window(name, after, text)
    rows = window.rows
    complete = not (window.after or after)
    in_order = order == usual and (name in _IN_ORDER or (name == "long" and complete))
    if not (name in _IN_ORDER and order == usual):
        rows = sorted(rows, key=lambda row: (key(row), row.host), reverse=order.startswith("-"))
    shown = rows[start : start + _ROWS]
    vitals = await AllVitals(crawl.engine, crawl.keys).of(await crawl.workers.alive())
    return view.render(
        "hosts.html",
        rows=shown,
        paces=paces(shown, reported_paces(vitals.values())),
        total=await crawl.host_count(),
        window=window,
        start=start,
        following=start + _ROWS if start + _ROWS < len(rows) else 0,
        lists=LISTS,
        in_order=in_order,
        chosen={"list": name, "text": text, "order": order, "after": after},
        named=_host_in(text),
    )


@page.live("hosts")
async def parts(view: View) -> Mapping[str, str]:
    return {"@total": str(await view.connection.crawl.host_count())}


@page.get("host")
async def host_page(view: View) -> Response:
    host = host_named(view.query.get("host", ""))
    frontier, opened = view.connection.frontier, view.opened
    crawl = view.connection.crawl
    report = await host_report(frontier, crawl, host)
    row = (await HostTable(crawl, frontier.cold_hosts).rows([host]))[0]
    vitals = await AllVitals(crawl.engine, crawl.keys).of(await crawl.workers.alive())
    robots, robots_problem = await _robots(view, host)
    agent = opened.robots_agents.of(host)
    rules = opened.rules
    return view.render(
        "host.html",
        host=host,
        report=report,
        errors=row.errors,
        pace=paces([row], reported_paces(vitals.values()))[host],
        robots=robots,
        robots_problem=robots_problem,
        agent=agent,
        crawl_delay=robots.policy.crawl_delay(agent) if robots else None,
        rule=str(rule) if rules and (rule := rules.of(hostname(host))).match else "",
        most_crawl_delay=opened.politeness.max_crawl_delay,
        stored=await in_metadata(opened, lambda metadata: _stored(metadata, host)),
        most_stored=_MOST_STORED,
        letters=await _letters(view, host),
    )


@page.post("block")
async def block(view: View) -> Response:
    host = host_named(view.form["host"])
    await view.connection.frontier.block(host)
    return view.done(
        f"{host} is blocked: its URLs stay queued, and no worker asks it until it is unblocked. A crawl without other "
        "URLs ends; start it again once the host is unblocked."
    )


@page.post("unblock")
async def unblock(view: View) -> Response:
    host = host_named(view.form["host"])
    await view.connection.frontier.unblock(host)
    return view.done(f"{host} is fetched again.")


@page.post("delay")
async def delay(view: View) -> Response:
    host, text = host_named(view.form["host"]), view.form["seconds"].strip()
    seconds = _seconds(text) if text else None
    await view.connection.frontier.set_delay(host, seconds)
    if seconds is None:
        return view.done(f"{host} has no delay of its own any more, in no crawl.")
    return view.done(f"At least {seconds:g} s are between two requests to {host}, in all crawls.")


@page.post("limit")
async def limit(view: View) -> Response:
    host, frontier = host_named(view.form["host"]), view.connection.frontier
    changes = {name: _limit(view.form[name], name) for name in ("pages", "bytes", "depth")}
    await frontier.limit(host, replace((await frontier.host(host)).limits, **changes))
    limits = ", ".join(f"{name} {most:,}" for name, most in changes.items() if most is not None)
    return view.done(
        f"The limits of {host} are: {limits}." if limits else f"{host} has no limits of its own."
    )


@page.post("rule")
async def rule(view: View) -> Response:
    host, name, turn = host_named(view.form["host"]), view.form["rule"], view.form["turn"]
    if turn not in ("on", "off"):
        raise StoreError(f"{turn!r} is neither on nor off")
    chosen = {"on": [name] if turn == "on" else [], "off": [name] if turn == "off" else []}
    await switch_rules(view.connection.crawl, host, **chosen)
    return view.done(f"The rule {name} is switched {turn} for {host}.")


async def _robots(view: View, host: str) -> tuple[StoredRobots | None, str]:
    """Returns the robots.txt of a host, and the reason if a damaged robots.txt cannot be read."""
    try:
        return await stored_robots(view.connection.engine, view.connection.keys, host), ""
    except StoreError as error:
        return None, str(error)


async def _letters(view: View, host: str) -> Reasons | None:
    """Returns the dead letters of a host by reason; None while a store with dead letters is unavailable."""
    connection = view.connection
    try:
        return await CrawlDeadLetters(connection.frontier, connection.tails).by_reason(
            host, most=_MOST_LETTERS
        )
    except StoreError:
        return None


def _stored(metadata: Metadata, host: str) -> dict[str, int]:
    """Returns the numbers of a host's first stored pages by the outcome of their latest attempt."""
    rows = islice(metadata.scan(host), _MOST_STORED)
    outcomes = Counter(
        f"{row['status']}"
        if row["status"] and not row["error"]
        else without_class(row["error"] or "no answer")
        for row in rows
    )
    return dict(outcomes.most_common())


def _host_in(text: str) -> str:
    """Returns the host in a text such as a URL; "" for a text without a host."""
    try:
        return host_named(text) if "://" in text else ""
    except CrawlError:
        return ""


def _limit(text: str, name: str) -> int | None:
    return whole(text.strip().replace(",", ""), name) if text.strip() else None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _MOST_DELAY:
        raise StoreError(
            f"{text!r} must be a number of seconds from 0 to {_MOST_DELAY:,}; leave it empty to remove it"
        )
    return seconds


def reported_paces(vitals: Iterable[Vitals | None]) -> dict[str, Pace]:
    """Returns the paces by host that workers have reported with their last heartbeats, for some leased hosts."""
    return {host: pace for worker in vitals if worker for host, pace in worker.paces.items()}


def paces(rows: Sequence[HostRow], known: Mapping[str, Pace]) -> dict[str, Pace]:
    """Returns the pace of each row by host. `known`: the paces that workers report."""
    return {row.host: known[row.host] if row.leased and row.host in known else kept(row) for row in rows}


def kept(row: HostRow) -> Pace:
    """Returns the pace of a host as the engine stores it, without its last worker's reasons for the gap."""
    by_operator = row.delay is not None and row.delay >= row.gap
    waits = "Retry-After" if row.asked else "back-off" if row.failures else "gap"
    gap, gap_by = (row.delay or 0.0, "operator") if by_operator else (row.gap, "")
    return Pace(gap, gap_by, row.waits, waits if row.waits else "", row.failures)
