"""The queues of clients on a cluster: each script uses the keys of one slot, and a crawl uses all servers."""

from __future__ import annotations

import asyncio

from tests.cluster import LocalCluster
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.urlfrontier.conversion import DISCOVERED, Row
from webcrawl.urlfrontier.queues import NO_LIMIT, ClientQueues

CRAWL = "clients"


async def use(url: str) -> None:
    engine = Engine(url)
    await engine.check()
    assert engine.is_cluster
    queues = ClientQueues(engine, Keys("any", 8), "server")
    rows = [Row(CRAWL, f"h{n}.test", f"https://h{n}.test/", DISCOVERED, b"") for n in range(40)]
    try:
        assert all(await queues.put(rows)) and not any(await queues.put(rows))
        given = [delivery async for delivery in queues.get(CRAWL, "", NO_LIMIT, 1, 60)]
        assert {delivery.queue for delivery in given} == {row.queue for row in rows}
        assert all(await queues.put([row._replace(date=0) for row in rows]))
        assert sum([state.completed async for state in queues.states(CRAWL)]) == 40
        assert len([url async for url in queues.all_stored(CRAWL)]) == 40
        await queues.announce("127.0.0.1:1", 60)
        assert await queues.nodes() == ["127.0.0.1:1"]
        await queues.set_active(False)
        await queues.set_default_delay(5)
        assert await queues.control() == (False, 5.0)
        assert await queues.crawls() == [CRAWL]
        assert await queues.delete_crawl(CRAWL) == 40
        assert await queues.crawls() == []
    finally:
        await engine.close()


def test_a_cluster_serves_clients() -> None:
    with LocalCluster(primaries=2, replicas=0) as cluster:
        asyncio.run(asyncio.wait_for(use(cluster.url), 60))
