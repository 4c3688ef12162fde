"""The log of a worker: Scrapy's lines of single pages, and its file in DATA_DIR/logs, which the dashboard shows.

Lines of single pages cost nothing unless LOG_LEVEL shows them.
"""

from __future__ import annotations

import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TextIO

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.logformatter import LogFormatter, LogFormatterResult
from twisted.python.failure import Failure

from webcrawl.config import read
from webcrawl.crawler.scheduling.requests import FETCH_CLASS
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.errors import EngineUnavailable, StoreError, StoreUnavailable
from webcrawl.stores.log_files import FORMAT, TIMES, log_name

logger = logging.getLogger(__name__)
_MOST_BYTES = 5_000_000
"""The most bytes of a file; then it is renamed, in the place of the file before it."""
_MOST_WORKERS = 1_000


class QuietLogFormatter(LogFormatter):
    """Scrapy's formatter, which skips lines that are not shown, and logs failed downloads at level INFO.

    A page that cannot be fetched is counted, retried and stored with its error, so it needs no traceback.
    """

    def __init__(self, level: int | str = logging.DEBUG) -> None:
        # only the handler that Scrapy installs filters by level, not the loggers
        self._pages_are_shown = level_number(level) <= logging.DEBUG

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(read(crawler.settings, "LOG_LEVEL"))

    def crawled(self, request: Request, response: Response, spider: Spider) -> LogFormatterResult | None:  # type: ignore[override]
        if not self._pages_are_shown:
            return None
        line = super().crawled(request, response, spider)
        return {**line, "msg": f"{line['msg']} {request.meta.get(FETCH_CLASS, '')}".rstrip()}

    def scraped(self, item: Any, response: Any, spider: Spider) -> LogFormatterResult | None:  # type: ignore[override]
        if not self._pages_are_shown:
            return None
        return {
            "level": logging.DEBUG,
            "msg": "Stored %(item)s",
            "args": {"item": getattr(item, "url", item)},
        }

    def download_error(
        self, failure: Failure, request: Request, spider: Spider, errmsg: str | None = None
    ) -> LogFormatterResult:
        return {**super().download_error(failure, request, spider, errmsg), "level": logging.INFO}

    def item_error(
        self, item: Any, exception: BaseException, response: Any, spider: Spider
    ) -> LogFormatterResult:
        """Logs pages that could not be stored when the crawl ended at level INFO, because they are fetched again.

        A page that a store refuses is one line; the traceback that Scrapy adds goes to level DEBUG.
        """
        url = getattr(item, "url", item)
        known = super().item_error(url, exception, response, spider)
        if isinstance(exception, EngineUnavailable | StoreUnavailable):
            known["level"] = logging.INFO
        elif isinstance(exception, StoreError):
            logger.error("%s is not stored: %s", url, exception)
            known["level"] = logging.DEBUG
        return known


def level_number(level: int | str) -> int:
    """Returns the number of a level such as "INFO" or 20."""
    return int(level) if str(level).isdecimal() else logging.getLevelNamesMapping()[str(level)]


class LogFile(SessionComponent):
    """Extension that writes lines to the first file of this crawl that no other worker has, from INFO or LOG_LEVEL on.

    Not without LOG_ENABLED, and not if the output of the process is in such a file already, as in iterations of jobs.
    """

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        if not crawler.settings.getbool("LOG_ENABLED"):
            raise NotConfigured
        # failures of pages are at level INFO; the terminal shows warnings alone, unless LOG_LEVEL is lower
        self._level = min(logging.INFO, level_number(read(crawler.settings, "LOG_LEVEL")))
        self._handler: _Handler | None = None
        crawler.signals.connect(self.spider_opened, signals.spider_opened)
        crawler.signals.connect(self.engine_stopped, signals.engine_stopped)

    def spider_opened(self) -> None:
        session = self._session
        folder = session.stores.data_dir / "logs"
        if not session.connection.is_open or _holds_output(folder):
            return
        try:
            self._handler = _Handler(folder, session.connection.keys.crawl)
        except OSError as error:
            logger.warning("%s: no log is written there (%s).", folder, error.strerror)
            return
        self._handler.setLevel(self._level)
        logging.root.addHandler(self._handler)

    def engine_stopped(self) -> None:
        if self._handler is not None:
            logging.root.removeHandler(self._handler)
            self._handler.close()


class _Handler(logging.Handler):
    """Writes to the file of the first free number; a lock beside the files keeps the number.

    Python's RotatingFileHandler formats each record twice and asks for the size of the file, which takes three times as
    long.
    """

    def __init__(self, folder: Path, crawl: str) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        number, self._lock = _free_number(folder, crawl)
        self._path = folder / log_name(crawl, number)
        self._file = self._open()
        self._size = self._file.tell()
        self.setFormatter(logging.Formatter(FORMAT, TIMES))

    def emit(self, record: logging.LogRecord) -> None:
        # the disk may be full; the line is on stderr too
        with suppress(Exception):
            line = f"{self.format(record)}\n"
            if self._size >= _MOST_BYTES:
                self._begin_anew()
            self._size += len(line)
            self._file.write(line)
            self._file.flush()

    def close(self) -> None:
        super().close()
        if not self._file.closed:
            with suppress(OSError):
                self._file.close()
            os.close(self._lock)

    def _begin_anew(self) -> None:
        """Renames the full file, and opens a new one."""
        self._file.close()
        self._path.replace(self._path.with_suffix(".log.1"))
        self._file, self._size = self._open(), 0

    def _open(self) -> TextIO:
        # a lone surrogate of a URL cannot be encoded
        return self._path.open("a", encoding="utf-8", errors="backslashreplace")


def _free_number(folder: Path, crawl: str) -> tuple[int, int]:
    """Returns the first number that no other process has, and the descriptor of its lock; raises OSError."""
    for number in range(_MOST_WORKERS):
        lock = os.open(
            folder / f".{log_name(crawl, number)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, lock
        os.close(lock)
    raise OSError(0, "", "") from None


def _holds_output(folder: Path) -> bool:
    """Returns whether the standard error of this process is a file in the folder."""
    with suppress(OSError):
        output = os.fstat(2)
        return any(os.path.samestat(output, path.stat()) for path in folder.glob("*.log"))
    return False
