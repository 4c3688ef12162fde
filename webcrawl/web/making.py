"""Runs commands that take long, such as exports, as processes of the dashboard: one at a time."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from scrapy.settings import SETTINGS_PRIORITIES, Settings

from webcrawl.config.private_files import given_umask
from webcrawl.crawler.crawl_options import private_options
from webcrawl.errors import StoreError, brief

_PATIENCE_SECONDS = 5.0
_OUTPUT_END = 4_096


class CommandTask(NamedTuple):
    """What a command makes, for a crawl: the names of both, such as ("broad", "index")."""

    crawl: str
    name: str


class Making:
    """The running command of this dashboard, and how the last one of each task has failed.

    The commands get the settings of the command line of this dashboard in a variable of their environment.
    """

    def __init__(self) -> None:
        self._running: tuple[CommandTask, float] | None = None
        self._work: asyncio.Task[None] | None = None
        self._problems: dict[CommandTask, str] = {}

    def since(self, task: CommandTask) -> float | None:
        """Returns when the command of a task was started, as seconds since the epoch; None if it does not run."""
        return self._running[1] if self._running and self._running[0] == task else None

    def problem(self, task: CommandTask) -> str:
        """Returns why the last command of a task has failed, or ""."""
        return self._problems.get(task, "")

    def state(self, *tasks: CommandTask) -> str:
        """Returns a text that changes when a command of these tasks begins or ends."""
        return " ".join(f"{task.name}:{self.since(task) or ''}:{self.problem(task)}" for task in tasks)

    def start(
        self,
        task: CommandTask,
        words: Sequence[str],
        settings: Settings,
        prepare: Callable[[], None] = lambda: None,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        """Starts `scrapy WORDS`. In a thread, `prepare` is called before, and `finish` when it has ended in order.

        A StoreError of these is the problem of the task. Raises StoreError while another command runs.
        """
        if self._running is not None:
            crawl, name = self._running[0]
            raise StoreError(f"this dashboard is making {name} of crawl {crawl}: try again when it is done")
        self._running = task, time.time()
        self._problems.pop(task, None)
        self._work = asyncio.create_task(self._run(task, words, settings, prepare, finish))

    async def close(self) -> None:
        """Ends the running command."""
        if self._work is not None:
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work
        # a task that was cancelled before it began has not done so
        self._running = None

    async def _run(
        self,
        task: CommandTask,
        words: Sequence[str],
        settings: Settings,
        prepare: Callable[[], None],
        finish: Callable[[], None],
    ) -> None:
        try:
            await asyncio.to_thread(prepare)
            problem = await self._ended(words, settings)
            if not problem:
                await asyncio.to_thread(finish)
        except (OSError, StoreError) as error:
            problem = brief(error)
        finally:
            self._running = None
        if problem:
            self._problems[task] = problem

    async def _ended(self, words: Sequence[str], settings: Settings) -> str:
        """Runs a command to its end; returns why it has failed, or ""."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scrapy", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **private_options(given(settings), {})},
            umask=given_umask(),
        )
        assert process.stderr is not None
        output = b""
        try:
            while piece := await process.stderr.read(_OUTPUT_END):
                output = (output + piece)[-_OUTPUT_END:]
            code = await process.wait()
        finally:
            await _stop(process)
        lines = output.decode("utf-8", "replace").strip().splitlines()
        return (lines[-1] if lines else f"it ended with status {code}") if code else ""


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Ends a process that still runs."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def given(settings: Settings) -> Mapping[str, Any]:
    """Returns the settings of a command line, which a job of a crawl adds to."""
    least = SETTINGS_PRIORITIES["cmdline"]
    return {name: settings[name] for name in settings if (settings.getpriority(name) or 0) >= least}
