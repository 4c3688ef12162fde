"""The crawl of an iteration: its settings, the commands of its workers, and its figures."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.addons import AddonManager
from scrapy.spiderloader import get_spider_loader

from webcrawl.alarms.targets import Targets
from webcrawl.alarms.watcher import About
from webcrawl.config import (
    EngineConfig,
    StoreConfig,
    check_store_uri,
    data_dir,
    object_stores,
    read,
)
from webcrawl.config.kinds import listed
from webcrawl.crawler.crawl_options import own_options, private_options
from webcrawl.crawler.crawl_settings import crawl_settings
from webcrawl.errors import ConfigurationError, StoreError, WrongJob
from webcrawl.frontier.figures import figures
from webcrawl.jobs.children import Command, read_summary
from webcrawl.jobs.dead_letters import DeadLetterCopies, count_stuck
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.problems import JobProblems
from webcrawl.jobs.records import Iteration, IterationCounts, IterationStatus
from webcrawl.jobs.spider_arguments import check_start
from webcrawl.jobs.watching import Watching
from webcrawl.opened import OpenedCrawl
from webcrawl.stores.objects.store import location

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings, Settings


class JobCrawls:
    """The crawls of iterations in a project with `settings`. `given`: options of the command line."""

    def __init__(self, settings: Settings, given: Sequence[str] = ()) -> None:
        AddonManager.load_pre_crawler_settings(settings)
        self.project = settings
        self._given = _settings(given)
        self._loader = get_spider_loader(settings)
        self._jobs = data_dir(settings).resolve() / "jobs"
        self.shared_engine = EngineConfig.from_settings(settings).url is not None
        """Whether the engine is a server that other machines can reach."""
        self._dead_letters = DeadLetterCopies()

    def spiders(self) -> list[str]:
        """Returns the names of the project's spiders, sorted."""
        return sorted(self._loader.list())

    def check(self, definition: Definition) -> None:
        """Raises WrongJob, which names the entries, for a job that could not run."""
        with JobProblems() as problems:
            with problems.entry():
                if definition.spider in self._loader.list():
                    check_start(self._loader.load(definition.spider), definition)
            self._check_settings(definition)

    def _check_settings(self, definition: Definition) -> None:
        """Raises WrongJob for settings with which no crawl can be created, or that contradict the job."""
        try:
            settings = self.settings(definition)
        except ConfigurationError as error:
            if definition.spider not in self._loader.list():
                raise WrongJob(str(error), "spider") from error
            with JobProblems() as problems:
                for name, value in definition.settings.items():
                    with problems.entry():
                        self._check_setting(definition, name, value)
            named = [name for name in definition.settings if str(error).startswith(name)]
            raise WrongJob(str(error), "settings", *named[:1]) from error
        except (TypeError, ValueError) as error:
            # Scrapy reads dicts and lists of classes unchecked
            wrong = f"has a value that Scrapy cannot read: {error}"
            raise WrongJob(wrong, "settings", *self._unreadable(definition)) from error
        is_bloom = read(settings, "SEEN_SET") == "bloom"
        with JobProblems() as problems:
            with problems.entry():
                if definition.checkpoints:
                    _check_target(definition.checkpoints.to, object_stores(settings))
            with problems.entry():
                if definition.workers > 1 and is_bloom:
                    raise WrongJob('SEEN_SET = "bloom" works with a single worker', "workers")
            with problems.entry():
                if definition.checkpoints and is_bloom:
                    raise WrongJob('a crawl with SEEN_SET = "bloom" has no checkpoints', "checkpoints")
            with problems.entry():
                if definition.nodes and not self.shared_engine:
                    raise WrongJob("nodes need a server that all of them share: set REDIS_URL", "nodes")
            with problems.entry():
                _check_targets(definition, settings)

    def _check_setting(self, definition: Definition, name: str, value: Any) -> None:
        """Raises WrongJob for a setting that is wrong by itself."""
        try:
            self.settings(replace(definition, settings={name: value}))
        except (ConfigurationError, TypeError, ValueError) as error:
            raise WrongJob(str(error), "settings", name) from error

    def _unreadable(self, definition: Definition) -> Iterator[str]:
        """Yields each setting of a job with which no crawl can be created."""
        for name, value in definition.settings.items():
            try:
                self.settings(replace(definition, settings={name: value}))
            except (TypeError, ValueError):
                yield name
                return

    def folder(self, iteration: Iteration) -> Path:
        """Returns the folder of an iteration that starts on this machine."""
        return self.job_folder(iteration.job) / iteration.crawl.removeprefix(f"{iteration.job}-")

    def job_folder(self, job: str) -> Path:
        """Returns the folder of a job on this machine, which has the folders of its iterations."""
        return self._jobs / job

    def shares_pages(self, definition: Definition) -> bool:
        """Returns whether each iteration needs the pages of those before; raises ConfigurationError."""
        return bool(read(self.settings(definition), "REVISIT"))

    def shared_store(self, definition: Definition) -> str | None:
        """Returns the URI of the store whose folder with the job's name has its shared pages; None if it has none."""
        return self._store_uri(definition) if self.shares_pages(definition) else None

    def settings(self, definition: Definition, iteration: Iteration | None = None) -> BaseSettings:
        """Returns the settings of a job's crawl; raises ConfigurationError."""
        settings = self.project.copy()
        for name, value in self._own(definition, iteration):
            settings.set(name, value, priority="cmdline")
        return crawl_settings(self._loader, settings, definition.spider)

    def commands(self, definition: Definition, iteration: Iteration, seeds: Path | None) -> list[Command]:
        """Returns the command of each worker process; raises ConfigurationError."""
        settings = self.settings(definition, iteration)
        arguments = {**definition.arguments, **({"seeds": f"@{seeds}"} if seeds else {})}
        many = definition.workers > 1
        commands = []
        for worker in range(definition.workers):
            files = own_options(settings, worker if many else None)
            own = [*self._given, ("PROGRESS", "off"), *self._own(definition, iteration), *_settings(files)]
            words = [sys.executable, "-m", "scrapy", "crawl", definition.spider, "--stop-at-eof"]
            # CRAWL_ID identifies the crawl of a process in a list of processes
            words += ["-s", f"CRAWL_ID={iteration.crawl}", *files[len(_settings(files)) * 2 :]]
            commands.append(Command(words, private_options(dict(own), arguments)))
        return commands

    def _own(self, definition: Definition, iteration: Iteration | None) -> list[tuple[str, Any]]:
        """Returns the settings of the crawl that differ from those of the project."""
        own = list(definition.settings.items())
        if iteration is not None:
            own += self.of_iteration(definition, iteration)
        return own

    def of_iteration(self, definition: Definition, iteration: Iteration) -> list[tuple[str, Any]]:
        """Returns the settings that are specific to an iteration."""
        own: list[tuple[str, Any]] = [("CRAWL_ID", iteration.crawl)]
        if definition.notify:
            own.append(("NOTIFY", list(definition.notify)))
        if iteration.data_dir:
            own.append(("DATA_DIR", iteration.data_dir))
        if uri := self._store_uri(definition):
            folder = iteration.job if self.shares_pages(definition) else iteration.crawl
            own.append(("STORE_URI", f"{uri}/{folder}"))
        return own

    def _store_uri(self, definition: Definition) -> str | None:
        """Returns the STORE_URI below which the iterations of a job have their folders, or None."""
        uri = dict(definition.settings).get("STORE_URI") or read(self.project, "STORE_URI")
        return str(uri).rstrip("/") if uri else None

    @asynccontextmanager
    async def opened(self, definition: Definition, iteration: Iteration) -> AsyncIterator[OpenedCrawl]:
        """Opens a crawl and connects to its engine; raises StoreError if there is no crawl, and EngineError."""
        async with self.connected(definition, iteration) as opened:
            await opened.check_exists()
            yield opened

    @asynccontextmanager
    async def connected(self, definition: Definition, iteration: Iteration) -> AsyncIterator[OpenedCrawl]:
        """Opens a crawl and connects to its engine; raises StoreError if the crawl has not begun, and EngineError."""
        settings = self.settings(definition, iteration)
        async with OpenedCrawl(settings, definition.spider) as opened:
            if not opened.has_engine:
                raise StoreError(f"crawl {iteration.crawl!r} has not begun")
            await opened.connection.connect()
            yield opened

    def notified_urls(self, definition: Definition) -> list[str]:
        """Returns the Apprise URLs to which notifications about a job are sent; raises ConfigurationError."""
        return list(definition.notify) or list(read(self.settings(definition), "NOTIFY"))

    def page_of(self, definition: Definition) -> str:
        """Returns the address of the dashboard's page of a job; "" if there is no dashboard."""
        dashboard = str(read(self.settings(definition), "DASHBOARD_URL"))
        return f"{dashboard.rstrip('/')}/jobs/{definition.name}" if dashboard else ""

    def metadata(self, definition: Definition, iteration: Iteration) -> str:
        """Returns the URI of the metadata database of a crawl; raises ConfigurationError."""
        return StoreConfig.from_settings(self.settings(definition, iteration)).metadata

    async def look(
        self, definition: Definition, iteration: Iteration, watching: Watching, *, ended: bool
    ) -> IterationStatus:
        """Returns the counts of an iteration from its summary or from the engine; raises StoreError or EngineError.

        A running crawl is also watched.
        """
        if ended:
            await watching.leave(iteration.crawl)
        summary = (
            read_summary(Path(iteration.data_dir), iteration.crawl) if ended and iteration.data_dir else None
        )
        if summary and self._dead_letters.are_copied(iteration.crawl, summary["dead_letters"]):
            stuck = await asyncio.to_thread(
                count_stuck, self.metadata(definition, iteration), iteration.crawl
            )
            return IterationStatus(counts_of(summary, stuck), 0)
        async with self.opened(definition, iteration) as opened:
            crawl = opened.connection.crawl
            now = (await figures(opened.connection.frontier, crawl)).as_dict()
            stuck = await self._dead_letters.copy(opened, now["dead_letters"])
            if not ended:
                settings = self.settings(definition, iteration)
                about = About.of(iteration.crawl, read(settings, "DASHBOARD_URL"))
                await watching.look(opened, about, read(settings, "NOTIFY"))
            return IterationStatus(counts_of(summary or now, stuck), await crawl.workers.count_alive())


