"""The worker of the live lane that a service runs unless others do: `scrapy crawl live`, as a child process.

A process of its own, because reading pages would delay answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from webcrawl.config.private_files import given_umask
from webcrawl.crawler.crawl_options import private_options
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.engine.keys import LIVE_CRAWL
from webcrawl.opened import Connection

_LOOK_SECONDS = 5.0
_POLL_SECONDS = 1.0
_MOST_PAUSE = 60.0
_LAST_SECONDS = 20.0
logger = logging.getLogger(__name__)


class LiveWorker:
    """Runs a worker while no other worker of the lane is alive. `settings`: those of the command line."""

    def __init__(self, connection: Connection, settings: Mapping[str, Any]) -> None:
        self._crawl = replace(connection.crawl, keys=replace(connection.keys, crawl=LIVE_CRAWL))
        self._settings = {**settings, "CRAWL_ID": LIVE_CRAWL, "PROGRESS": "off"}
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = _LOOK_SECONDS

    async def run(self) -> None:
        """Looks after the worker until it is cancelled."""
        while True:
            with suppress(*UNAVAILABLE):
                if self._process is None and not await self._crawl.workers.alive():
                    self._start()
            if self._process is None:
                await asyncio.sleep(self._pause)
                continue
            began = asyncio.get_running_loop().time()
            while (code := self._process.poll()) is None:
                await asyncio.sleep(_POLL_SECONDS)
            self._process = None
            lived = asyncio.get_running_loop().time() - began
            self._pause = _LOOK_SECONDS if lived > _MOST_PAUSE else min(2 * self._pause, _MOST_PAUSE)
            logger.error("The worker of the live lane ended with exit status %d", code)
            await asyncio.sleep(self._pause)

    async def close(self) -> None:
        """Lets the worker finish what it fetches, for a while, and ends it."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            process.send_signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    while process.poll() is None:
                        await asyncio.sleep(_POLL_SECONDS / 10)
                    return

    def _start(self) -> None:
        words = (sys.executable, "-m", "scrapy", "crawl", LIVE_CRAWL, "-s", f"CRAWL_ID={LIVE_CRAWL}")
        # uvloop's own processes have no umask
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # a Ctrl-C at the terminal is for the service, which ends its worker
            start_new_session=True,
            umask=given_umask(),
            env={**os.environ, **private_options(self._settings, {})},
        )
