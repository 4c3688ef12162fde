"""`scrapy jobs`: defines crawls that run on a schedule, and shows their results."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from scrapy.exceptions import UsageError

from webcrawl.config.program import as_typed, program
from webcrawl.crawler.command import StoresCommand, command_name, flag, option, table
from webcrawl.crawler.report.summary_text import iteration_reason
from webcrawl.documents.values import counted, shown_time
from webcrawl.errors import CrawlError, StoreError

if TYPE_CHECKING:
    from webcrawl.jobs.files import JobFile
    from webcrawl.jobs.records import Iteration, Job
    from webcrawl.jobs.store import JobStore
    from webcrawl.opened import OpenedCrawl

_SYNTAX = (
    "apply FILE|FOLDER | list | run | run NAME | pause NAME | resume NAME | off NAME | delete NAME | history NAME | "
    "records NAME | sweep"
)
_WITH_NAME = ("run", "pause", "resume", "off", "delete", "history", "records")
_STATES = ("QUEUED", "CRAWLED", "PROCESSED", "STUCK")
_LIMIT = 20


class Command(StoresCommand):
    """Reads and changes the metadata database. `jobs run` without a name is the scheduler, which does the rest.

    Any number of schedulers may run, on one machine or several. Ctrl-C and SIGTERM stop the workers cleanly; other
    schedulers, or the next scheduler, continue their iterations.
    """

    usage = f"[options] {_SYNTAX}"
    summary = "Define crawls that repeat, and show how they ended"
    description = (
        "Define crawls that run by themselves, switch them, and show how they ended. `jobs run` runs all jobs when "
        "they are due, until Ctrl-C; `jobs run NAME` makes one due now"
    )
    options = (
        flag("--dry-run", "with apply, delete and sweep, only say what would change"),
        flag("--prune", "with apply, delete jobs that are in no file of the folder"),
        flag("--history", "with delete, also delete its history and what its crawls have stored"),
        option(
            "--limit",
            "with history, the number of iterations, by default 20",
            type=int,
            default=_LIMIT,
            metavar="N",
        ),
        option(
            "--iteration",
            "with records, the number of the iteration, by default the latest",
            type=int,
            metavar="N",
        ),
        option(
            "--workers",
            "with run, the worker processes at a time on this machine, by default one for each processor",
            type=int,
            default=os.cpu_count() or 1,
            metavar="N",
        ),
        option("--state", "with records, only URLs in this state", choices=_STATES),
        option("--url", "with records, only this URL"),
        flag("--json", "with list, history and records, print JSON lines"),
    )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args == ["run"]:
            self._run_scheduler(opts)
            return
        self._project = self.settings.copy()
        super().run(args, opts)

    def _run_scheduler(self, opts: argparse.Namespace) -> None:
        from webcrawl.jobs.daemon import run

        if opts.workers < 1:
            raise UsageError("--workers must be at least 1", print_help=False)
        # this command logs, other than those that print
        self.settings.set("LOG_ENABLED", True, priority="command")
        try:
            run(self.settings, [word for setting in opts.set for word in ("-s", setting)], opts.workers)
        except CrawlError as error:
            print(f"{program()} {command_name(self)}: {as_typed(error)}", file=sys.stderr)
            self.exitcode = 2

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.jobs.store import JobStore

        what, named = args[0] if args else "", args[1:]
        wanted = 0 if what in ("list", "sweep") else 1
        if what not in ("apply", "list", "sweep", *_WITH_NAME) or len(named) != wanted or opts.limit < 1:
            raise UsageError(_wrong(what, named, opts.limit), print_help=False)
        if what == "apply":
            files = self._read(Path(named[0]))
            if opts.prune and not Path(named[0]).is_dir():
                raise UsageError("--prune needs a folder with all jobs", print_help=False)
        with JobStore(opened.stores.metadata) as store:
            if what == "apply":
                _apply(store, files, dry_run=opts.dry_run)
                if Path(named[0]).is_dir():
                    _tell_others(store, files, opts)
            elif what == "delete":
                await self._delete(store, named[0], opts)
            elif what == "records":
                await self._records(store, named[0], opts)
            elif what == "sweep":
                await self._sweep(store, dry_run=opts.dry_run)
            elif what == "list":
                _list(store, as_json=opts.json)
            elif what == "history":
                _history(store, named[0], opts)
            else:
                _change(store, what, named[0])

    def _read(self, path: Path) -> list[JobFile]:
        """Returns the checked jobs of a file or folder; raises ConfigurationError."""
        from webcrawl.jobs.crawls import JobCrawls
        from webcrawl.jobs.files import read_jobs

        return read_jobs(path, JobCrawls(self._project).check)

    async def _records(self, store: JobStore, name: str, opts: argparse.Namespace) -> None:
        """Prints the records of an iteration's URLs, or of one URL."""
        from webcrawl.jobs.crawls import JobCrawls
        from webcrawl.jobs.definition import Definition
        from webcrawl.jobs.listed_records import print_record, print_records, record_sources

        iteration = store.numbered(name, opts.iteration)
        if name not in (job.name for job in store.jobs()):
            how = f"scrapy urls -d {iteration.data_dir} --crawl {iteration.crawl}"
            raise StoreError(f"job {name!r} was deleted; the URLs of its crawl are listed by: {how}")
        definition = Definition.of(store.job(name).definition)
        machine = socket.gethostname()
        async with record_sources(JobCrawls(self._project), definition, iteration, machine) as sources:
            if opts.url:
                await print_record(sources, opts.url, as_json=opts.json)
            else:
                await print_records(sources, opts.state, as_json=opts.json)

    async def _delete(self, store: JobStore, name: str, opts: argparse.Namespace) -> None:
        """Deletes a job, and with --history also its history and stored data."""
        from webcrawl.jobs.crawls import JobCrawls
        from webcrawl.jobs.definition import Definition
        from webcrawl.jobs.records import JobState
        from webcrawl.jobs.retention import Retention

        if opts.history and name not in (job.name for job in store.jobs()) and store.iterations(name, 1):
            raise StoreError(
                f"job {name!r} was deleted, and its history kept. Its file says where its crawls have stored: apply it "
                "again, and repeat this command"
            )
        definition, now = Definition.of(store.job(name).definition), datetime.now(UTC)
        if opts.history and not opts.dry_run:
            store.set_state(name, JobState.OFF, now)
            store.check_idle(name)
            await Retention(store, JobCrawls(self._project), socket.gethostname()).delete_all(definition, now)
            store.forget(name)
        if not opts.dry_run:
            store.delete(name, now)
        rest = "with its history and what its crawls have stored" if opts.history else "its history is kept"
        print(f"{name} {'would be' if opts.dry_run else 'is'} deleted, {rest}.")

    async def _sweep(self, store: JobStore, *, dry_run: bool) -> None:
        """Deletes iterations that jobs no longer keep, as a scheduler does once a minute."""
        from webcrawl.jobs.crawls import JobCrawls
        from webcrawl.jobs.retention import Retention

        retention, now = Retention(store, JobCrawls(self._project), socket.gethostname()), datetime.now(UTC)
        due = retention.due(now)
        for definition, iteration in due:
            what = retention.described(definition, iteration)
            if not dry_run:
                await retention.delete(definition, iteration, now)
            print(
                f"{'Would delete' if dry_run else 'Deleted'} iteration {iteration.number} of {iteration.job}: {what}"
            )
        rows = 0
        for definition, crawls in retention.untrimmed(now):
            number = await retention.trim(definition, crawls, dry_run=dry_run)
            if number:
                what = f"{counted(number, 'row')} of pages that {definition.name} no longer fetches"
                print(f"{'Would delete' if dry_run else 'Deleted'} {what}")
            rows += number
        if not due and not rows:
            print("There is nothing to delete: each job keeps what its iterations have stored.")


