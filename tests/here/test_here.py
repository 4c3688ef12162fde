"""What a Scrapy user knows, tried in one crawl; docs/reference/scrapy-here.md names these tests."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cases import cases
from tests.crawls import Crawl, CrawlResult
from tests.web import Hit, LocalWeb, Reply

SITE = "127.0.1.1"


@dataclass(frozen=True)
class Seen:
    """What the spider `here` wrote down, and what the web and the result of the crawl say."""

    facts: dict[str, Any]
    web: LocalWeb
    result: CrawlResult
    folder: Path

    @property
    def items(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "items.jsonl").read_text().splitlines()]

    def item(self, kind: str) -> dict[str, Any] | None:
        return next((item for item in self.items if item.get("kind") == kind), None)

    def asked(self, path: str) -> int:
        return self.web.paths(SITE).count(path)


def echo(hit: Hit) -> Reply:
    headers = {name.lower(): value for name, value in hit.headers.items()}
    body = {"method": hit.method, "headers": headers, "body": hit.body.decode()}
    return Reply(json.dumps(body), headers={"Content-Type": "application/json"})


def put_pages(web: LocalWeb) -> None:
    failures = iter([500])
    for path in (
        "followed",
        "a1",
        "a2",
        "again",
        "twice",
        "async",
        "inline",
        "error",
        "target",
        "private",
        "broken",
    ):
        web.put(SITE, f"/{path}", path)
    for path in ("headers", "put", "form", "json", "curl"):
        web.put(SITE, f"/{path}", echo)
    web.put(SITE, "/", "<title>home</title><a class=all href=/a1>1</a><a class=all href=/a2>2</a>")
    web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /private\n")
    web.put(SITE, "/gone", Reply("gone", status=410))
    web.put(SITE, "/moved", Reply(status=302, headers={"Location": "/target"}))
    web.put(SITE, "/unmoved", Reply(status=302, headers={"Location": "/elsewhere"}))
    web.put(SITE, "/flaky", lambda hit: Reply("flaky", status=next(failures, 200)))
    web.put(SITE, "/slow", Reply("slow", delay=1.5))
    web.put(SITE, "/large", "x" * 1000)
    web.put(SITE, "/file.bin", b"file")
    web.put(SITE, "/data.json", Reply('{"a": [1]}', headers={"Content-Type": "application/json"}))
    web.put(SITE, "/page.xml", Reply("<a><b>c</b></a>", headers={"Content-Type": "text/xml"}))
    packed = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    web.put(SITE, "/packed", Reply(gzip.compress(b"unpacked"), headers=packed))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("here")
    feeds = [
        word for form in ("jsonl", "json", "csv", "xml") for word in ("-o", str(folder / f"items.{form}"))
    ]
    with LocalWeb(SITE) as web:
        put_pages(web)
        result = Crawl.start(
            "here",
            folder=folder,
            data_dir=folder / "data",
            command=("crawl", *feeds),
            arguments={"home": web.host(SITE), "facts": folder / "facts.json", "extra": 1},
            POLITENESS_BACKOFF=0.1,
            FRONTIER_RETRY_DELAY=0.1,
            FRONTIER_MAX_ATTEMPTS=2,
            CONCURRENT_REQUESTS_PER_DOMAIN=8,
            ALLOWED_NETWORKS="127.0.0.0/8",
            HTTPAUTH_USER="ann",
            HTTPAUTH_PASS="secret",
            HTTPAUTH_DOMAIN=web.host(SITE).removeprefix("http://"),
            FILES_STORE=folder / "files",
            SPIDER_MODULES="tests.here.here_spider",
            AUTOTHROTTLE_ENABLED=True,
        ).wait()
        assert (folder / "facts.json").exists(), result.stderr
        yield Seen(json.loads((folder / "facts.json").read_text()), web, result, folder)


def test_a_spider_starts_with_its_arguments(seen: Seen) -> None:
    assert seen.result.returncode == 0, seen.result.stderr
    assert seen.facts["arguments"] == {"extra": "1"}
    assert seen.item("item from start")
    assert seen.facts["reason"] == "finished"


def test_arguments_and_meta_reach_the_callback(seen: Seen) -> None:
    first = seen.facts["first"]
    assert (first["place"], first["mine"], first["depth"]) == ("start", "[1, {'two': (3,)}]", 0)
    assert first["latency"] >= 0


def test_a_response_has_its_class_and_selectors(seen: Seen) -> None:
    first = seen.facts["first"]
    assert (first["css"], first["xpath"], first["re"], first["encoding"]) == ("home", "home", "home", "utf-8")
    assert (first["class"], first["status"], first["flags"]) == ("HtmlResponse", 200, [])
    assert first["joined"] == seen.web.url(SITE, "/x")
    assert seen.facts["json"] == {"value": {"a": [1]}, "class": "JsonResponse"}
    assert seen.facts["xml"] == {"value": "c", "class": "XmlResponse"}


def test_a_response_tells_its_connection(seen: Seen) -> None:
    first = seen.facts["first"]
    assert (first["ip_address"], first["protocol"], first["certificate"]) == (SITE, "HTTP/1.1", None)


def test_links_are_followed_by_follow_and_follow_all(seen: Seen) -> None:
    assert {"/followed", "/a1", "/a2"} <= seen.facts["statuses"].keys()


def test_a_url_is_fetched_once_unless_dont_filter_is_set(seen: Seen) -> None:
    assert (seen.asked("/again"), seen.asked("/twice")) == (1, 2)
    assert seen.facts["order"].count("/twice") == 2


def test_requests_of_all_kinds_are_sent(seen: Seen) -> None:
    got = {name: seen.facts[f"sent {name}"]["echo"] for name in ("headers", "put", "form", "json", "curl")}
    assert got["headers"]["headers"]["x-mine"] == "yes"
    assert seen.facts["sent headers"]["flags"] == ["flagged"]
    assert (got["put"]["method"], got["put"]["body"]) == ("PUT", "the body")
    assert (got["form"]["method"], got["form"]["body"]) == ("POST", "q=a+b")
    assert json.loads(got["json"]["body"]) == {"a": 1}
    assert got["curl"]["headers"]["x-curl"] == "1"


def test_usual_headers_are_sent(seen: Seen) -> None:
    headers = seen.facts["sent headers"]["echo"]["headers"]
    assert headers["referer"] == seen.web.url(SITE)
    assert headers["user-agent"].startswith("webcrawl/")
    assert {"accept", "accept-encoding"} <= headers.keys()


def test_errors_of_http_go_to_the_errback(seen: Seen) -> None:
    assert seen.facts["failures"]["/gone"] == "HttpError"
    # handle_httpstatus_list of the spider, handle_httpstatus_all of the request
    assert (seen.facts["statuses"]["/missing"], seen.facts["statuses"]["/gone?handled"]) == (404, 410)


def test_redirects_are_followed(seen: Seen) -> None:
    assert seen.facts["moved 200"] == {"url": "/target", "urls": ["/moved"], "times": 1}
    assert seen.facts["moved 302"]["url"] == "/unmoved"
    assert seen.asked("/elsewhere") == 0


def test_failed_requests_are_tried_again(seen: Seen) -> None:
    assert seen.asked("/flaky") == 2
    assert seen.facts["statuses"]["/flaky"] == 200
    assert seen.asked("/slow") == 1, "dont_retry"


def test_limits_of_a_request_hold(seen: Seen) -> None:
    assert seen.facts["failures"]["/slow"] == "DownloadTimeoutError"
    assert seen.facts["failures"]["/large"] == "DownloadCancelledError"


def test_robots_txt_is_obeyed_unless_a_request_says_otherwise(seen: Seen) -> None:
    assert seen.facts["failures"]["/private"] == "IgnoreRequest"
    assert (seen.asked("/private"), seen.asked("/private?asked")) == (0, 1)


def test_requests_outside_of_allowed_domains_are_dropped(seen: Seen) -> None:
    assert seen.facts["signals"]["request_dropped"] >= 1
    assert "http://127.0.1.9/" not in seen.facts["failures"]


def test_schemes_other_than_http_and_ftp_are_skipped(seen: Seen) -> None:
    assert "Skipping a request: " in seen.result.stderr


def test_callbacks_may_be_coroutines(seen: Seen) -> None:
    assert seen.facts["inline"] == 200
    assert seen.item("from a coroutine")


def test_an_error_of_a_callback_is_logged_and_counted(seen: Seen) -> None:
    assert "a defect of the user's callback" in seen.result.stderr
    assert seen.facts["signals"]["spider_error"] == 1
    assert seen.facts["stats"]["spider_exceptions/RuntimeError"] == 1


def test_items_of_all_kinds_are_exported(seen: Seen) -> None:
    assert {"name": "home", "price": ["3"]} in seen.items
    assert {"city": "Rome"} in seen.items
    assert seen.item("dict")


def test_feeds_of_all_formats_are_written(seen: Seen) -> None:
    assert len(json.loads((seen.folder / "items.json").read_text())) == len(seen.items)
    assert "<city>Rome</city>" in (seen.folder / "items.xml").read_text()
    with (seen.folder / "items.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(seen.items)


def test_components_of_a_user_stand_beside_ours(seen: Seen) -> None:
    assert seen.facts["sent put"]["echo"]["headers"]["x-own"] == "middleware"
    assert seen.facts["failures"]["/ignored"] == "IgnoreRequest"
    assert seen.item("from a spider middleware")
    kept = seen.item("dict")
    assert kept and kept["seen_by"] == "the user's pipeline"
    assert [row["url"] for row in seen.result.rows()] == [seen.web.url(SITE)]
    assert list((seen.result.data_dir / "warc").glob("*.warc.gz"))


def test_pipelines_may_drop_items(seen: Seen) -> None:
    assert seen.item("dropped") is None
    assert seen.facts["signals"]["item_dropped"] == 1


def test_a_page_whose_item_failed_in_a_pipeline_is_fetched_again(seen: Seen) -> None:
    assert "a defect of the user's pipeline" in seen.result.stderr
    assert seen.facts["signals"]["item_error"] == seen.asked("/broken") == 2


def test_the_files_pipeline_stores_files(seen: Seen) -> None:
    item = seen.item("with a file")
    assert item and item["files"][0]["url"] == seen.web.url(SITE, "/file.bin")
    assert (seen.folder / "files" / item["files"][0]["path"]).read_bytes() == b"file"


@cases(
    "name",
    [
        *("spider_opened", "spider_idle", "engine_started", "scheduler_empty", "request_scheduled"),
        *("request_reached_downloader", "request_left_downloader", "headers_received", "bytes_received"),
        *("response_downloaded", "response_received", "item_scraped"),
    ],
)
def test_signals_are_sent(seen: Seen, name: str) -> None:
    assert seen.facts["signals"][name] > 0


def test_stats_are_collected(seen: Seen) -> None:
    stats = seen.facts["stats"]
    assert stats["item_scraped_count"] >= 6
    assert stats["response_received_count"] > 10
    assert stats["request_depth_max"] == 1
    assert stats["log_count/ERROR"] >= 1


def test_the_log_begins_at_warnings(seen: Seen) -> None:
    assert " WARNING: " in seen.result.stderr
    assert " INFO: " not in seen.result.stderr


def test_settings_are_read_as_in_scrapy(seen: Seen) -> None:
    assert seen.facts["settings"] == {"bot": "webcrawl", "retry": 2}
    assert seen.result.stderr.count("AUTOTHROTTLE_ENABLED = 'True' has no effect") == 1


def test_content_codings_are_undone(seen: Seen) -> None:
    assert seen.facts["packed"] == {"text": "unpacked", "coding": None}


def test_credentials_are_sent_to_their_domain(seen: Seen) -> None:
    assert seen.facts["sent headers"]["echo"]["headers"]["authorization"].startswith("Basic ")


RunCrawl = Callable[..., CrawlResult]
