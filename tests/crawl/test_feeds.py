"""Scrapy's feeds over the runs of a crawl, and what the summary says of feeds, items and stores."""

from __future__ import annotations

import json
import marshal
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crawl.conftest import Project
from tests.crawls import CrawlResult, items_of
from tests.ports import free_ports
from tests.web import LocalWeb

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"

QUOTES = """
from dataclasses import dataclass

from scrapy import Request, Spider


@dataclass
class Quote:
    text: str


@dataclass
class Never:
    text: str


class Quotes(Spider):
    name = "quotes"

    async def start(self):
        yield Request(self.first)

    def parse(self, response):
        yield Quote(response.url[-1] + "1")
        yield Quote(response.url[-1] + "2")
        yield {"text": response.url[-1] + "3"}
        for url in response.css("a::attr(href)").getall():
            yield response.follow(url)
        if response.css("a"):
            yield response.follow("/c", callback=lambda response: None)
"""
FORMATS = ("json", "jsonlines", "jl", "csv", "xml", "pickle", "marshal")
FIRST, SECOND = ["/1", "/2", "/3"], ["b1", "b2", "b3"]


def feeds(folder: Path) -> dict[str, dict[str, Any]]:
    """Overwritten feeds of all formats, in batches too, that store empty files or do not."""
    kept = {f"whole.{kind}": {"format": kind} for kind in FORMATS}
    kept |= {f"unless-empty.{kind}": {"format": kind, "store_empty": False} for kind in FORMATS}
    batches = {"format": "jsonlines", "batch_item_count": 2}
    kept |= {"batch-%(batch_id)d.jl": batches, "batch-%(batch_id)d.json": {**batches, "format": "json"}}
    none = {"format": "json", "item_classes": ["spiders.quotes.Never"]}
    kept |= {"none.json": none, "absent.json": {**none, "store_empty": False}}
    named = {str(folder / name): {"overwrite": True, **options} for name, options in kept.items()}
    return {f"ftp://me:secret@127.0.0.1:{free_ports(1)[0]}/away.json": {"format": "json"}, **named}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def texts(path: Path) -> list[str]:
    """The items of a JSON feed."""
    return [item["text"] for item in json.loads(path.read_text())]


def test_a_run_without_items_leaves_the_feeds_of_earlier_runs_alone(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/b>b</a>")
    web.put(SITE, "/b", "b")
    web.put(SITE, "/c", "c")
    project.add_spider("quotes", QUOTES)
    folder = tmp_path / "feeds"
    names = feeds(folder)
    runs, files = [], []
    for pages in (1, 1, 0):
        runs.append(
            run_crawl(
                "quotes",
                project=project.folder,
                arguments={"first": web.url(SITE)},
                FEEDS=json.dumps(names),
                CRAWL_MAX_PAGES=pages,
                ROBOTSTXT_OBEY=False,
                timeout=60,
            )
        )
        files.append(contents(folder))
    first, idle, last = runs
    assert [run.returncode for run in runs] == [0, 0, 0], idle.stderr
    assert "\n".join(sorted(files[0])).count("batch-") == 4
    assert json.loads(files[0]["none.json"]) == [] and "absent.json" not in files[0]

    assert web.paths(SITE) == ["/", "/b"]
    assert files[1] == files[0]
    assert "items of earlier runs" not in idle.stderr

    for kind in ("jsonlines", "jl"):
        assert [item["text"] for item in items_of(folder / f"whole.{kind}")] == FIRST + SECOND
    for kind in ("csv", "xml"):
        assert files[2][f"unless-empty-earlier-1.{kind}"] == files[0][f"whole.{kind}"]
        assert b"b3" in files[2][f"unless-empty.{kind}"]
    assert texts(folder / "whole-earlier-1.json") == FIRST and texts(folder / "whole.json") == SECOND
    assert texts(folder / "batch-1.json") == SECOND[:2]
    assert texts(folder / "batch-1-earlier-1.json") == FIRST[:2]
    assert len(items_of(folder / "batch-1.jl")) == len(items_of(folder / "batch-1-earlier-1.jl")) == 2
    with (folder / "whole.pickle").open("rb") as lines:
        assert [pickle.load(lines)["text"] for _ in range(6)] == FIRST + SECOND
    with (folder / "whole.marshal").open("rb") as lines:
        assert [marshal.load(lines)["text"] for _ in range(6)] == FIRST + SECOND
    check_summaries(first, last, folder)


def check_summaries(first: CrawlResult, last: CrawlResult, folder: Path) -> None:
    """The spider stores no pages, so no store is named."""
    batches = f"{folder}/batch-%(batch_id)d.jl: 3 items"
    assert f"  results in  {first.data_dir}: summary.json\n  feeds       {batches}\n" in first.stderr
    assert f"              {folder}/whole.json: 3 items\n" in first.stderr
    assert f"              {folder}/none.json: 0 items\n" in first.stderr
    assert "absent.json" not in first.stderr
    assert re.search(r"\n {14}ftp://\.\.\.@127\.0\.0\.1:\d+/away\.json: 3 items\n", first.stderr)
    assert "\n              1 file could not be stored: see the log\n" in first.stderr
    assert "  items       3 (2 Quote, 1 dict)\n" in first.stderr
    assert "Lost with this process: requests that cannot be stored (1 for <lambda>)" in first.stderr

    summary = last.summary
    assert summary["items"] == {"Quote": 4, "dict": 2}
    assert (summary["archived"], summary["stored"]) == (0, 0)
    assert summary["lost_requests"] == {"<lambda>": 1}
    counted = {Path(name).name: number for name, number in summary["feeds"].items()}
    assert (counted["whole.json"], counted["whole.csv"], counted["none.json"]) == (3, 3, 0)
    assert (counted["whole.jl"], counted["batch-%(batch_id)d.json"]) == (6, 6)
    assert "absent.json" not in counted


def test_crawls_in_one_folder_keep_a_summary_each(
    local_web: StartWeb, crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "one page")
    for name in ("first", "second"):
        result = crawl([web.url(SITE)], CRAWL_ID=name)
        assert ": summary.json, warc/, metadata.db\n" in result.stderr
    assert result.summary["crawl"] == "second"
    stored = {path.name: json.loads(path.read_text()) for path in (tmp_path / "data/summaries").iterdir()}
    assert stored.keys() == {"first.json", "second.json"}
    assert stored["second.json"] == result.summary
    assert (stored["first.json"]["crawl"], stored["first.json"]["archived"]) == ("first", 1)
    assert stored["second.json"]["stored"] == 1
