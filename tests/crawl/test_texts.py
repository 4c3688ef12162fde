"""The text of pages: stored while they are crawled, and read from the archive again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator

from tests.crawls import NO_NAMES, Crawl, CrawlResult, crawl_hosts, scrapy, until
from tests.documents import pdf
from tests.unit.warcs import check
from tests.web import LocalWeb, Reply
from webcrawl.stores.warc.files import read_record

StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
WORDS = " ".join(f"word{number}" for number in range(40))
ARTICLE = f"""<html lang=en><title>An article</title><nav><a href=/>menu</a></nav><article><h1>Heading</h1>
<p>{WORDS} <a href=/a>a link</a>.<table><tr><th>one<th>two<tr><td>1<td><a href=/a>2</a></table></article>"""
PAGES = {
    "/": "".join(
        f"<a href={path}>to {path}</a> " for path in ("/a", "/copy", "/secret", "/gone", "/doc", "/none")
    ),
    "/a": ARTICLE,
    "/copy": ARTICLE,
    "/secret": "<meta name=robots content=noarchive><p>not to be archived",
    "/none": "<img src=x>",
}
MARKDOWN = f"""# Heading

{WORDS} [a link]({{site}}/a).

| one | two |
| --- | --- |
| 1 | [2]({{site}}/a) |"""


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalWeb, CrawlResult]]:
    with LocalWeb(SITE) as web:
        for path, markup in PAGES.items():
            late = 0.5 if path == "/copy" else 0.0
            web.put(SITE, path, Reply(markup, headers={"Content-Type": "text/html"}, delay=late))
        web.put(SITE, "/gone", Reply("<p>it is gone", status=410, headers={"Content-Type": "text/html"}))
        web.put(SITE, "/doc", Reply(pdf("Text of a document"), headers={"Content-Type": "application/pdf"}))
        folder = tmp_path_factory.mktemp("texts")
        settings = {"TEXT": "wet,parquet", "TEXT_MARKDOWN": True, "LISTENERS_MAXLEN": 100}
        yield web, crawl_hosts([web.url(SITE, "/")], folder, **settings)


def conversions(folder: Path, name: str = "wet") -> list[tuple[dict[str, str], str]]:
    """The records of all files of texts, without warcinfo, read by warcio; FastWARC has to read the same."""
    found, others = [], []
    for path in sorted((folder / name).iterdir()):
        check(path)
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                assert record.rec_type in ("warcinfo", "conversion")
                if record.rec_type == "conversion":
                    text = record.content_stream().read().decode()
                    found.append((dict(record.rec_headers.headers), text))
        with path.open("rb") as file:
            others += [record.reader.read().decode() for record in FastIterator(file)][1:]
    assert [text for _, text in found] == others
    return found


def test_archived_pages_have_their_text_in_wet_files(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    assert result.returncode == 0, result.stderr
    found = conversions(result.data_dir)
    responses = {}
    for path in (result.data_dir / "warc").glob("*.warc.gz"):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                responses[record.rec_headers["WARC-Record-ID"]] = record.rec_headers
    by_path: dict[str, dict[str, Any]] = {}
    for headers, text in found:
        response = responses[headers["WARC-Refers-To"]]
        assert response["WARC-Type"] == "response"
        for name in ("WARC-Target-URI", "WARC-Date"):
            assert response[name] == headers[name]
        path = headers["WARC-Target-URI"].removeprefix(web.url(SITE, "/").rstrip("/"))
        by_path.setdefault(path, {})[headers["Content-Type"]] = text
        assert path != "/a" or headers["WARC-Identified-Content-Language"] == "eng"
    # the copy is a revisit; "/secret" is not archived; "/none" has no text
    # "/gone" answers 410
    assert by_path.keys() == {"/", "/a", "/doc"} and len(found) == len(by_path)
    assert by_path["/a"] == {"text/plain": f"Heading\n{WORDS} a link.\none\ntwo\n1\n2"}
    assert by_path["/doc"] == {"text/plain": "Text of a document"}
    written = {headers["WARC-Target-URI"]: text for headers, text in conversions(result.data_dir, "markdown")}
    assert written.keys() == {web.url(SITE, "/"), web.url(SITE, "/a")}
    assert written[web.url(SITE, "/a")] == MARKDOWN.format(site=web.host(SITE))


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows of all Parquet files, by URL."""
    tables = [pyarrow.parquet.read_table(path) for path in sorted((folder / "texts").iterdir())]
    found = [row for table in tables for row in table.to_pylist()]
    by_url = {row["url"]: row for row in found}
    assert len(by_url) == len(found)
    return by_url