def _wrong(what: str, named: Sequence[str], limit: int) -> str:
    """Returns what is wrong with the arguments."""
    if limit < 1:
        return "--limit must be at least 1"
    if what in _WITH_NAME and not named:
        return f"scrapy jobs {what} needs the name of a job: `scrapy jobs list` lists them"
    if what == "apply" and not named:
        return "scrapy jobs apply needs a file with a job in YAML, or a folder of such files"
    if what in ("apply", "list", "sweep", *_WITH_NAME):
        return f"too many arguments for scrapy jobs {what}"
    return f"there is no scrapy jobs {what}" if what else "say what to do, such as scrapy jobs list"


def _apply(store: JobStore, files: list[JobFile], *, dry_run: bool) -> None:
    known = {job.name for job in store.jobs()}
    definitions = [file.values for file in files]
    changed = store.changes(definitions) if dry_run else store.apply(definitions, datetime.now(UTC))
    for file in files:
        name = file.definition.name
        if name not in changed:
            what = "unchanged"
        elif name in known:
            what = f"{'would change' if dry_run else 'changed'}: {', '.join(changed[name])}"
        else:
            what = "would be new" if dry_run else "new"
        print(f"{name}: {what}")


def _tell_others(store: JobStore, files: list[JobFile], opts: argparse.Namespace) -> None:
    """Deletes the jobs that are in no file, or lists them."""
    names = {file.definition.name for file in files}
    for job in store.jobs():
        if job.name in names:
            continue
        if not opts.prune:
            print(f"{job.name}: {job.state}, but in no file; --prune deletes it")
            continue
        if not opts.dry_run:
            store.delete(job.name, datetime.now(UTC))
        print(f"{job.name}: {'would be deleted' if opts.dry_run else 'deleted'}, its history is kept")


