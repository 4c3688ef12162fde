"""An S3 server, a connection to it, and its bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.crawls import NO_NAMES, CrawlResult
from tests.s3server import Line, S3Server
from tests.stores.buckets import environment


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.client.create_bucket(Bucket="pages")
        yield server


@pytest.fixture
def line(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """A connection to the server; boto3 finds its address in the environment, as in production."""
    with Line(server.port) as line:
        for name, value in environment(line).items():
            monkeypatch.setenv(name, value)
        yield line


@pytest.fixture
def bucket(server: S3Server) -> Callable[[], dict[str, bytes]]:
    """Returns the objects in the bucket "pages", by name. The bucket is emptied before the test."""
    client = server.client

    def names() -> list[str]:
        return [entry["Key"] for entry in client.list_objects_v2(Bucket="pages").get("Contents", [])]

    for name in names():
        client.delete_object(Bucket="pages", Key=name)
    return lambda: {
        name: client.get_object(Bucket="pages", Key=name)["Body"].read() for name in sorted(names())
    }


@pytest.fixture
def crawl_into(run_crawl: Callable[..., CrawlResult], line: Line) -> Callable[..., CrawlResult]:
    """Crawls the host of a URL into the store at another one."""

    def crawl(home: str, uri: str, **options: Any) -> CrawlResult:
        common = {"arguments": {"scope": "host"}, "DOWNLOAD_DELAY": 0, "DNS_SERVERS": NO_NAMES}
        result = run_crawl("broad", [home], STORE_URI=uri, **common, **options)
        return result

    return crawl
