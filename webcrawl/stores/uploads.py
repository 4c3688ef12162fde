"""Sends the finished files of a spool folder to an object store."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from contextlib import suppress
from pathlib import Path

from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.file_lock import locked
from webcrawl.stores.objects.store import ObjectStore
from webcrawl.stores.warc.files import WARC, index_name

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_URGENT_PAUSE = 2.0
_LAST_TRIES = 3
_MOST_FAILURES = 3
_ASKED_SECONDS = 60.0


class Uploads:
    """Uploads the finished files of a folder in its own thread.

    Several processes may share the folder: a process locks each file (flock) during its upload. Failed uploads are
    retried with exponential back-off and up to 10% of jitter.
    """

    def __init__(self, store: ObjectStore, folder: Path, suffix: str = WARC) -> None:
        """`suffix` is the suffix of finished files; a WARC file has its index beside it."""
        self._store = store
        self._folder = folder
        self._suffix = suffix
        self._news = threading.Event()
        self._deadline = math.inf
        self._urgent = False
        self._thread: threading.Thread | None = None
        self._known: dict[str, tuple[bool, float]] = {}
        """Name of an object -> whether it exists, and when the store was asked."""

    def has(self, name: str) -> bool:
        """Returns whether the store has an object. It is asked for each once a minute; False if it does not answer."""
        exists, asked_at = self._known.get(name, (False, -_ASKED_SECONDS))
        if time.monotonic() - asked_at >= _ASKED_SECONDS:
            try:
                exists = self._store.size(name) is not None
            except StoreError:
                exists = False
            self._known[name] = exists, time.monotonic()
        return exists

    def wake(self) -> None:
        """Makes the thread look for finished files now."""
        self._news.set()
        if self._thread is None or not self._thread.is_alive():
            # a daemon thread, because an upload that hangs must not block the end of the process
            self._thread = threading.Thread(target=self._run, name="uploads", daemon=True)
            self._thread.start()

    def hurry(self, urgent: bool) -> None:
        """Retries more often while `urgent`, because writers wait for room in the spool."""
        if urgent and not self._urgent:
            self._news.set()
        self._urgent = urgent

    def finish(self, seconds: float) -> None:
        """Uploads for `seconds` at most, and logs what remains."""
        self._news.set()  # set before the deadline, so that the thread looks for files once more before it ends
        self._deadline = time.monotonic() + seconds
        self.wake()
        assert self._thread is not None
        self._thread.join(seconds)
        self._thread = None
        files = self._waiting()
        if files:
            logger.warning(
                "%d files (%.1f MB) stay in %s: the next run uploads them to %s",
                *(len(files), _megabytes(files), self._folder, self._store.uri()),
            )

    def _run(self) -> None:
        failures = 0
        while True:
            self._news.clear()
            failures = 0 if self._send_all(failures) else failures + 1
            done = failures == 0 or failures >= _LAST_TRIES or self._is_late()
            if done and self._is_ending() and not self._news.is_set():
                return
            longest = _URGENT_PAUSE if self._urgent else _LONGEST_PAUSE
            pause = min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 20), longest)
            self._news.wait(pause * (1 + random.random() / 10) if failures else None)

    def _send_all(self, failures: int) -> bool:
        """Uploads all finished files that no other process is uploading. Returns whether this succeeded.

        Gives up after three failed files, or when the store is unavailable.
        """
        failed = 0
        for path in self._waiting():
            if self._is_late():
                return False
            try:
                with locked(path) as fd:
                    if fd is not None:
                        self._send(path)
            except (StoreError, OSError) as error:
                if not self._is_late():
                    files = self._waiting()
                    logger.warning(
                        "cannot upload %s (try %d; %d files, %.1f MB wait): %s",
                        *(path.name, failures + 1, len(files), _megabytes(files), error),
                    )
                failed += 1
                if failed == _MOST_FAILURES or isinstance(error, StoreUnavailable) or self._is_late():
                    break
        return not failed

    def _send(self, path: Path) -> None:
        """Uploads the index last and deletes it first: as long as the WARC file is in the folder, work is left."""
        index = path.with_name(index_name(path.name))
        for file in (path, index):
            if file.exists():
                self._store.put_file(file.name, file, self._is_late)
        index.unlink(missing_ok=True)
        path.unlink()
        logger.info("uploaded %s", self._store.uri(path.name))

    def _waiting(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{self._suffix}"))

    def _is_ending(self) -> bool:
        return self._deadline < math.inf

    def _is_late(self) -> bool:
        return time.monotonic() >= self._deadline


def _megabytes(files: list[Path]) -> float:
    total = 0
    for path in files:
        with suppress(FileNotFoundError):  # another process has just uploaded it
            total += path.stat().st_size
    return total / 1e6
