"""Runs a function in several processes at the same moment.

They are forks of a process that has imported the metadata store, as its imports take longer than what they do.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any


def together(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Call `work(*arguments, barrier)` in `count` processes; each must exit with status 0."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.metadata", "tests.postgres", "webcrawl.stores.metadata"])
    start = context.Barrier(count)
    processes = [context.Process(target=work, args=(*arguments, start)) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * count
