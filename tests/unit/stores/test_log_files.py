"""The lines of log files, from their end backwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from webcrawl.errors import StoreError
from webcrawl.stores import log_files
from webcrawl.stores.log_files import log_name, log_window, shown_lines

TRACEBACK = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
ValueError: no"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "news-0.log"
    path.write_text(
        "printed before\n"
        "2026-02-03 12:00:00 [scrapy.core.engine] INFO: Spider opened\n"
        "12 pages (1.0/s)\n"
        "2026-02-03 12:00:01 [webcrawl.frontier] WARNING: redis://me:secret@db.test is slow\n"
        f"2026-02-03 12:00:02 [spider] ERROR: It failed\n{TRACEBACK}\n"
    )
    return path


def texts(path: Path, level: str = "", text: str = "") -> list[str]:
    return [entry.text for entry in log_window([path], level, text).entries]


def test_entries_have_what_belongs_to_them(log: Path) -> None:
    assert texts(log) == [
        f"It failed\n{TRACEBACK}",
        "redis://...@db.test is slow",
        "12 pages (1.0/s)",
        "Spider opened",
        "printed before",
    ]
    [newest, *_] = log_window([log]).entries
    assert (newest.time, newest.logger, newest.level, newest.file) == (
        "2026-02-03 12:00:02",
        "spider",
        "ERROR",
        "news-0.log",
    )


def test_entries_are_of_a_level_or_above_and_contain_a_text(log: Path) -> None:
    assert len(texts(log, "WARNING")) == 2
    assert texts(log, "ERROR") == [f"It failed\n{TRACEBACK}"]
    assert texts(log, text="VALUEERROR") == [f"It failed\n{TRACEBACK}"]
    assert texts(log, text="frontier") == ["redis://...@db.test is slow"]
    assert texts(log, "CRITICAL") == []
    with pytest.raises(StoreError, match="'LOUD' is no level"):
        log_window([log], "LOUD")


def test_a_long_file_is_read_backwards_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "WINDOW_BYTES", 500)
    path = tmp_path / "news-0.log"
    path.write_text("".join(f"2026-02-03 12:00:{n:02} [a] INFO: line {n}\n" for n in range(60)))
    read, before = [], 0
    while True:
        window = log_window([path], before=before)
        read += [entry.text for entry in window.entries]
        if not (before := window.before):
            break
    assert read == [f"line {n}" for n in reversed(range(60))]


def test_the_files_of_several_workers_are_read_together(log: Path) -> None:
    other = log.with_name(log_name("news", 1))
    other.write_text("2026-02-03 12:00:01 [a] INFO: other\n")
    entries = log_window([log, other], most=3).entries
    assert [entry.file for entry in entries] == ["news-0.log", "news-1.log", "news-0.log"]


def test_only_files_of_the_crawl_are_listed(log: Path) -> None:
    for name in ("news-0.log.1", "worker-0.log", "newsroom-0.log", ".news-0.log.lock", "news-0.txt"):
        log.with_name(name).touch()
    names = [path.name for path in log_files.log_files(log.parent, "news")]
    assert names == ["news-0.log", "news-0.log.1", "worker-0.log"]
    assert log_files.log_files(log.parent / "missing", "news") == []


def test_a_whole_file_is_shown_without_passwords(log: Path) -> None:
    text = "".join(shown_lines(log))
    assert "secret" not in text and "redis://...@db.test is slow" in text
    assert text.count("\n") == log.read_text().count("\n")
