"""Runs workers as child processes of the scheduler: `scrapy crawl`, as `scrapy workers` starts it."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config.private_files import given_umask
from webcrawl.errors import brief
from webcrawl.jobs.records import IterationState, finish_reason
from webcrawl.jobs.workers import MOST_RESTARTS, Ended, IterationWorkers, Restarts

logger = logging.getLogger(__name__)

_PATIENCE = timedelta(seconds=60)
"""The time in which workers must stop cleanly before they are killed."""
_SHUTDOWN = "shutdown"
_AT_ONCE = (128 + signal.SIGINT, 128 + signal.SIGTERM)
"""The exit statuses of workers that got SIGINT or SIGTERM twice and abandoned their work."""
_FINDINGS = 3
"""The exit status of a worker whose crawl ended in order with findings, as `linkcheck` has them: broken links."""
_LOG_END = 4096


class Command(NamedTuple):
    """The command line of a worker, which every user of the machine can read, and its environment variables."""

    words: Sequence[str]
    environment: Mapping[str, str]


class Children(IterationWorkers):
    """The worker processes of an iteration, one for each command. Their output is in `logs` in the iteration's folder.

    `lifeline` is the reading end of a pipe that closes when the scheduler ends, so that the workers stop too.
    """

    def __init__(self, commands: Sequence[Command], folder: Path, crawl: str, lifeline: int) -> None:
        self._commands = commands
        self._folder = folder
        self._crawl = crawl
        self._lifeline = lifeline
        self._restarts = Restarts()
        self._killed_at: datetime | None = None
        self._stopping = False
        self._problem = ""
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        # an old summary would tell how an earlier run ended
        self._summary.unlink(missing_ok=True)
        self._processes = [self._start(index) for index in range(len(commands))]

    async def poll(self, now: datetime) -> Ended | None:
        codes = [process.poll() for process in self._processes]
        if self._stopping:
            return self._poll_stopping(codes, now)
        died = [
            index for index, code in enumerate(codes) if code is not None and (code < 0 or code in _AT_ONCE)
        ]
        if not died and None not in codes:
            failed = next((index for index, code in enumerate(codes) if code not in (0, _FINDINGS)), None)
            if failed is not None:
                return Ended(IterationState.FAILED, self._why(failed))
            reason = self._finish_reason()
            if reason != _SHUTDOWN:
                findings = self._last_line(codes.index(_FINDINGS)) if _FINDINGS in codes else None
                return Ended(IterationState.FINISHED, finish_reason(reason, findings))
            # the workers were stopped, but not the job
            died = list(range(len(codes)))
        if died and self._restarts.exhausted:
            return self._give_up(died[0])
        if died and self._restarts.are_due(now):
            logger.warning("%s: starting %d dead workers again", self._crawl, len(died))
            for index in died:
                self._processes[index] = self._start(index)
        return None

    async def stop(self) -> None:
        self._stopping = True
        self._send(signal.SIGTERM)

    async def kill(self) -> None:
        self._send(signal.SIGKILL)

    async def abandon(self) -> None:
        # a clean stop returns the URLs of these workers at once to the crawl, which continues elsewhere
        await self.stop()

    def _poll_stopping(self, codes: Sequence[int | None], now: datetime) -> Ended | None:
        if None not in codes:
            return Ended(IterationState.STOPPED, _SHUTDOWN)
        self._killed_at = self._killed_at or now + _PATIENCE
        if now >= self._killed_at:
            self._send(signal.SIGKILL)
        return None

    def _give_up(self, index: int) -> Ended | None:
        """Stops all workers, and ends the iteration when the last worker has ended."""
        self._problem = self._problem or self._why(index)
        self._send(signal.SIGTERM)
        if any(process.poll() is None for process in self._processes):
            return None
        return Ended(IterationState.FAILED, f"workers died {MOST_RESTARTS + 1} times; {self._problem}")

    def _send(self, number: signal.Signals) -> None:
        for process in self._processes:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    process.send_signal(number)

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        words, environment = self._commands[index]
        with self._log(index).open("ab") as log:
            return subprocess.Popen(
                words,
                stdin=self._lifeline,
                stdout=log,
                stderr=log,
                # Ctrl-C in a terminal reaches the workers through this process
                process_group=0,
                umask=given_umask(),
                env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def _summary(self) -> Path:
        return self._folder / "summaries" / f"{self._crawl}.json"

    def _finish_reason(self) -> str:
        summary = read_summary(self._folder, self._crawl)
        return str(summary["finish_reason"]) if summary else "finished"

    def _log(self, index: int) -> Path:
        return self._folder / "logs" / f"worker-{index}.log"

    def _why(self, index: int) -> str:
        """Returns how a worker ended, with the last line of its output."""
        code = self._processes[index].returncode
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        line = self._last_line(index)
        return brief(f"{how}: {line}" if line else how)

    def _last_line(self, index: int) -> str:
        """Returns the last line of a worker's output, or ""."""
        with self._log(index).open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _LOG_END))
            lines = log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def read_summary(folder: Path, crawl: str) -> dict[str, Any] | None:
    """Returns the summary that the last worker of a crawl has written, or None."""
    try:
        return dict(json.loads((folder / "summaries" / f"{crawl}.json").read_text()))
    except (OSError, ValueError):
        return None
