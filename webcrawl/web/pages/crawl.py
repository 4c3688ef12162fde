"""The page of a crawl: figures, plots, hosts, workers, stores and settings, with pause, resume and stop."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from sqlalchemy.engine import make_url
from starlette.responses import Response

from webcrawl.config import read
from webcrawl.config.passwords import without_password, without_secret_options
from webcrawl.config.stores import StoreConfig
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import LIVE_CRAWL
from webcrawl.frontier import Crawl
from webcrawl.frontier.crawl import Runs
from webcrawl.frontier.gauges import ready_hosts
from webcrawl.frontier.history import FigureSample, History
from webcrawl.frontier.host_table import HostRow, HostTable
from webcrawl.hosts.costs import Cost, Load
from webcrawl.hosts.politeness import Pace
from webcrawl.live.lane import LaneFigures, lane_figures
from webcrawl.opened import Connection
from webcrawl.web.crawl_form import CrawlForm
from webcrawl.web.outlook import crawl_end, outlook
from webcrawl.web.overview import Overview, overview
from webcrawl.web.page import DashboardPage, View
from webcrawl.web.pages.hosts import paces, reported_paces
from webcrawl.web.pages.stored import latest_pages

page = DashboardPage("", "Overview")
_MOST_HOSTS = 10
_MOST_TYPES = 12
_RATE_SECONDS = 30.0
"""The time over which the rate of answers of the live lane is measured."""
_Readings: TypeAlias = deque[tuple[float, int]]
_readings: WeakKeyDictionary[Engine, _Readings] = WeakKeyDictionary()
"""The times of the last readings, and the answers until then. The engine has no rates."""


@page.get()
async def show(view: View) -> Response:
    values = await _values(view)
    stores = await asyncio.to_thread(stores_of, view.opened.stores)
    run = await Runs(view.connection.engine, view.connection.keys).latest()
    return view.render(
        "crawl.html",
        stores=stores,
        run=run,
        again=CrawlForm.of_run(view.crawl, run),
        longest=await _longest_queues(view),
        latest=await latest_pages(view),
        **values,
    )


@page.live("crawl")
async def parts(view: View) -> Mapping[str, str]:
    values = await _values(view)
    current = values["overview"]
    names = ["state", "outlook", "figures", "breakdown", "hosts", "workers"]
    if values["lane"]:
        names.append("lane")
    if current.is_alive:
        names.append("latest")
        values["latest"] = await latest_pages(view)
    fragments = {name: view.fragment(f"crawl_{name}.html", **values) for name in names}
    return fragments | (
        {"@points": json.dumps({view.crawl: asdict(current.now)})} if current.is_alive else {}
    )


@page.get("history")
async def history(view: View) -> Response:
    """Returns the samples of the last hour, or of the whole crawl."""
    kept = History(view.connection.engine, view.connection.keys)
    samples = await (kept.whole() if view.query.get("span") == "whole" else kept.hour())
    return Response(_columns(samples), media_type="application/json")


@page.post("pause")
async def pause(view: View) -> Response:
    await view.connection.crawl.pause()
    return view.done(f"Crawl {view.crawl} is paused: its workers complete their running requests, then wait.")


@page.post("resume")
async def resume(view: View) -> Response:
    await view.connection.crawl.resume()
    return view.done(f"Crawl {view.crawl} goes on.")


@page.post("stop")
async def stop(view: View) -> Response:
    workers = await view.connection.crawl.workers.count_alive()
    if not workers:
        return view.done(f"Crawl {view.crawl} is not running.")
    await view.connection.crawl.workers.stop()
    return view.done(f"Crawl {view.crawl} stops: its workers complete their running requests, then end.")


async def _values(view: View) -> dict[str, Any]:
    crawl = view.connection.crawl
    current = await overview(crawl, view.connection.frontier)
    loads, costs = await asyncio.gather(
        crawl.costs.loads(list(current.vitals)), crawl.costs.costliest(_MOST_HOSTS)
    )
    levels = await ready_hosts(crawl.engine, crawl.keys)
    used, slow = busiest(loads, costs), slowest(current)
    known = await _paces(crawl, current, {host for host, _, _ in used} | {host for host, _ in slow})
    waiting = sorted((host for host in known if known[host].wait), key=lambda host: -known[host].wait)
    return {
        "overview": current,
        "lane": await shown_lane(view.connection, view.settings),
        "levels": levels,
        "types": list(current.figures.types.items())[:_MOST_TYPES],
        "busiest": used,
        "slowest": slow,
        "paces": known,
        "waiting": waiting[:_MOST_HOSTS],
        "outlook": await outlook(crawl, view.connection.frontier, current) if current.is_alive else None,
        "servers": await crawl.loads.read(crawl.keys),
        "end": None if current.is_alive else await crawl_end(crawl, current),
    }


async def _longest_queues(view: View) -> list[HostRow]:
    """Returns the hosts with the longest queues: of a large crawl, those among the first thousand."""
    table = HostTable(view.connection.crawl)
    rows = (await table.window("long")).rows or (await table.window("queued")).rows
    return sorted(rows, key=lambda row: (-row.queued, row.host))[:_MOST_HOSTS]


async def _paces(crawl: Crawl, current: Overview, hosts: Set[str]) -> dict[str, Pace]:
    """Returns the paces of these hosts, of the hosts that wait longest, and of all hosts that workers report."""
    known, table = reported_paces(current.vitals.values()), HostTable(crawl)
    others = {*hosts, *await table.waiting(_MOST_HOSTS)} - known.keys()
    return known | paces(await table.rows(sorted(others)), known)


def busiest(loads: Mapping[str, Load], costs: Mapping[str, Cost]) -> list[tuple[str, Load, Cost | None]]:
    """Returns the hosts with the highest current load, then the hosts with the highest cost so far."""
    using = {host: load for host, load in loads.items() if "://" in host}
    used = sorted(using, key=lambda host: (-using[host].connections - using[host].unfinished, host))
    hosts = list(dict.fromkeys([*used, *costs]))[:_MOST_HOSTS]
    return [(host, using.get(host, Load()), costs.get(host)) for host in hosts]


def slowest(current: Overview) -> list[tuple[str, float]]:
    """Returns the hosts whose last responses took longest, with the seconds."""
    slowest_answers: dict[str, float] = {}
    for vitals in current.vitals.values():
        for host, seconds in vitals.slowest if vitals else ():
            slowest_answers[host] = max(seconds, slowest_answers.get(host, 0.0))
    return sorted(slowest_answers.items(), key=lambda pair: -pair[1])[:_MOST_HOSTS]


@dataclass(frozen=True)
class Stores:
    """The stores of a crawl, as this machine sees them: addresses without passwords, and sizes in bytes."""

    pages: str
    metadata: str
    data_dir: str
    free: int | None
    """The free bytes on the disk of DATA_DIR; None if it is not on this machine."""
    spooled: int
    """The bytes that wait for their upload from this machine."""


def stores_of(config: StoreConfig) -> Stores:
    """Returns the stores in the settings, with their current sizes."""
    metadata = make_url(config.metadata).render_as_string(hide_password=True)
    return Stores(
        without_password(config.pages),
        without_secret_options(metadata),
        str(config.data_dir),
        shutil.disk_usage(config.data_dir).free if config.data_dir.exists() else None,
        sum(_sizes(config.data_dir / "spool")),
    )


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        with suppress(OSError):  # uploaded and deleted meanwhile
            if path.is_file():
                yield path.stat().st_size


def _columns(samples: Sequence[FigureSample]) -> str:
    """Returns samples as JSON: a list for each figure, by name."""
    return json.dumps(
        {field.name: [getattr(sample, field.name) for sample in samples] for field in fields(FigureSample)}
    )


@dataclass(frozen=True, slots=True)
class ShownLane:
    """The figures, and answers a second; None until the page was read twice."""

    figures: LaneFigures
    rate: float | None


async def shown_lane(connection: Connection, settings: Any) -> ShownLane | None:
    """Returns the lane if the crawl is that of the live lane. Raises the errors of UNAVAILABLE."""
    if connection.keys.crawl != LIVE_CRAWL:
        return None
    totals = await connection.crawl.totals()
    figures = await lane_figures(connection.engine, totals, read(settings, "LIVE_STREAM"))
    return ShownLane(figures, _rate(connection.engine, figures.answered))


def _rate(engine: Engine, answered: int) -> float | None:
    now = time.monotonic()
    readings = _readings.setdefault(engine, deque())
    readings.append((now, answered))
    while now - readings[0][0] > _RATE_SECONDS and len(readings) > 2:
        readings.popleft()
    (since, before), *_ = readings
    # a lane that was cleared begins again
    return max(0, answered - before) / (now - since) if now - since >= 1.0 else None
