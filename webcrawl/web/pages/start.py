"""The form that starts a crawl, or stores or changes a job. First it shows the command and YAML that do the same."""

from __future__ import annotations

import asyncio
import hashlib
import json
from datetime import UTC, datetime

from starlette.responses import Response

from webcrawl.config import StoreConfig
from webcrawl.errors import NoSuchPage, StoreError
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Job, JobState
from webcrawl.web.crawl_form import LABELS, CrawlForm
from webcrawl.web.crawl_settings import LIMITS, MORE
from webcrawl.web.job_store import job_store, metadata_uri
from webcrawl.web.page import DashboardPage, View
from webcrawl.web.starter import has_begun, state_of

page = DashboardPage("start", "Start", of_crawl=False, for_operators=True)

_START_SECONDS = 30.0
_WRONG = 422


@page.get()
async def new(view: View) -> Response:
    return await _form(view, CrawlForm.of({"spider": "broad"}))


@page.get("jobs/{job}")
async def edit(view: View) -> Response:
    job = await _job(view, view.request.path_params["job"])
    return await _form(view, CrawlForm.of_job(job.definition, _version(job)))


@page.post("check")
async def check(view: View) -> Response:
    """Returns the page that shows what starts, or the form with its problems."""
    form = await _checked(view)
    if form.problems:
        return await _form(view, form, _WRONG)
    assert form.definition is not None
    following = form.definition.schedule.after(datetime.now(UTC)) if form.is_job else None
    return view.render(
        "start_review.html",
        form=form,
        command=view.site.starter.command(form.crawl, form.definition),
        folder=view.site.starter.folder,
        known=None if form.is_job else await state_of(view.crawls, form.crawl),
        following=following,
    )


@page.post("change")
async def change(view: View) -> Response:
    return await _form(view, CrawlForm.of(view.form, await _base(view)))


@page.post("run")
async def run(view: View) -> Response:
    """Starts a crawl, and shows it as soon as the engine knows it."""
    form, starter = await _checked(view), view.site.starter
    if not form.problems and form.definition is not None:
        try:
            await asyncio.to_thread(starter.start, form.crawl, form.definition)
            if await has_begun(view.crawls, starter, form.crawl, _START_SECONDS):
                return view.done(f"Crawl {form.crawl} has started.", f"/crawls/{form.crawl}")
        except StoreError as error:
            form.add("", str(error))
        else:
            failure = await asyncio.to_thread(starter.failure, form.crawl)
            if not failure:
                return view.done(f"Crawl {form.crawl} is starting. It appears here when it has begun.", "/")
            form.add("", failure)
    return await _form(view, form, _WRONG)


@page.post("save")
async def save(view: View) -> Response:
    """Stores a new or changed job."""
    form = await _checked(view)
    if form.problems or form.definition is None:
        return await _form(view, form, _WRONG)
    uri = StoreConfig.from_settings(view.settings).metadata
    now, name = datetime.now(UTC), form.definition.name
    await asyncio.to_thread(lambda: job_store(uri).apply([form.values], now))
    what = "changed" if form.fields["job"] else "stored"
    return view.done(f"Job {name} is {what}. A running scheduler starts it when it is due.", f"/jobs/{name}")


async def _form(view: View, form: CrawlForm, status: int = 200) -> Response:
    spiders = await asyncio.to_thread(view.site.starter.spiders)
    defaults = {field.name: field.default(view.settings) for field in (*LIMITS, *MORE)}
    return view.render(
        "start.html",
        status,
        form=form,
        spiders=spiders,
        limits=LIMITS,
        more=MORE,
        defaults=defaults,
        problems=form.problems,
        labels=LABELS,
    )


async def _checked(view: View) -> CrawlForm:
    """Returns the form that the browser has sent, with all problems that are known before the start."""
    form = CrawlForm.of(view.form, await _base(view))
    await asyncio.to_thread(form.check, view.site.starter.check)
    if not form.is_job:
        if view.site.starter.is_running(form.crawl) or await state_of(view.crawls, form.crawl, alive=True):
            form.add("crawl", f"crawl {form.crawl!r} is running: name another one, or stop it first")
    elif not form.fields["job"] and await asyncio.to_thread(_exists, view, form.values["name"]):
        form.add("name", f"there is a job {form.values['name']!r}: edit it, or name another one")
    elif form.fields["job"] and form.fields["version"] != _version(await _job(view, form.fields["job"])):
        form.add("", "the job was changed meanwhile: open its form again")
    return form


async def _base(view: View) -> dict[str, object]:
    """Returns the definition of the job that the form edits, with the state that operators have given it."""
    if not view.form.get("job"):
        return {}
    job = await _job(view, view.form["job"])
    definition = dict(job.definition)
    return definition | {"state": str(JobState(job.state))} if "state" in definition else definition


async def _job(view: View, name: str) -> Job:
    uri = metadata_uri(view.settings)
    if uri is None:
        raise NoSuchPage(f"there is no job {name!r}")
    job = await asyncio.to_thread(job_store(uri).job, name)
    Definition.of(job.definition)  # a newer version may have stored it
    return job


def _exists(view: View, name: str) -> bool:
    uri = metadata_uri(view.settings)
    return uri is not None and name in (job.name for job in job_store(uri).jobs())


def _version(job: Job) -> str:
    """Returns what changes with the definition of a job."""
    return hashlib.sha256(json.dumps(job.definition, sort_keys=True, default=str).encode()).hexdigest()[:16]