def test_archived_pages_have_their_text_in_parquet_files(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    found = rows(result.data_dir)
    stored = {row["url"]: row for row in result.rows()}
    assert found.keys() == {web.url(SITE, path) for path in ("/", "/a", "/gone", "/doc")}
    article = found[web.url(SITE, "/a")]
    assert (article["title"], article["language"], article["crawl"]) == ("An article", "en", "broad")
    assert article["text"] == f"Heading\n{WORDS} a link.\none\ntwo\n1\n2"
    assert article["markdown"] == MARKDOWN.format(site=web.host(SITE))
    assert found[web.url(SITE, "/doc")]["markdown"] is None
    for url, row in found.items():
        for name in ("digest", "mime_type", "status", "warc_file", "warc_offset"):
            assert row[name] == stored[url][name]


@pytest.mark.parametrize("part", ["page", "both"])
def test_texts_of_whole_pages_are_stored_and_read_on_request(
    crawled: tuple[LocalWeb, CrawlResult], tmp_path: Path, part: str
) -> None:
    web, _ = crawled
    settings = {"TEXT": "wet,parquet", "TEXT_MARKDOWN": True, "TEXT_PART": part, "DEPTH_LIMIT": 0}
    url = web.url(SITE, "/a")
    result = crawl_hosts([url], tmp_path, **settings)
    main = f"Heading\n{WORDS} a link.\none\ntwo\n1\n2"
    markdown = MARKDOWN.format(site=web.host(SITE))
    whole, whole_markdown = f"menu\n{main}", f"[menu]({web.url(SITE, '/')})\n\n{markdown}"
    row = rows(result.data_dir)[url]
    stored = [row[name] for name in ("text", "markdown", "page_text", "page_markdown")]
    folders = ["wet", "markdown"]
    if part == "page":
        assert stored == [whole, whole_markdown, None, None]
    else:
        assert stored == [main, markdown, whole, whole_markdown]
        folders += ["page-wet", "page-markdown"]
    for folder, text in zip(folders, filter(None, stored), strict=True):
        assert dict(map(_by_url, conversions(result.data_dir, folder)))[url] == text
    # those of the archive are the same
    data = ("-s", f"DATA_DIR={result.data_dir}", "-s", f"TEXT_PART={part}", "-s", f"DNS_SERVERS={NO_NAMES}")
    words = ("export", "-o", str(tmp_path / "export"), "--format", "jsonl", "--text", "--markdown")
    scrapy(*words, *data, status=0)
    (path,) = (tmp_path / "export").glob("*/*.jsonl")
    (exported,) = (row for row in map(json.loads, path.read_text().splitlines()) if row["url"] == url)
    assert [exported.get(name) for name in ("text", "markdown", "page_text", "page_markdown")] == stored


def _by_url(record: tuple[dict[str, str], str]) -> tuple[str, str]:
    headers, text = record
    return headers["WARC-Target-URI"], text


def page(data_dir: Path, url: str, *options: str, code: int = 0) -> str:
    done = scrapy(
        "page", url, "-s", f"DATA_DIR={data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}", *options, status=code
    )
    return done.stderr if code else done.stdout


def test_scrapy_page_reads_text_and_markdown_from_the_archive(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    for path in ("/a", "/copy"):
        assert page(result.data_dir, web.url(SITE, path), "--text").startswith(f"Heading\n{WORDS} a link.\n")
        assert (
            page(result.data_dir, web.url(SITE, path), "--markdown")
            == f"{MARKDOWN.format(site=web.host(SITE))}\n"
        )
    assert page(result.data_dir, web.url(SITE, "/doc"), "--text") == "Text of a document\n"
    assert page(result.data_dir, web.url(SITE, "/doc"), "--markdown") == "Text of a document\n"
    assert "has no text" in page(result.data_dir, web.url(SITE, "/none"), "--text", code=1)
    assert "is not in the archive" in page(result.data_dir, web.url(SITE, "/secret"), "--text", code=1)


def test_export_has_text_and_markdown_on_request(
    crawled: tuple[LocalWeb, CrawlResult], tmp_path: Path
) -> None:
    web, result = crawled
    lost = "UPDATE pages SET warc_offset = 5 WHERE url LIKE '%/gone'"
    copied = tmp_path / "data"
    shutil.copytree(result.data_dir, copied, ignore=shutil.ignore_patterns("engine"))
    with closing(sqlite3.connect(copied / "metadata.db")) as database:
        database.execute(lost)
        database.commit()
    data = ("-s", f"DATA_DIR={copied}", "-s", f"DNS_SERVERS={NO_NAMES}")
    words = ("export", "-o", str(tmp_path / "export"), "--format", "jsonl", "--text", "--markdown")
    done = scrapy(*words, *data, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"7 rows in 1 file: {tmp_path}/export\n"), done.stderr
    assert done.stderr.startswith(f"1 archived page could not be read, such as {web.url(SITE, '/gone')}: ")
    (path,) = (tmp_path / "export").glob("*/*.jsonl")
    rows = {row["url"]: row for row in map(json.loads, path.read_text().splitlines())}
    texts = {
        url.removeprefix(web.host(SITE)): (row.get("text"), row.get("markdown")) for url, row in rows.items()
    }
    article = (f"Heading\n{WORDS} a link.\none\ntwo\n1\n2", MARKDOWN.format(site=web.host(SITE)))
    # of a copy, that of the first page
    assert texts["/a"] == texts["/copy"] == article
    assert texts["/doc"] == ("Text of a document", None)
    assert texts["/secret"] == texts["/gone"] == (None, None)
    assert texts["/none"] == (None, f"![]({web.host(SITE)}/x)")


def test_listener_gets_texts_on_request(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    words = (
        "listen",
        "--from-start",
        "--once",
        "-s",
        f"DATA_DIR={result.data_dir}",
        "-s",
        f"DNS_SERVERS={NO_NAMES}",
    )
    plain, done = scrapy(*words, timeout=60), scrapy(*words, "--text", "--markdown", timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    rows = {row["url"]: row for row in map(json.loads, done.stdout.splitlines())}
    for path in ("/a", "/copy"):
        assert rows[web.url(SITE, path)].pop("text").startswith(f"Heading\n{WORDS}")
        assert rows[web.url(SITE, path)].pop("markdown") == MARKDOWN.format(site=web.host(SITE))
    assert "text" not in rows[web.url(SITE, "/secret")]
    assert rows[web.url(SITE, "/a")] in list(map(json.loads, plain.stdout.splitlines()))


def test_export_as_the_index_of_common_crawl(crawled: tuple[LocalWeb, CrawlResult], tmp_path: Path) -> None:
    web, result = crawled
    words = (
        "export",
        "-o",
        str(tmp_path / "index"),
        "--format",
        "cc-index",
        "-s",
        f"DATA_DIR={result.data_dir}",
    )
    done = scrapy(*words, "-s", f"DNS_SERVERS={NO_NAMES}", timeout=60)
    assert (done.returncode, done.stdout) == (0, f"6 rows in 2 files: {tmp_path}/index\n"), done.stderr
    query = f"FROM read_parquet('{tmp_path}/index/**/*.parquet', hive_partitioning = true)"
    found = duckdb.sql(
        f"SELECT url, warc_filename, warc_record_offset, warc_record_length {query} WHERE subset = 'warc'"
    )
    for url, *place in found.fetchall():
        record = read_record(result.data_dir / "warc" / place[0], *place[1:])
        assert record.headers["WARC-Type"] == "response"
        assert url == record.headers["WARC-Target-URI"] or url == web.url(SITE, "/copy")
    for option in ("--text", "--markdown", "--partition=none"):
        assert "cc-index has" in scrapy(*words, option, "-s", f"DNS_SERVERS={NO_NAMES}", status=2).stderr


def test_killed_crawl_has_the_text_of_every_stored_page(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    web = local_web(SITE)
    links = "".join(f"<a href=/{number}>link {number}</a> " for number in range(60))
    for number in range(60):
        web.put(SITE, f"/{number}", Reply(f"<p>page {number} {links}", headers={"Content-Type": "text/html"}))
    settings = {"TEXT": "wet,parquet", "DOWNLOAD_DELAY": 0.02, "tuned": {"lease_urls": 5}}
    crawl = start_crawl("broad", [web.url(SITE, "/0")], **settings)
    until(lambda: len(web.hits) >= 25, crawl)
    crawl.kill()
    result = start_crawl("broad", [web.url(SITE, "/0")], **settings).wait()
    texts = {headers["WARC-Target-URI"]: text for headers, text in conversions(result.data_dir)}
    assert texts.keys() == {row["url"] for row in result.rows()}
    assert len(texts) == 60
    table = f"read_parquet('{result.data_dir}/texts/*.parquet')"
    assert dict(duckdb.sql(f"SELECT DISTINCT url, text FROM {table}").fetchall()) == texts
    for url, text in texts.items():
        assert text.startswith(f"page {url.rpartition('/')[2]} link 0")
    rows = duckdb.sql(f"SELECT url, crawl, text FROM {table} ORDER BY ALL").fetchall()
    hits, settings = len(web.hits), settings | {"CRAWL_ID": "again", "FRONTIER_LEASE_SECONDS": 3}
    killed, other = (start_crawl("broad", [web.url(SITE, "/0")], **settings) for _ in range(2))
    until(lambda: len(web.hits) >= hits + 25, killed)
    killed.kill()
    result = other.wait()
    assert {row["crawl"] for row in result.rows()} == {"again"}
    assert duckdb.sql(f"SELECT url, crawl, text FROM {table} ORDER BY ALL").fetchall() == rows


def test_export_as_wat_files(crawled: tuple[LocalWeb, CrawlResult], tmp_path: Path) -> None:
    web, result = crawled
    data = ("-s", f"DATA_DIR={result.data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}")
    words = ("export", "-o", str(tmp_path / "wat"), "--format", "wat", *data)
    for options in ((), ("--force",)):
        done = scrapy(*words, *options, timeout=60, status=0)
        assert " records in 1 file: " in done.stdout and done.stderr == ""
    (path,) = (tmp_path / "wat").glob("*.warc.wat.gz")
    check(path)
    (warc,) = (result.data_dir / "warc").glob("*.warc.gz")
    originals = {}
    with warc.open("rb") as file:
        records = ArchiveIterator(file)
        for record in records:
            originals[record.rec_headers["WARC-Record-ID"]] = record, record.content_stream().read()
    kinds = set()
    with path.open("rb") as file:
        info, *metadata = [
            (dict(record.rec_headers.headers), record.content_stream().read())
            for record in ArchiveIterator(file)
        ]
    assert info[0]["WARC-Type"] == "warcinfo" and len(metadata) == len(originals)
    assert str(len(metadata)) in done.stdout
    for headers, block in metadata:
        assert (headers["WARC-Type"], headers["Content-Type"]) == ("metadata", "application/json")
        original, payload = originals[headers["WARC-Refers-To"]]
        wat = json.loads(block)
        container, envelope = wat["Container"], wat["Envelope"]
        assert container["Filename"] == warc.name
        stored = dict(original.rec_headers.headers)
        assert envelope["WARC-Header-Metadata"] == stored
        about = envelope["Payload-Metadata"]
        assert about["Actual-Content-Length"] == stored["Content-Length"]
        (member,) = (
            record
            for record in FastIterator(warc.open("rb"))
            if record.headers["WARC-Record-ID"] == headers["WARC-Refers-To"]
        )
        assert container["Offset"] == str(member.stream_pos)
        kinds |= about.keys()
        if response := about.get("HTTP-Response-Metadata"):
            assert response["Response-Message"]["Status"] == original.http_headers.get_statuscode()
            assert response["Entity-Length"] == str(len(payload))
        if stored.get("WARC-Target-URI") == web.url(SITE, "/a") and response:
            assert response["HTML-Metadata"] == {
                "Head": {"Title": "An article"},
                "Links": [
                    {"path": "A@/href", "url": "/", "text": "menu"},
                    {"path": "A@/href", "url": "/a", "text": "a link"},
                    {"path": "A@/href", "url": "/a", "text": "2"},
                ],
            }
    assert kinds >= {"HTTP-Request-Metadata", "HTTP-Response-Metadata", "WARC-Info-Metadata"}
    assert "leave out --text" in scrapy(*words, "--text", status=2).stderr
    whole = warc.read_bytes()
    try:
        warc.write_bytes(whole[:-9])
        cut = scrapy(*words, "--force", timeout=60, status=1)
    finally:
        warc.write_bytes(whole)
    assert f"{len(metadata) - 1} records in 1 file: " in cut.stdout
    assert f"Left out: {warc.name}: it is damaged or cut short: what follows byte " in cut.stderr
