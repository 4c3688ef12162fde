"""The results of mining in S3, against a real S3 server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.s3server import Line, weed_binary
from tests.unit.links.rows import entry
from webcrawl.config import StoreConfig
from webcrawl.errors import StoreError
from webcrawl.links.sources import link_files
from webcrawl.links.store import open_link_store
from webcrawl.mining.workspace import Workspace
from webcrawl.policies.mined import Mined
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.weights_file import MinedChanges, WeightsFile

pytestmark = pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")

A, B = "http://a.example/", "http://b.example/"


def test_links_are_mined_and_weights_read_from_the_bucket(
    line: Line, bucket: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    uri = "s3://pages/crawl"
    config = StoreConfig(uri, "", tmp_path / "here", links=f"{uri}/links", mined=f"{uri}/mined")
    store = open_link_store(config, "broad")
    store.write([entry(A, B)])
    store.close()
    with Workspace(tmp_path / "there") as workspace:
        workspace.load_links(link_files(config))
        assert workspace.run("SELECT from_url, to_url FROM links").fetchall() == [(A, B)]
    file, used = WeightsFile.of(config), list[Mined]()
    assert file.changed() is None
    file.write(Mined("first"))
    asyncio.run(MinedChanges(WeightsFile.of(config), used.append).update())
    assert used == [Mined("first")] and file.changed() == Mined("first") and file.changed() is None
    file.write(Mined("second"))
    assert file.changed() == Mined("second")
    open_store(config.mined, "test").put("weights", bucket()["crawl/mined/weights"][:-1])
    assert file.changed() is None, "its head is the same"
    open_store(config.mined, "test").put("weights", b"damaged")
    with pytest.raises(StoreError, match="s3://pages/crawl/mined/weights is not used: it has no weights"):
        file.changed()
