"""The page of jobs: schedules, iterations with their progress, past results, and stuck pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from scrapy.settings import Settings
from starlette.responses import Response

from webcrawl.alarms.stuck import StuckPage, StuckPages
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import NoSuchPage
from webcrawl.jobs.records import ACTIVE, Iteration, Job, JobState
from webcrawl.web.job_store import HISTORY, Shown, job_store, metadata_uri, shown_job, shown_jobs, with_job
from webcrawl.web.page import DashboardPage, View

page = DashboardPage("jobs", "Jobs", of_crawl=False)
_STUCK = 100


@page.get()
async def show(view: View) -> Response:
    jobs = await asyncio.to_thread(shown_jobs, metadata_uri(view.settings))
    return view.render("jobs.html", jobs=jobs, shown=_shown(jobs), crawls=await crawls_here(view))


@page.live("jobs")
async def parts(view: View) -> Mapping[str, str]:
    jobs = await asyncio.to_thread(shown_jobs, metadata_uri(view.settings))
    crawls = await crawls_here(view)
    cards = {
        f"job-{listed.job.name}": view.fragment("job_card.html", listed=listed, crawls=crawls)
        for listed in jobs
    }
    return cards | {"@shown": _shown(jobs)}


@page.get("{job}")
async def history(view: View) -> Response:
    name, uri = view.request.path_params["job"], metadata_uri(view.settings)
    listed, jobs = await asyncio.to_thread(lambda: (shown_job(uri, name), shown_jobs(uri)))
    return view.render("job.html", listed=listed, shown=_shown(jobs), crawls=await crawls_here(view))


@page.get("{job}/stuck")
async def stuck(view: View) -> Response:
    """Returns the page with the stuck pages of an iteration."""
    listed, iteration = await iteration_of(view)
    uri = metadata_uri(settings_of(view, listed.job, iteration))
    pages = await asyncio.to_thread(_stuck, uri, iteration.crawl, view.query)
    known = iteration.crawl in await crawls_here(view)
    return view.render(
        "job_stuck.html",
        listed=listed,
        iteration=iteration,
        pages=pages,
        known=known,
        more=len(pages) == _STUCK,
    )


@page.post("{job}/run")
async def run(view: View) -> Response:
    name = view.request.path_params["job"]
    await _change(view, lambda store, now: store.run(name, now))
    return view.done(f"Job {name}: an iteration starts as soon as a scheduler has room.")


@page.post("{job}/pause")
async def pause(view: View) -> Response:
    return await _switch(view, JobState.PAUSED, "is paused; an iteration that runs goes on")


@page.post("{job}/resume")
async def resume(view: View) -> Response:
    return await _switch(view, JobState.ON, "is on")


@page.post("{job}/off")
async def off(view: View) -> Response:
    return await _switch(view, JobState.OFF, "is off; an iteration that runs is stopped")


async def iteration_of(view: View) -> tuple[Shown, Iteration]:
    """Returns the job in the address and the iteration of the query; raises NoSuchPage."""
    listed = await asyncio.to_thread(shown_job, metadata_uri(view.settings), view.request.path_params["job"])
    number = view.query.get("iteration", "")
    iteration = next((each for each in listed.iterations if str(each.number) == number), None)
    if iteration is None:
        raise NoSuchPage(f"job {listed.job.name!r} has no iteration {number!r} among its latest {HISTORY}")
    return listed, iteration


def _shown(jobs: list[Shown]) -> str:
    """Returns the states of the jobs and of their latest iterations, on which the cards and buttons depend."""
    return json.dumps(
        [
            (listed.job.name, listed.job.state, [(each.number, each.state) for each in _telling(listed)])
            for listed in jobs
        ]
    )


def _telling(listed: Shown) -> list[Iteration]:
    """Returns the iterations that determine a card: the newest, and all that have not ended."""
    return [each for each in listed.iterations if each is listed.iterations[0] or each.state in ACTIVE]


async def crawls_here(view: View) -> list[str]:
    """Returns the crawls with pages in this dashboard; no crawls while the engine is unavailable."""
    try:
        return await view.crawls.names()
    except UNAVAILABLE:
        return []


async def _switch(view: View, state: JobState, what: str) -> Response:
    name = view.request.path_params["job"]
    await _change(view, lambda store, now: store.set_state(name, state, now))
    return view.done(f"Job {name} {what}.")


async def _change(view: View, work: Any) -> None:
    uri = metadata_uri(view.settings)
    if uri is None:
        raise NoSuchPage("there is no job yet")
    await asyncio.to_thread(work, job_store(uri), datetime.now(UTC))


def settings_of(view: View, job: Job, iteration: Iteration) -> Settings:
    """Returns the settings that locate the stores of an iteration."""
    return with_job(view.crawls.settings_of(iteration.crawl), job, iteration)


def _stuck(uri: str | None, crawl: str, query: Mapping[str, str]) -> list[StuckPage]:
    if uri is None:
        return []
    with StuckPages(uri) as stuck:
        after = None
        if "after" in query:
            now = datetime.now(UTC)
            after = StuckPage(crawl, query["after"], query.get("kind", "DOCUMENT"), "", now, now)  # type: ignore[arg-type]
        return stuck.pages(crawl, after, _STUCK)
