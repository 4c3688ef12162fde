"""`scrapy checkpoint` and `scrapy restore`: during a crawl, and with wrong arguments."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, CrawlResult, until
from tests.web import LocalWeb, generated_web
from webcrawl.frontier.checkpoint.periodic import complete, time_of
from webcrawl.stores.objects.folder import FolderStore

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


def test_a_crawl_survives_the_loss_of_its_engine_by_its_last_periodic_checkpoint(
    start_crawl: StartCrawl, local_web: StartWeb, tmp_path: Path
) -> None:
    """The drill of docs/howto/lose-an-engine.md: two workers die with their engine, whose data is lost."""
    web = local_web(*SITES)
    graph = generated_web(21, web, pages=100)
    seeds, store = [web.url(label) for label in SITES], tmp_path / "store"
    checkpoints = FolderStore((store / "checkpoints" / "broad").as_uri())

    def start(data: Path, delay: float, **settings: Any) -> Crawl:
        options = {"STORE_URI": store.as_uri(), "METADATA_URI": f"sqlite:///{tmp_path}/pages.db", **settings}
        return start_crawl("broad", seeds, data_dir=data, DOWNLOAD_DELAY=delay, **options)

    def settled() -> set[str]:
        """The URLs that the last checkpoint must know: their results reach the engine within a second."""
        last = complete(checkpoints)[-1:]
        until_then = time_of(last[0]).timestamp() - (time.time() - time.monotonic()) - 3 if last else 0
        return {web.url(hit.host, hit.path) for hit in web.pages() if hit.started < until_then}

    engine = tmp_path / "engine"
    workers = [start(engine, 1, CHECKPOINT_EVERY="2s", FRONTIER_SHARDS=8) for _ in range(2)]
    until(lambda: len(settled()) >= 8, workers[0], look_every=0.2)
    report = json.loads(HERE.scrapy("status", "--json", "-s", f"DATA_DIR={engine}"))["checkpoint"]
    assert report["every"] == 2 and report["failed"] == 0 and report["urls"] > 0
    for worker in workers:
        worker.kill()
    engine.rename(tmp_path / "lost")  # not deleted, because the engine may still write to it
    before, killed, last = settled(), len(web.pages()), complete(checkpoints)[-1]
    assert 2 <= len(complete(checkpoints)) <= 4, "three are kept, and one may just have been written"

    options = [
        "-s",
        f"DATA_DIR={tmp_path / 'new'}",
        "-s",
        f"STORE_URI={store.as_uri()}",
        "-s",
        "FRONTIER_SHARDS=3",
    ]
    HERE.scrapy(
        "restore", checkpoints.uri(last), *options, "-s", f"METADATA_URI=sqlite:///{tmp_path}/pages.db"
    )
    result = start(tmp_path / "new", 0.05, CHECKPOINT_EVERY="1h", FRONTIER_SHARDS=3).wait()
    again = set(web.urls()[:killed]) & set(web.urls()[killed:])
    assert not again & before, "pages settled before the last checkpoint are fetched again"
    assert set(web.urls()) == graph.reachable(*seeds)
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
    assert f"checkpoint  {result.summary['checkpoint']['uri']} of 20" in result.stdout + result.stderr


def test_a_bloom_filter_has_no_periodic_checkpoints(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    seeds = [local_web(SITES[0]).url(SITES[0])]
    result = start_crawl("broad", seeds, CHECKPOINT_EVERY="6h", SEEN_SET="bloom").wait(status=2)
    assert 'CHECKPOINT_EVERY: a crawl with SEEN_SET = "bloom" has no checkpoints' in result.stderr


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
