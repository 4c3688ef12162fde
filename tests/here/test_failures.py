"""What a Scrapy user sees of requests and pipelines that fail; docs/reference/scrapy-here.md names these tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import Crawl
from tests.nameserver import Nameserver
from tests.web import LocalWeb, Reply

SITE = "127.0.1.1"


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the spider `failing` wrote down, its items, and the URL of its site."""
    folder = tmp_path_factory.mktemp("failing")
    with LocalWeb(SITE) as web, Nameserver({}) as names:
        web.put(SITE, "/article1", "one")
        web.put(SITE, "/article2", "two")
        web.put(SITE, "/unwell", Reply("unwell", status=500))
        web.put(SITE, "/cut", Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort"))
        web.put(SITE, "/closed", Reply(abort=True))
        result = Crawl.start(
            "failing",
            folder=folder,
            data_dir=folder / "data",
            command=("crawl", "-o", str(folder / "items.jsonl")),
            arguments={"home": web.host(SITE), "facts": folder / "facts.json"},
            ALLOWED_NETWORKS="127.0.0.0/8",
            DNS_SERVERS=names.address,
            FRONTIER_MAX_ATTEMPTS=2,
            FRONTIER_RETRY_DELAY=0.1,
            LOG_LEVEL="DEBUG",
            POLITENESS_BACKOFF=0.1,
            SPIDER_MODULES="tests.here.kinds",
        ).wait()
        items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
        written = json.loads((folder / "facts.json").read_text())
        yield {
            **written,
            "errors": {item["url"]: item["error"] for item in items},
            "site": web.host(SITE),
            "stderr": result.stderr,
        }


def test_an_errback_is_called_for_a_scheme_that_is_not_fetched(facts: dict[str, Any]) -> None:
    errors = facts["errors"]
    assert errors["foo://bar/"] == errors["data:,x"] == errors["foo://bar/awaited"] == "NotSupported"
    assert errors[facts["site"] + "/article2"] == "", "the request that an errback made is sent"
    assert facts["stderr"].count("Skipping a request: ") == 3
    assert facts["stats"]["frontier/invalid_urls"] == 3


def test_a_request_for_an_unknown_name_reaches_and_leaves_the_downloader(facts: dict[str, Any]) -> None:
    assert facts["errors"]["http://nowhere.test/"] == "CannotResolveHostError"
    assert facts["reached"]["http://nowhere.test/"] == facts["left"]["http://nowhere.test/"] == 1


def test_statistics_of_feeds_have_the_names_of_scrapy(facts: dict[str, Any]) -> None:
    assert facts["stats"]["feedexport/success_count/FileFeedStorage"] == 1


def test_retries_are_logged_and_counted_as_in_scrapy(facts: dict[str, Any]) -> None:
    assert facts["errors"][facts["site"] + "/unwell"] == "HttpError"
    assert {name: number for name, number in facts["stats"].items() if name.startswith("retry/")} == {
        "retry/count": 3,
        "retry/max_reached": 3,
        "retry/reason_count/500 Internal Server Error": 1,
        "retry/reason_count/scrapy.exceptions.DownloadFailedError": 1,
        "retry/reason_count/scrapy.exceptions.ResponseDataLossError": 1,
    }
    assert facts["stderr"].count(f"Retrying <GET {facts['site']}/unwell> (failed 1 times): ") == 1
    assert facts["stderr"].count(f"Gave up retrying <GET {facts['site']}/unwell> (failed 2 times): ") == 1


def test_a_pipeline_that_does_not_open_ends_the_crawl_in_order(tmp_path: Path) -> None:
    with LocalWeb(SITE) as web:
        result = Crawl.start(
            "csv",
            folder=tmp_path,
            data_dir=tmp_path / "data",
            arguments={"home": web.host(SITE)},
            ITEM_PIPELINES=json.dumps({"tests.here.kinds.NotOpening": 955}),
            SPIDER_MODULES="tests.here.kinds",
        ).wait(status=None)
        assert web.paths(SITE) == []
    assert result.returncode == 1
    assert "this pipeline does not open" in result.stderr
    assert "never awaited" not in result.stderr
