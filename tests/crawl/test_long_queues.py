"""A crawl whose queues exceed the limit of the engine and are spilled to segments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.crawls import Crawl, until
from tests.web import LocalWeb

SITE = "127.0.1.1"


def test_a_killed_crawl_continues_with_its_spilled_queue(
    start_crawl: Callable[..., Crawl], local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web(SITE)
    paths = [f"/{number}" for number in range(100)]
    web.put(SITE, "/", "".join(f"<a href={path}>{path}</a>" for path in paths))
    for path in paths:
        web.put(SITE, path, f"page {path}")

    def start(**settings: object) -> Crawl:
        pace = {"DOWNLOAD_DELAY": 0.01, "tuned": {"lease_urls": 4}, "FRONTIER_HOT_URLS": 40, **settings}
        return start_crawl("broad", [web.url(SITE)], data_dir=tmp_path / "data", **pace)

    first = start(DOWNLOAD_DELAY=0.05)
    folder = tmp_path / "data" / "frontier"
    until(lambda: len(web.hits) >= 20 and bool(list(folder.glob("broad-*/*/*"))), first)
    first.kill()
    assert len(web.hits) < 100, "the crawl ended before the kill"
    result = start().wait()
    assert result.summary["finish_reason"] == "finished"
    assert [result.summary[name] for name in ("queued", "spilled", "lost_segments")] == [0, 0, 0]
    fetched = [path for path in web.paths(SITE) if path in paths]
    assert list(dict.fromkeys(fetched)) == paths, "the pages must be fetched in the order of the links"
