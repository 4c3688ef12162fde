"""`scrapy urls`, after a crawl and beside one that runs."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, CrawlResult, until
from tests.web import LocalWeb, Reply
from webcrawl.frontier.listing.listing import FIELDS
from webcrawl.stores.metadata import Metadata

StartWeb = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]

SITE, OTHER = "127.0.1.1", "127.0.1.2"


class Operator:
    """Runs `scrapy urls` on the crawl of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def urls(self, *options: str, code: int = 0) -> str:
        return Project(CHECKOUT).scrapy("urls", *options, "-s", f"DATA_DIR={self._data_dir}", code=code)

    def listed(self, *options: str) -> dict[str, dict[str, Any]]:
        """URL -> its row, by the path of the URL."""
        rows = [json.loads(line) for line in self.urls(*options).splitlines()]
        assert len(rows) == len({row["url"] for row in rows})
        return {"/" + row["url"].split("/", 3)[3]: row for row in rows}

    def set(self, *rows: dict[str, Any]) -> str:
        path = self._data_dir / "changes.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return self.urls("--set", str(path))


def test_urls_are_listed_changed_and_fetched_in_the_new_order(
    crawl: RunCrawl, local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/", "".join(f"<a href=/page{n}>page {n}</a>" for n in range(8)) + "<a href=/bad>bad</a>")
    for number in range(8):
        web.put(SITE, f"/page{number}", f"<a href=/page7>{number}</a>")
    web.put(OTHER, "/", "other")
    seeds = [web.url(OTHER), web.url(SITE)]
    # which would change levels while the crawl goes on
    options = {"IMPORTANCE": "off", "LINKS": True}
    result = crawl(seeds, CRAWL_MAX_PAGES=2, **options)
    operator = Operator(result.data_dir)
    found = operator.listed()
    states = Counter(row["state"] for row in found.values())
    assert states == {"done": 1, "queued": 9}, "both start pages have the path /"
    assert {row["in_links"] for path, row in found.items() if path.startswith("/page")} == {1}
    page = found["/page3"]
    assert (page["referrer"], page["depth"], page["level"]) == (web.url(SITE), 1, 3)

    host = web.host(SITE)
    assert set(operator.listed("--host", web.host(OTHER), "--state", "done,queued")) == {"/"}
    text = operator.urls("--format", "csv", "--state", "queued", "--no-in-links")
    table = list(csv.DictReader(io.StringIO(text)))
    assert tuple(table[0]) == tuple(FIELDS) and len(table) == 9 and table[0]["in_links"] == ""
    assert "-o: .xlsx is none of .jsonl, .csv" in operator.urls("-o", str(tmp_path / "urls.xlsx"), code=2)
    operator.urls("-o", str(tmp_path / "urls.parquet"))
    rows = parquet.read_table(tmp_path / "urls.parquet").to_pylist()
    assert len(rows) == 11 and {row["status"] for row in rows if row["state"] == "done"} == {200}
    assert [path.name for path in tmp_path.glob("*.parquet")] == ["urls.parquet"]
    assert not list(tmp_path.glob(".*unfinished"))

    told = operator.set(
        {"url": f"{host}/page5", "level": 1},
        {"url": f"{host}/page2", "weight": 1.0},
        {"url": f"{host}/bad", "drop": True},
        {"url": f"{host}/page0", "level": 3},
        {"url": web.url(SITE), "level": 0},
        {"url": f"{host}/never", "level": 0},
    )
    assert told.splitlines() == [
        "3 URLs changed: 1 dropped, 2 with a level, 0 with a date.",
        "1 URL left as they are: they were so before.",
        "1 URL left as they are: they do not wait any more.",
        "1 URL left as they are: the crawl does not know them.",
    ]
    assert operator.listed("--state", "dropped")["/bad"]["time"]
    before = len(web.paths(SITE))
    second = crawl(seeds, data_dir=result.data_dir, **options)
    fetched = [path for path in web.paths(SITE)[before:] if path != "/robots.txt"]
    assert fetched == [f"/page{number}" for number in (5, 2, 0, 1, 3, 4, 6, 7)]
    assert "1 dropped" in second.stderr
    assert operator.listed("--state", "done")["/page7"]["in_links"] == 9
    with Metadata(f"sqlite:///{result.data_dir}/metadata.db") as metadata:
        metadata.update(f"{host}/page3", lambda row: {"fetched_at": datetime.now(UTC), "status": 404})
    assert operator.listed("--state", "done")["/page7"]["in_links"] == 8, "a deleted page links no more"


def test_urls_are_changed_while_workers_fetch_them(
    start_crawl: StartCrawl, local_web: StartWeb, tmp_path: Path
) -> None:
    # so many that they are not all fetched before the commands have run; then only a few are left
    web, pages = local_web(SITE), 2000
    web.put(SITE, "/", "".join(f"<a href=/page{n}>page {n}</a>" for n in range(pages)))
    for number in range(pages):
        web.put(SITE, f"/page{number}", Reply(f"page {number}"))
    crawl = start_crawl(
        "broad",
        [web.url(SITE)],
        DOWNLOAD_DELAY=0.02,
        FRONTIER_HOT_URLS=200,
        CRAWL_ID="running",
    )
    until(lambda: len(web.paths(SITE)) > 20, crawl)
    operator, host = Operator(crawl.data_dir), web.host(SITE)
    found = operator.listed()
    assert found[f"/page{pages - 1}"]["importance"] is not None
    assert set(found) == {"/", *(f"/page{n}" for n in range(pages))}
    changes = [{"url": f"{host}/page{n}", "drop": True} for n in range(pages) if n % 100]
    told = operator.set(*changes, {"url": f"{host}/page{pages - 100}", "level": 0})
    dropped = {path for path, row in operator.listed("--state", "dropped").items()}
    at_that_time = len(web.paths(SITE))
    crawl.wait()
    paths = [path for path in web.paths(SITE) if path != "/robots.txt"]
    assert Counter(paths) == dict.fromkeys({"/", *(f"/page{n}" for n in range(pages))} - dropped, 1)
    assert f"{len(dropped):,} dropped" in told and len(dropped) > 500
    assert web.paths(SITE).index(f"/page{pages - 100}") < at_that_time + 60


def test_wrong_input_is_named(crawl: RunCrawl, local_web: StartWeb, tmp_path: Path) -> None:
    web = local_web(SITE)
    result = crawl([web.url(SITE)], CRAWL_MAX_PAGES=1, status=1)
    operator = Operator(result.data_dir)
    assert "missing.csv cannot be read" in operator.urls("--set", "missing.csv", code=1)
    assert f"cannot write {tmp_path}/none/a.parquet: " in operator.urls(
        "-o", f"{tmp_path}/none/a.parquet", code=1
    )
    assert "is none of queued" in operator.urls("--state", "waits", code=2)
    assert "needs a file" in operator.urls("--format", "parquet", code=2)
    assert "--set takes no options" in operator.urls("--set", "a.csv", "--host", web.host(SITE), code=2)
    assert "there is no crawl 'other'" in operator.urls("other", code=1)