def counts_of(figures: Mapping[str, Any], stuck: int) -> IterationCounts:
    """Returns the counts of an iteration from the figures of its crawl and the number of its stuck pages."""
    return IterationCounts(
        found=figures["seen_urls"],
        queued=figures["queued"] + figures["leased"],
        crawled=sum(figures["responses"].values()),
        processed=figures["pages"],
        stuck=stuck,
    )


def _check_targets(definition: Definition, settings: BaseSettings) -> None:
    """Raises WrongJob for targets of notifications that cannot be used."""
    if definition.notify or "NOTIFY" in definition.settings:
        entry = ("notify",) if definition.notify else ("settings", "NOTIFY")
        try:
            Targets(definition.notify or read(settings, "NOTIFY"))
        except ConfigurationError as error:
            raise WrongJob(str(error), *entry) from error


def _check_target(target: str, classes: Mapping[str, str]) -> None:
    """Raises WrongJob for a URI of checkpoints that no object store supports."""
    try:
        check_store_uri("to", location(target), classes)
    except ConfigurationError as error:
        raise WrongJob(str(error), "checkpoints", "to") from error


def as_text(value: Any) -> str:
    """Returns the value of a setting as text for a command line."""
    if isinstance(value, list) and not any(isinstance(element, list | dict) for element in value):
        text = ",".join(map(str, value))
        return text if listed(text) == [str(entry) for entry in value] else json.dumps(value)
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _settings(options: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the settings in the options -s at the beginning of a list of options."""
    settings = []
    for option, text in zip(options[::2], options[1::2], strict=False):
        if option != "-s":
            break
        name, _, value = text.partition("=")
        settings.append((name, value))
    return settings
