"""Crawls of pages that have not changed, without validators: the archive refers to the payloads of earlier crawls."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow.parquet
import pytest
from scrapy.settings import Settings
from warcio.archiveiterator import ArchiveIterator

from tests.crawl import archive
from tests.crawl.reparsing import reparse
from tests.crawls import NO_NAMES, CrawlResult, crawl_hosts, scrapy
from tests.web import Hit, LocalWeb, Reply
from webcrawl.config import FetchConfig, StoreConfig
from webcrawl.stores.stored_pages import StoredPages

SITE = "127.0.1.1"
PATHS = [f"/{number}" for number in range(6)]
PAGES = {path: f"<title>{path}</title><p>" + f"word{path} " * 30 for path in PATHS}
CHANGED = "<title>new</title><p>" + "another word " * 30
CRAWLS = ("first", "second", "third")
Crawls = tuple[LocalWeb, CrawlResult]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawls]:
    """Runs three crawls with one database and one archive; before the last, a page changes."""
    folder = tmp_path_factory.mktemp("unchanged")
    with LocalWeb(SITE) as web:
        web.put(SITE, "/", "".join(f"<a href={path}>x</a>" for path in [*PATHS, "/copy"]))
        for path, body in PAGES.items():
            web.put(SITE, path, body)
        # slow, so that its original is stored before
        web.put(SITE, "/copy", Reply(PAGES["/0"], delay=1))
        for crawl in ("first", "second", "third"):
            if crawl == "third":
                web.put(SITE, "/1", CHANGED)
            result = crawl_hosts(
                [web.url(SITE)], folder, CRAWL_ID=crawl, METADATA_HISTORY=1, TEXT="wet,parquet"
            )
            assert result.returncode == 0, result.stderr
        yield web, result


def records_of(file: Any) -> list[tuple[str, dict[str, str], bytes]]:
    """Returns type, header and payload of the responses and revisits in a WARC file."""
    return [
        (record.rec_type, dict(record.rec_headers.headers), record.content_stream().read())
        for record in ArchiveIterator(file)
        if record.rec_type in ("response", "revisit")
    ]


def records(data_dir: Path, crawl: str) -> list[tuple[str, dict[str, str], bytes]]:
    (path,) = (data_dir / "warc").glob(f"{crawl}-*.warc.gz")
    with path.open("rb") as file:
        return records_of(file)


def test_only_new_payloads_are_archived(crawled: Crawls) -> None:
    web, result = crawled
    archive.check(result.data_dir)
    kinds = {crawl: Counter(kind for kind, *_ in records(result.data_dir, crawl)) for crawl in CRAWLS}
    assert kinds["first"] == {"response": 7, "revisit": 1}
    assert (kinds["second"]["revisit"], kinds["third"]["response"]) == (8, 1)
    archived = {
        (headers["WARC-Target-URI"], headers["WARC-Date"]): headers["WARC-Payload-Digest"]
        for crawl in CRAWLS
        for kind, headers, _ in records(result.data_dir, crawl)
        if kind == "response"
    }
    for crawl in CRAWLS:
        for kind, headers, payload in records(result.data_dir, crawl):
            if kind == "revisit":
                referred = headers["WARC-Refers-To-Target-URI"], headers["WARC-Refers-To-Date"]
                assert archived[referred] == headers["WARC-Payload-Digest"] and not payload
                assert headers["WARC-Profile"].endswith("/identical-payload-digest")
    urls = {row["url"]: (row["fetches"], row["crawl"]) for row in result.rows()}
    assert urls == {web.url(SITE, path): (3, "third") for path in ("/", "/copy", *PATHS)}


def test_stored_pages_have_their_bodies(crawled: Crawls) -> None:
    web, result = crawled
    settings = Settings({"DATA_DIR": str(result.data_dir)})
    with StoredPages(StoreConfig.from_settings(settings), FetchConfig.from_settings(settings)) as stored:
        bodies = {row["url"]: stored.body(row) for row in stored.rows("third")}
    expected = PAGES | {"/1": CHANGED, "/copy": PAGES["/0"]}
    assert {path: bytes(bodies[web.url(SITE, path)] or b"") for path in expected} == {
        path: body.encode() for path, body in expected.items()
    }
    options = ("-s", f"DATA_DIR={result.data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}")
    assert scrapy("page", web.url(SITE, "/2"), "--body", *options).stdout == PAGES["/2"]
    assert "word/2" in scrapy("page", web.url(SITE, "/2"), "--text", *options).stdout


def test_unchanged_texts_are_stored_once_and_are_current(crawled: Crawls, tmp_path: Path) -> None:
    web, result = crawled
    written = Counter(
        row["crawl"] for row in pyarrow.parquet.read_table(result.data_dir / "texts").to_pylist()
    )
    assert written == {"first": 7, "third": 1}
    options = ("-s", f"DATA_DIR={result.data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}")
    scrapy("export", "--format", "texts", "-o", str(tmp_path / "current"), *options)
    current = {
        row["url"]: row["text"] for row in pyarrow.parquet.read_table(tmp_path / "current").to_pylist()
    }
    assert set(current) == {web.url(SITE, path) for path in ("/", *PATHS)}
    assert (
        current[web.url(SITE, "/1")].startswith("another word") and "word/2" in current[web.url(SITE, "/2")]
    )


def test_the_index_has_the_texts_of_earlier_crawls(crawled: Crawls, tmp_path: Path) -> None:
    """Without the archive, they can only be those that are stored."""
    _, result = crawled
    data_dir = tmp_path / "data"
    shutil.copytree(result.data_dir, data_dir, ignore=shutil.ignore_patterns("engine", "wet", "warc"))
    options = ("-s", f"DATA_DIR={data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}")
    figures = json.loads(scrapy("search", "--update", "--json", *options).stdout)
    assert (figures["added"], figures["unread"]) == (8, 0)


def test_reparse_reads_the_payloads_of_earlier_crawls(crawled: Crawls) -> None:
    _, result = crawled
    before = {row["url"]: json.loads(row["details"] or "{}") for row in result.rows()}
    done = reparse(result.data_dir, "--json", "--crawl", "third")
    assert json.loads(done.stdout)["pages"] == 8, done.stderr
    after = {row["url"]: json.loads(row["details"] or "{}") for row in result.rows()}
    assert after == before and sum("payload" in details for details in after.values()) >= 6


def test_a_wacz_file_has_the_payloads_of_earlier_crawls(crawled: Crawls, tmp_path: Path) -> None:
    _, result = crawled
    output = tmp_path / "third.wacz"
    words = ("export", "--format", "wacz", "-o", str(output), "--crawl", "third", "--text")
    done = scrapy(*words, "-s", f"DATA_DIR={result.data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}")
    assert "Its list has 8 HTML pages" in done.stdout and "304" not in done.stderr
    packed: dict[tuple[str, str], str] = {}
    revisits: list[dict[str, str]] = []
    with ZipFile(output) as file:
        for name in file.namelist():
            if name.startswith("archive/"):
                for kind, headers, payload in records_of(io.BytesIO(file.read(name))):
                    if kind == "response" and payload:
                        key = headers["WARC-Target-URI"], headers["WARC-Date"]
                        assert key not in packed
                        packed[key] = headers["WARC-Payload-Digest"]
                    elif kind == "revisit":
                        revisits.append(headers)
        pages = [json.loads(line) for line in file.read("pages/pages.jsonl").splitlines()[1:]]
    assert len(revisits) == len(packed) == 7
    for headers in revisits:
        referred = headers["WARC-Refers-To-Target-URI"], headers["WARC-Refers-To-Date"]
        assert packed[referred] == headers["WARC-Payload-Digest"]
    texts = {page["url"].rpartition("/")[2]: page.get("text", "") for page in pages}
    assert "another word" in texts["1"] and "word/2" in texts["2"]


def test_a_crawl_by_itself_archives_all_payloads(tmp_path: Path) -> None:
    with LocalWeb(SITE) as web:
        web.put(SITE, "/", "<p>the same")
        for crawl in ("first", "second"):
            result = crawl_hosts([web.url(SITE)], tmp_path, CRAWL_ID=crawl, DEDUP_ACROSS="crawl")
    kinds = [kind for crawl in ("first", "second") for kind, *_ in records(result.data_dir, crawl)]
    assert kinds == ["response", "response"]


def test_a_payload_whose_file_was_deleted_is_archived_again(tmp_path: Path) -> None:
    with LocalWeb(SITE) as web:
        web.put(SITE, "/", "<p>the same")
        for crawl in CRAWLS:
            data_dir = crawl_hosts([web.url(SITE)], tmp_path, CRAWL_ID=crawl).data_dir
            for path in (data_dir / "warc").glob("first-*"):
                path.unlink()
    assert [kind for name in ("second", "third") for kind, *_ in records(data_dir, name)] == [
        "response",
        "revisit",
    ]


def test_unchanged_links_are_stored_once_and_are_current(tmp_path: Path) -> None:
    validated, plain, lost = "/validated", "/plain", "/lost"
    links, nofollow = f"<p>{'words ' * 20}<a href=/target>t</a>", {"X-Robots-Tag": "nofollow"}

    def answer(hit: Hit) -> Reply:
        status = 304 if "if-none-match" in {name.lower() for name in hit.headers} else 200
        return Reply(f"<title>v</title>{links}" * (status == 200), status, {"ETag": '"1"'})

    with LocalWeb(SITE) as web:
        web.put(SITE, "/", "".join(f"<a href={path}>x</a>" for path in (validated, plain, lost)))
        web.put(SITE, validated, answer)
        web.put(SITE, plain, f"<title>plain</title>{links}")
        web.put(SITE, lost, f"<title>lost</title>{links}")
        stored = []
        for run in range(4):
            if run == 2:
                web.put(SITE, plain, Reply(f"<title>plain</title>{links}", headers=nofollow))
                web.put(SITE, lost, f"<title>lost</title><p>{'words ' * 20}")
            result = crawl_hosts(
                [web.url(SITE)], tmp_path, LINKS=True, REVISIT=True, SCHEDULER_FLUSH_ON_START=True
            )
            assert result.returncode == 0, result.stderr
            stored.append(pyarrow.parquet.read_table(result.data_dir / "links").to_pylist())
        target = web.url(SITE, "/target")
        options = ("-s", f"DATA_DIR={result.data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}")
        told = scrapy("links", "--in", target, "--json", *options).stdout
        current = {row["from_url"]: row["nofollow"] for row in map(json.loads, told.splitlines())}
    assert len(stored[0]) == len(stored[1]) == 6
    new = [(row["from_url"], row["nofollow"]) for row in stored[2] if row not in stored[1]]
    assert new == [(web.url(SITE, plain), True)]
    assert len(stored[3]) == len(stored[2]) == 7
    assert current == {web.url(SITE, validated): False, web.url(SITE, plain): True}
