"""Log files of workers in DATA_DIR/logs: their names, and their lines from the end backwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from webcrawl.config.passwords import without_passwords
from webcrawl.errors import StoreError

FORMAT = "%(asctime)s [%(name)s] %(levelname)s: %(message)s"
TIMES = "%Y-%m-%d %H:%M:%S"
"""The format of lines and their times, which is also Scrapy's default. Times are local."""

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
WINDOW_BYTES = 500_000
"""The most bytes of each file that one window reads."""
_LONGEST = 10_000
"""The most characters of an entry that are kept."""
_BEGIN = re.compile(
    rf"^(\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[,.]\d+)? \[([^\]\n]*)\] ({'|'.join(LEVELS)}): ", re.MULTILINE
)
_PRINTED = re.compile(r"\n(?=[A-Za-z0-9])")
_CALM = ("DEBUG", "INFO")


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line of a log with what belongs to it, such as a traceback, without passwords.

    `level`: "" for output that is no line of a log. `file`: the name of its file.
    """

    time: str
    logger: str
    level: str
    text: str
    file: str


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Entries, the newest first. `before`: the offset in the file where the next window ends; 0 at its begin."""

    entries: list[LogEntry]
    before: int


def log_name(crawl: str, number: int) -> str:
    """Returns the name of the file of the crawl's worker of this number."""
    return f"{crawl}-{number}.log"


def log_files(folder: Path, crawl: str) -> list[Path]:
    """Returns the log files of a crawl, also those that were renamed, and of the workers of an iteration."""
    own = re.compile(rf"(?:{re.escape(crawl)}-\d+|worker-\d+)\.log(?:\.1)?")
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if own.fullmatch(path.name) and path.is_file())


def log_window(
    files: Sequence[Path], level: str = "", text: str = "", *, before: int = 0, most: int = 200
) -> LogWindow:
    """Returns the last `most` entries of the files together that are of a level or above and contain a text.

    Reads the last part of each file; of a single file, the part that ends at the offset `before`, if there is one.
    Raises StoreError for another level.
    """
    if level and level not in LEVELS:
        raise StoreError(f"{level!r} is no level: choose one of {', '.join(LEVELS)}")
    wanted = LEVELS[LEVELS.index(level) :] if level else ("", *LEVELS)
    begin, entries = 0, []
    for path in files:
        part, begin = _part(path, before)
        entries += [
            entry
            for entry in _entries(part, path.name)
            if entry.level in wanted and text.lower() in f"{entry.logger} {entry.text}".lower()
        ]
    # the order in a file stays as it is among lines of the same second
    entries.sort(key=lambda entry: entry.time)
    return LogWindow(entries[-most:][::-1], begin if len(files) == 1 else 0)


def shown_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a file without passwords."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            yield without_passwords(line)


def _part(path: Path, before: int) -> tuple[str, int]:
    """Returns whole lines of a file that end at an offset, by default at its end, and the offset of the first."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            end = min(before, size) if before else size
            begin = max(0, end - WINDOW_BYTES)
            file.seek(begin)
            part = file.read(end - begin)
    except OSError:  # renamed meanwhile
        return "", 0
    if begin:
        first = part.find(b"\n") + 1
        part, begin = part[first:], begin + first
    return part.decode("utf-8", "replace"), begin


def _entries(part: str, file: str) -> Iterator[LogEntry]:
    """Yields the entries of a part of a file. Lines that do not begin an entry belong to the entry before them."""
    begins = list(_BEGIN.finditer(part))
    head = part[: begins[0].start()] if begins else part
    if head.strip():
        yield LogEntry("", "", "", _text(head), file)
    ends = [begin.start() for begin in begins[1:]] + [len(part)]
    for begin, end in zip(begins, ends, strict=False):
        time, logger, level = begin.groups()
        # what a process prints has no beginning of its own; only the lines of warnings and errors have such lines
        first, *printed = (
            _PRINTED.split(part[begin.end() : end]) if level in _CALM else [part[begin.end() : end]]
        )
        yield LogEntry(time, logger, level, _text(first), file)
        yield from (LogEntry(time, "", "", _text(line), file) for line in printed)


def _text(text: str) -> str:
    return without_passwords(text.strip()[:_LONGEST])