def _list(store: JobStore, *, as_json: bool) -> None:
    jobs, rows = store.jobs(), []
    for job in jobs:
        # the running iteration comes first; later firings may wait or have been skipped
        begun = [iteration for iteration in store.active(job.name) if iteration.started is not None]
        latest = next(iter([*begun, *store.iterations(job.name, 1)]), None)
        if as_json:
            print(json.dumps(_facts(job, latest), default=str))
        rows.append(_job_cells(job, latest))
    if not as_json:
        _print_table(("job", "state", "spider", "next", "latest iteration"), rows)
    hint = "" if jobs else f" Write one into a file, and run: {program()} jobs apply FILE"
    print(f"{counted(len(jobs), 'job')}.{hint}", file=sys.stderr)


def _print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    for line in table(headings, rows, right) if rows else ():
        print(line)


def _history(store: JobStore, name: str, opts: argparse.Namespace) -> None:
    from webcrawl.jobs.records import IterationCounts

    iterations = store.iterations(name, opts.limit)
    if not iterations:
        store.job(name)  # raises StoreError
    if opts.json:
        for iteration in iterations:
            print(json.dumps(_iteration_facts(iteration), default=str))
    else:
        zone = next((_zone(job) for job in store.jobs() if job.name == name), UTC)
        rows = [_iteration_cells(iteration, zone) for iteration in iterations]
        headings = ("iteration", "due", "state", "started", "ended", *IterationCounts._fields, "reason")
        _print_table(headings, rows, right=("iteration", *IterationCounts._fields))
    print(f"{counted(len(iterations), 'iteration')}.", file=sys.stderr)


def _change(store: JobStore, what: str, name: str) -> None:
    from webcrawl.jobs.records import JobState

    now = datetime.now(UTC)
    if what == "run":
        iteration = store.run(name, now)
        print(
            f"Iteration {iteration.number} of {name} is due now: a running `{program()} jobs run` starts it. "
            f"Its crawl is {iteration.crawl}."
        )
        return
    state = {"pause": JobState.PAUSED, "resume": JobState.ON, "off": JobState.OFF}[what]
    before = store.set_state(name, state, now)
    was = f" It was {before.state}." if before.state != state else ""
    print(f"{name} is {state}.{was}")


def _next(job: Job) -> datetime | None:
    """Returns when a job is due next; None while it is not on."""
    from webcrawl.jobs.definition import Definition
    from webcrawl.jobs.records import JobState

    if job.state != JobState.ON:
        return None
    return Definition.of(job.definition).schedule.after(datetime.now(UTC))


def _facts(job: Job, latest: Iteration | None) -> dict[str, Any]:
    return {
        "name": job.name,
        "state": job.state,
        "owner": job.owner,
        "next": _next(job),
        # the URLs of notifications contain passwords
        "definition": {key: value for key, value in job.definition.items() if key != "notify"},
        "latest": None if latest is None else _iteration_facts(latest),
    }


def _iteration_facts(iteration: Iteration) -> dict[str, Any]:
    names = ("job", "number", "crawl", "due", "started", "ended", "state", "reason", "data_dir", "deleted")
    return {name: getattr(iteration, name) for name in names} | iteration.counts._asdict()


def _zone(job: Job) -> tzinfo:
    """Returns the time zone of a job, in which people see its times."""
    from webcrawl.jobs.definition import Definition

    return ZoneInfo(Definition.of(job.definition).schedule.timezone)


def _job_cells(job: Job, latest: Iteration | None) -> list[str]:
    due = _next(job)
    last = f"{latest.number} {_outcome(latest)}" if latest else "none yet"
    return [job.name, job.state, job.definition["spider"], _time(due, _zone(job)) or "does not fire", last]


def _iteration_cells(iteration: Iteration, zone: tzinfo) -> list[str]:
    times = [_time(moment, zone) for moment in (iteration.started, iteration.ended)]
    numbers = [f"{number:,}" if iteration.started else "" for number in iteration.counts]
    due = _time(iteration.due, zone)
    reason = iteration_reason(iteration.reason, iteration.state)
    return [str(iteration.number), due, iteration.state, *times, *numbers, reason]


def _outcome(iteration: Iteration) -> str:
    reason = iteration_reason(iteration.reason, iteration.state)
    return f"{iteration.state}{f' ({reason})' if reason else ''}"


def _time(moment: datetime | None, zone: tzinfo) -> str:
    return shown_time(moment, zone) if moment else ""
