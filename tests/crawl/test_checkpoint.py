"""`scrapy checkpoint` and `scrapy restore`: during a crawl, and with wrong arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, CrawlResult, until
from tests.web import LocalWeb, generated_web

StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITES = ("127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4")
HERE = Project(CHECKOUT)


def test_a_crawl_continues_from_a_checkpoint_taken_while_it_ran(
    start_crawl: StartCrawl, local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web(*SITES)
    graph = generated_web(21, web, pages=100)
    seeds, data, place = [web.url(label) for label in SITES], tmp_path / "data", tmp_path / "copy"

    def start(shards: int, delay: float) -> Crawl:
        settings = {"DOWNLOAD_DELAY": delay, "tuned": {"lease_urls": 5}, "FRONTIER_SHARDS": shards}
        settings["FRONTIER_HOT_URLS"] = 8  # spills queues to the data folder
        return start_crawl("broad", seeds, data_dir=data, **settings)

    crawl = start(16, delay=0.5)  # keeps the crawl running while the commands run
    # with segments
    until(lambda: len(web.hits) >= 20 and any(data.glob("frontier/*/*/*")), crawl)
    done = set(web.urls()[:12])
    output = HERE.scrapy("checkpoint", str(place), "-s", f"DATA_DIR={data}")
    assert "Crawl 'broad' is in" in output
    assert crawl.process.poll() is None
    crawl.kill()
    data.rename(tmp_path / "lost")  # not deleted, because its engine may still write to it
    before = len(web.hits)

    options = ["-s", f"DATA_DIR={data}", "-s", "FRONTIER_SHARDS=3", "-s", "FRONTIER_HOT_URLS=8"]
    assert "Continue it with FRONTIER_SHARDS=3." in HERE.scrapy("restore", place.as_uri(), *options)
    result = start(3, delay=0.1).wait()
    asked = set(web.urls())
    assert asked == graph.reachable(*seeds)
    again = set(web.urls()[before:])
    assert not again & done, "URLs settled before the checkpoint are fetched again"
    assert result.summary["finish_reason"] == "finished"
    assert result.summary["seen_urls"] == len(asked)
    assert result.summary["pages"] >= len(asked)


def test_wrong_arguments_are_reported_in_one_line(
    crawl: Callable[..., CrawlResult], local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web(SITES[0])
    web.put(SITES[0], "/", "".join(f"<a href=/{n}>{n}</a>" for n in range(30)))
    result = crawl([web.url(SITES[0])], CRAWL_MAX_PAGES=1)
    options = ["-s", f"DATA_DIR={result.data_dir}"]
    place = str(tmp_path / "copy")
    output = HERE.scrapy("checkpoint", place, "another", *options, code=1)
    assert "no crawl 'another'" in output
    assert len(output.splitlines()) == 1
    assert "30 URLs to crawl, 31 seen" in HERE.scrapy("checkpoint", place, *options)
    assert "--force deletes it first" in HERE.scrapy("restore", place, *options, code=1)
    assert "Usage" in HERE.scrapy("restore", *options, code=2)
