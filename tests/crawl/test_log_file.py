"""Each worker writes its log to a file of its own in DATA_DIR/logs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawls import CrawlResult
from tests.web import LocalWeb
from webcrawl.crawler.report import logs
from webcrawl.stores.log_files import log_files

HOST = "127.0.1.1"


def test_workers_write_files_of_their_own(
    run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb], redis_url: str
) -> None:
    web = local_web(HOST)
    web.put(HOST, "*", "<title>page</title>")
    result = run_crawl("broad", [web.url(HOST)], workers=2, REDIS_URL=redis_url)
    folder = result.data_dir / "logs"
    names = sorted(path.name for path in folder.glob("*.log"))
    assert names == ["broad-0.log", "broad-1.log"]
    for name in names:
        text = (folder / name).read_text()
        assert "[scrapy.core.engine] INFO: Spider closed" in text
        assert (folder / name).stat().st_mode & 0o077 == 0, "others may not read it"


def test_the_next_run_goes_on_in_the_same_file(
    run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web(HOST)
    web.put(HOST, "*", "<title>page</title>")
    for _ in range(2):
        result = run_crawl("broad", [web.url(HOST)])
    [path] = (result.data_dir / "logs").glob("*.log")
    assert path.read_text().count("INFO: Spider closed") == 2


def test_a_full_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_BYTES", 1_000)
    handler = logs._Handler(tmp_path, "news")
    for number in range(50):
        handler.handle(logging.LogRecord("a", logging.INFO, "", 0, "line %d \ud800", (number,), None))
    handler.close()
    files = log_files(tmp_path, "news")
    assert [path.name for path in files] == ["news-0.log", "news-0.log.1"]
    assert all(path.stat().st_size < 1_500 for path in files)
    assert "line 49 \\ud800\n" in files[0].read_text()
    again = logs._Handler(tmp_path, "news")
    other = logs._Handler(tmp_path, "news")
    again.close()
    other.close()
    assert [path.name for path in log_files(tmp_path, "news")][-1] == "news-1.log"


def test_there_is_no_file_without_a_log(
    run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb]
) -> None:
    web = local_web(HOST)
    web.put(HOST, "*", "<title>page</title>")
    result = run_crawl("broad", [web.url(HOST)], LOG_ENABLED=False)
    assert not (result.data_dir / "logs").exists()
