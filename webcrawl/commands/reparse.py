"""`scrapy reparse SPIDER`: runs archived pages through spider and pipelines again, without sending requests."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scrapy.addons import AddonManager
from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from webcrawl.commands.workers import given, run_all
from webcrawl.config import read
from webcrawl.config.private_files import keep_private
from webcrawl.config.program import as_typed, program
from webcrawl.crawler.command import add_crawl
from webcrawl.crawler.crawl_options import own_options
from webcrawl.crawler.crawl_settings import crawl_settings
from webcrawl.documents.values import counted
from webcrawl.errors import ConfigurationError, CrawlError, StoreError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

    from webcrawl.opened import OpenedCrawl
    from webcrawl.reparse.plan import Plan
    from webcrawl.stores.reread_rows import RereadRows

_SHOWN = 10
_FINISHED_BEFORE = "Nothing was read: this command was finished before with the same settings."


class Command(BaseRunSpiderCommand):
    """Chooses the pages, starts the processes, and prints a summary.

    Exit status: 2 when an option or setting is wrong, 1 when pages are left.
    """

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return "[options] <spider>"

    def short_desc(self) -> str:
        return "Run archived pages through spider and pipelines again"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add_crawl(parser)
        parser.add_argument("--mime-type", help="only these, such as text/html or image/*,text/css")
        parser.add_argument("--pipeline", help="only pages that this pipeline reads, such as PdfPipeline")
        parser.add_argument("--since", help="only pages fetched at or after this date, such as 2026-02-03")
        parser.add_argument("--where", help="only rows of table pages with this condition in SQL")
        parser.add_argument(
            "--callback", help="method of the spider that gets the responses, instead of parse"
        )
        parser.add_argument("--processes", type=int, default=1, help="number of processes, by default 1")
        parser.add_argument("--dry-run", action="store_true", help="only print how many pages there are")
        parser.add_argument("--again", action="store_true", help="begin anew, also if it was finished")
        parser.add_argument("--json", action="store_true", help="print the summary as JSON")

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        if opts.crawl is not None:
            opts.set = [*opts.set, f"CRAWL_ID={opts.crawl}"]
        super().process_options(args, opts)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1 or opts.processes < 1:
            raise UsageError("give one spider, and at least one process", print_help=False)
        try:
            self.exitcode = self._reparse(args[0], opts)
        except CrawlError as error:
            print(f"{program()} reparse: {as_typed(error)}", file=sys.stderr)
            self.exitcode = 2 if isinstance(error, ConfigurationError) else 1

    def _reparse(self, spider: str, opts: argparse.Namespace) -> int:
        from webcrawl.opened import OpenedCrawl
        from webcrawl.reparse.options import command_mark, conditions
        from webcrawl.reparse.plan import open_plan
        from webcrawl.reparse.settings import reparse_settings

        assert self.settings is not None
        AddonManager.load_pre_crawler_settings(self.settings)
        loader = get_spider_loader(self.settings)
        settings = crawl_settings(loader, self.settings, spider)
        changes, where = reparse_settings(settings), conditions(opts, settings)
        if opts.callback and not callable(getattr(loader.load(spider), opts.callback, None)):
            raise ConfigurationError(f"--callback: spider {spider!r} has no method {opts.callback!r}")
        opened = OpenedCrawl(settings, spider)
        keep_private(opened.stores.data_dir, opened)
        with ExitStack() as stack:
            rows = _rows(opened, stack, alone=not opts.dry_run)
            chosen = rows.count(where)
            if not any(chosen.values()):
                _check_crawl(rows, opened)
            if opts.dry_run:
                print(json.dumps(chosen) if opts.json else _choice(chosen))
                return 0
            mark = command_mark(spider, opts, settings)
            plan = stack.enter_context(open_plan(opened.stores.data_dir, mark, again=opts.again))
            if plan.finished_at is not None:
                print(_FINISHED_BEFORE, file=sys.stderr)
                _conclude(plan, settings, opts)
                return 0
            if not plan.is_made:
                plan.make(rows.locations(where), chosen, opts.callback)
            plan.begin()
            code = self._work(plan, settings, changes, spider, opts)
            if not plan.left():
                _finish(plan, rows, opened, settings)
            _conclude(plan, settings, opts)
            return code or int(plan.finished_at is None)

    def _work(
        self,
        plan: Plan,
        settings: BaseSettings,
        changes: Mapping[str, object],
        spider: str,
        opts: argparse.Namespace,
    ) -> int:
        """Runs the processes until no page is left or they are stopped; returns their exit status."""
        from webcrawl.reparse.settings import PLAN

        words = [
            word
            for name, value in {**changes, PLAN: str(plan.path)}.items()
            for word in _setting(name, value)
        ]
        common = [sys.executable, "-m", "scrapy", "crawl", spider, "--stop-at-eof", *given(opts), *words]
        numbers = range(opts.processes) if opts.processes > 1 else [None]
        commands = [common + own_options(settings, number) for number in numbers]
        logs = plan.path.parent.parent / "logs"
        logs.mkdir(parents=True, exist_ok=True)

        async def run() -> int:
            showing = asyncio.create_task(_show(plan, settings))
            code = await run_all(commands, logs)
            showing.cancel()
            return code

        return asyncio.run(run())


def _rows(opened: OpenedCrawl, stack: ExitStack, *, alone: bool) -> RereadRows:
    """Returns the rows of the crawl; if `alone`, keeps other reparses out of the folder."""
    from webcrawl.reparse.plan import locked
    from webcrawl.stores.metadata import Metadata
    from webcrawl.stores.reread_rows import RereadRows

    uri = _database(opened)
    if alone:
        stack.enter_context(locked(opened.stores.data_dir))
    # only after the lock, because this writes to the database, which another reparse may use
    Metadata(uri, history=opened.stores.history).close()
    return stack.enter_context(closing(RereadRows(uri, opened.connection.keys.crawl)))


def _database(opened: OpenedCrawl) -> str:
    """Returns the URI of the metadata database; raises StoreError if the database does not exist."""
    uri = opened.stores.metadata
    if (metadata := opened.metadata_if_any()) is None:
        raise StoreError(f"nothing was stored yet: there is no {uri.partition(':///')[2]}")
    metadata.close()
    return uri


def _check_crawl(rows: Any, opened: OpenedCrawl) -> None:
    """Raises ConfigurationError if the database has no page of this crawl."""
    crawl, crawls = opened.connection.keys.crawl, rows.crawls()
    if crawl not in crawls:
        raise ConfigurationError(
            f"the database has no page of crawl {crawl!r}, but of {', '.join(crawls) or 'none'}: "
            "set CRAWL_ID to read the pages of one of them"
        )


def _setting(name: str, value: object) -> list[str]:
    return ["-s", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]


async def _show(plan: Plan, settings: BaseSettings) -> None:
    """Prints a line with the progress from time to time."""
    if read(settings, "PROGRESS") == "off":
        return
    before = plan.counts().get("done", 0)
    interval, pages = read(settings, "PROGRESS_INTERVAL"), plan.chosen["pages"]
    while True:
        await asyncio.sleep(interval)
        with suppress(StoreError):  # the processes report this error
            done = plan.counts().get("done", 0)
            print(
                f"{done:,} of {pages:,} responses ({(done - before) / interval:.1f}/s)",
                file=sys.stderr,
                flush=True,
            )
            before = done


def _finish(plan: Plan, rows: Any, opened: OpenedCrawl, settings: BaseSettings) -> None:
    """Marks near-duplicates again if texts have changed, removes earlier links and texts, and records the end."""
    from collections import Counter

    from webcrawl.reparse.near_duplicates import ChangedTexts, mark_again
    from webcrawl.reparse.superseded import leave_out

    crawl = opened.connection.keys.crawl
    with ChangedTexts(plan.path.parent, crawl) as changed:
        urls = changed.urls()
        marks = mark_again(rows, urls, read(settings, "SIMHASH_DISTANCE"))
        plan.settle({}, {}, Counter(texts_changed=len(urls), marks_changed=marks))
        changed.clear()
    leave_out(opened.stores, crawl, plan.readings)
    plan.finish(datetime.now(UTC).isoformat(timespec="seconds"))


def _conclude(plan: Plan, settings: BaseSettings, opts: argparse.Namespace) -> None:
    """Prints the summary, to standard error if items go to standard output."""
    from webcrawl.reparse.plan import facts_of

    facts = facts_of(plan)
    out = (
        sys.stderr if any(str(uri).startswith("stdout:") for uri in settings.getdict("FEEDS")) else sys.stdout
    )
    print(json.dumps(facts, indent=2) if opts.json else "\n".join(map(printable, _lines(facts))), file=out)


def _choice(chosen: Mapping[str, int]) -> str:
    return (
        f"{counted(chosen['pages'], 'response')} to read again; left out: {chosen['not_archived']:,} whose body is not "
        f"archived (noarchive, noindex, DEPTH_OF_COPY), {chosen['no_response']:,} without a response of their own"
    )


def _lines(facts: Mapping[str, Any]) -> list[str]:
    counts = facts["counts"]
    lines = [
        _choice(facts),
        f"{counted(facts['rows'], 'row')} written, {counted(facts['texts_changed'], 'text')} changed, "
        f"{facts['marks_changed']:,} near-duplicates marked anew",
        f"Not followed: {counted(counts.get('links', 0), 'link')}, {counted(counts.get('requests', 0), 'request')}",
    ]
    lines += [
        f"{number:,} {name.partition('.')[2]}" for name, number in counts.items() if name.startswith("items.")
    ]
    if facts["failed"]:
        lines.append(f"{counted(facts['failed'], 'response')} could not be read:")
        lines += [f"  {url}: {reason}" for url, reason in list(facts["failures"].items())[:_SHOWN]]
    if facts["finished_at"]:
        lines.append(f"Finished at {facts['finished_at']}; --again begins anew.")
    else:
        lines.append(f"{counted(facts['left'], 'response')} left: the same command goes on.")
    return lines
