"""The frontier on a cluster that is reached by TLS alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import LocalCluster, until
from tests.frontier.pages import all_done, page
from tests.terminator import Terminator, terminating
from tests.unit.crawler.download.test_http_ways import Authority
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Frontier

HOSTS = [f"http://h{n}.test" for n in range(20)]

EngineAt = Callable[..., Engine]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "127.0.0.1")


@pytest.fixture
def cluster_by_tls(authority: Authority) -> Iterator[list[Terminator]]:
    """Three servers without replicas, whose replies name the terminators before them."""
    with LocalCluster(3, replicas=0) as cluster:
        nodes = {node.port: node for node in cluster.nodes}
        with terminating(authority.context, list(nodes)) as fronts:
            for port, front in fronts.items():
                nodes[port].client.config_set("cluster-announce-port", front.port)
            shown = {front.port for front in fronts.values()}
            until(lambda: all(_ports(node.cluster("NODES")) == shown for node in cluster.nodes))
            yield list(fronts.values())


def _ports(nodes: dict[str, object]) -> set[int]:
    return {int(address.partition("@")[0].rpartition(":")[2]) for address in nodes}


async def test_a_cluster_is_used_by_tls(
    engine_at: EngineAt, cluster_by_tls: list[Terminator], authority: Authority, tmp_path: Path
) -> None:
    nodes = ",".join(f"127.0.0.1:{front.port}" for front in cluster_by_tls[:2])
    engine = engine_at(f"rediss://{nodes}?ssl_ca_certs={authority.file}")
    await engine.check()
    assert engine.is_cluster
    frontier = Frontier(engine, Keys("crawl", 16), "w1")
    assert await frontier.add([page(f"{host}/") for host in HOSTS]) == [True] * len(HOSTS)
    leases = await frontier.lease(len(HOSTS), 1)
    for lease in leases:
        assert await frontier.release(lease, all_done(lease), pause=0.0)
    counts = await frontier.counts()
    assert (counts.done, counts.open) == (len(HOSTS), 0)
    assert all(front.connections for front in cluster_by_tls), "also the node that the URL does not name"
    # a certificate that nobody known has signed
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "127.0.0.1").file
    with pytest.raises(EngineUnavailable, match="certificate verify failed"):
        await engine_at(f"rediss://{nodes}?ssl_ca_certs={other}").check()
