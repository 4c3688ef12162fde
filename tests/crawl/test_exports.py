"""Results for other programs: feeds, exports, and the DuckDB example."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, CrawlResult
from tests.web import LocalWeb, Reply

SITE = "127.0.1.1"
HERE = Project(CHECKOUT)


@pytest.fixture
def crawled(
    local_web: Callable[..., LocalWeb], crawl: Callable[..., CrawlResult], tmp_path: Path
) -> CrawlResult:
    web = local_web(SITE)
    web.put(SITE, "/", "<title>Grüße, &quot;home&quot;</title><a href=/old>old</a> <a href=/gone>gone</a>")
    web.put(SITE, "/old", Reply("", status=301, headers={"Location": "/new"}))
    web.put(SITE, "/new", "<title>=cmd|' /C calc'!A0</title>")
    forms = {"jsonl": "jsonlines", "csv": "csv"}
    feeds = {str(tmp_path / f"pages.{name}"): {"format": form} for name, form in forms.items()}
    return crawl([web.url(SITE)], FEEDS=json.dumps(feeds))


def test_feeds_and_exports_contain_the_pages(crawled: CrawlResult, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (tmp_path / "pages.jsonl").read_text().splitlines()]
    pages = {line["url"].rpartition("/")[2]: line for line in lines}
    assert set(pages) == {"", "old", "gone", "new"}
    fetched_at = datetime.fromisoformat(pages[""]["fetched_at"])
    assert datetime.now(UTC) - timedelta(minutes=2) < fetched_at < datetime.now(UTC)
    assert pages["new"]["redirects"] == [pages["old"]["url"]]
    assert pages[""]["redirects"] is None
    with (tmp_path / "pages.csv").open(newline="") as file:
        table = {row["url"]: row for row in csv.DictReader(file)}
    home, new = table[pages[""]["url"]], table[pages["new"]["url"]]
    assert (home["title"], home["status"], home["redirects"]) == ('Grüße, "home"', "200", "")
    assert home["fetched_at"] == pages[""]["fetched_at"]
    assert json.loads(new["redirects"]) == [pages["old"]["url"]]
    assert pages["new"]["title"] == "=cmd|' /C calc'!A0" == new["title"].removeprefix("'") != new["title"]
    written = [crawled.data_dir, *crawled.data_dir.rglob("*")]
    assert {"metadata.db", "summary.json", "warc", "engine"} <= {path.name for path in written}
    assert [path for path in written if path.stat().st_mode & 0o077] == [], "readable by others"

    data = ("-s", f"DATA_DIR={crawled.data_dir}")
    output = HERE.scrapy("export", "-o", str(tmp_path / "export"), *data)
    assert output == f"4 rows in 1 file: {tmp_path}/export\n"
    only = ("--crawl", "broad", "--status", "3xx", "--since", "2026-01-01", "--type", "*/*", *data)
    assert "'*/*' is not a MIME type" in HERE.scrapy("export", "-o", str(tmp_path / "some"), *only, code=1)
    output = HERE.scrapy("export", "-o", str(tmp_path / "some"), *only[:6], "--format", "jsonl", *data)
    assert output == f"1 row in 1 file: {tmp_path}/some\n"
    manifest = json.loads((tmp_path / "some" / "_export.json").read_text())
    assert manifest["only"] == {"crawl": "broad", "since": "2026-01-01", "status": "3xx"}
    (file,) = manifest["files"]
    assert json.loads((tmp_path / "some" / file["name"]).read_text())["url"] == pages["old"]["url"]
    again = HERE.scrapy("export", "-o", str(tmp_path / "export"), *data, code=1)
    assert "has an export of 4 rows" in again
    misspelt = HERE.scrapy(
        "export", "-o", str(tmp_path / "export"), "--crawl", "brod", "--force", *data, code=1
    )
    assert "crawl 'brod' fetched no page in " in misspelt and "crawls that did: 'broad'" in misspelt
    report = subprocess.run(
        [sys.executable, CHECKOUT / "examples" / "duckdb" / "report.py", tmp_path / "export"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "text/html" in report
    assert pages["gone"]["url"] in report


def test_an_export_without_a_database_or_crawl_is_refused(tmp_path: Path) -> None:
    data = ("-s", f"DATA_DIR={tmp_path}/nothing")
    assert "there is no" in HERE.scrapy("export", "-o", str(tmp_path / "export"), *data, code=1)
    assert not (tmp_path / "nothing").exists()


def test_an_export_is_no_folder_with_the_name_of_a_file(crawled: CrawlResult, tmp_path: Path) -> None:
    data = ("-s", f"DATA_DIR={crawled.data_dir}")
    for ending, form in (("csv", "csv"), ("json", "jsonl"), ("jsonl", "jsonl")):
        refused = HERE.scrapy("export", "-o", f"{tmp_path}/table.{ending}", *data, code=2)
        assert f"table.{ending} would be a folder" in refused
        assert f"such as -o {tmp_path}/table --format {form}" in refused
    assert not list(tmp_path.glob("table*"))
    HERE.scrapy("export", "-o", str(tmp_path / "table.wacz"), *data)
    assert (tmp_path / "table.wacz").is_file(), "the ending says the format"
