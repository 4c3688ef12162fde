"""Workers on a Valkey cluster while slots are moved and a server dies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster import LocalCluster
from tests.crawls import Crawl, until
from tests.web import LocalWeb
from webcrawl.engine.keys import Keys

SITES = [f"127.0.2.{n}" for n in range(1, 13)]
PAGES = 25


@pytest.mark.slow
def test_two_workers_lose_no_url_when_a_cluster_server_dies(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl]
) -> None:
    web = local_web(*SITES)
    for label in SITES:
        for number in range(PAGES):
            links = "".join(
                f"<a href=/{n or ''}>{n}</a>" for n in (2 * number + 1, 2 * number + 2) if n < PAGES
            )
            web.put(label, f"/{number or ''}", f"<p>{label} {number}</p>{links}")
    keys = Keys("broad", 16)
    with LocalCluster() as cluster:
        # a worker that starts slowly must still reach the server in its REDIS_URL
        staying = next(node for node in cluster.primaries if node is not cluster.owner(keys.own()))
        crawl = start_crawl(
            "broad",
            [web.url(label) for label in SITES],
            command=("workers", "2"),
            REDIS_URL=f"redis://127.0.0.1:{staying.port}",
            DOWNLOAD_DELAY=0.05,
            FRONTIER_LEASE_SECONDS=4,
        )
        until(lambda: len(web.log()) > 60, crawl)
        moved = keys.counters(keys.shard(web.host(SITES[0])))
        source = cluster.owner(moved)
        cluster.move(moved, next(node for node in cluster.primaries if node is not source))
        dying = cluster.owner(keys.own())
        replica = cluster.replica_of(dying)
        dying.kill()
        cluster.takes_over(replica)
        result = crawl.wait(60)
    assert set(web.urls()) == {row["url"] for row in result.rows()}
    assert len(result.rows()) == result.summary["pages"] == len(SITES) * PAGES
    assert all(web.max_concurrency(label) == 1 for label in SITES)
    assert min(web.min_gap(label) for label in SITES) >= 0.05
