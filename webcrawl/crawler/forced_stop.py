"""Handles the second SIGINT or SIGTERM: the crawl ends at once, and logs one line about the consequences."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable

from scrapy.crawler import CrawlerProcessBase

logger = logging.getLogger(__name__)

_PATIENCE = 5.0
"""Seconds that abandoned tasks have to end."""


def tell_of_forced_stop(
    process: CrawlerProcessBase, lease_seconds: float, ended: Callable[[int], None]
) -> None:
    """Makes a process log a forced stop; then calls `ended` with the exit status, 128 and the signal's number."""

    def tell(number: int) -> None:
        logger.warning(
            "%s again: the crawl stops at once. What is being fetched or stored is given up, and nothing is lost: "
            "other workers or the next run take these URLs when their leases expire, after %g s at most.",
            signal.Signals(number).name,
            lease_seconds,
        )
        # Scrapy abandons tasks, and asyncio would print a line for each task
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        ended(128 + number)
        # a task may refuse to end, and asyncio waits for all tasks
        last = threading.Timer(_PATIENCE, os._exit, (128 + number,))
        last.daemon = True
        last.start()

    # the one step of Scrapy's forced stop that runs in the event loop
    setattr(process, "_log_kill", tell)  # noqa: B010
