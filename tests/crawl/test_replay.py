"""WARC and WACZ files of a crawl, read by two independent libraries: warcio and FastWARC."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator

from tests import crawls
from tests.crawls import NO_NAMES, CrawlResult, crawl_hosts
from tests.unit.warcs import NOW, exchange
from tests.web import LocalWeb, Reply
from webcrawl.stores.warc.cdxj import surt
from webcrawl.stores.warc.writer import WarcWriter

SITE = "127.0.1.1"
LARGE = "<p>" + "word " * 30_000
HTML = {"Content-Type": "text/html; charset=utf-8"}
PAGES = {
    "/": Reply(
        "<title>Home</title>"
        + "".join(f'<a href="{path}">x</a>' for path in ("/a", "/gz", "/caf%C3%A9?q=%C3%BC", "/gone", "/to")),
        headers=HTML,
    ),
    "/a": Reply("<title>A page</title><p>the same words", headers=HTML),
    "/copy": Reply("<title>A page</title><p>the same words", headers=HTML, delay=0.5),
    "/gz": Reply(gzip.compress(LARGE.encode(), mtime=0), headers={**HTML, "Content-Encoding": "gzip"}),
    "/caf%C3%A9?q=%C3%BC": Reply("<title>caf\u00e9 \U0001f600</title><a href=/copy>", headers=HTML),
    "/gone": Reply("<p>gone", status=410, headers=HTML),
    "/to": Reply("", status=302, headers={"Location": "/a"}),
    "/chunked": Reply(
        raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"4\r\n<p>c\r\n6\r\nhunked\r\n0\r\n\r\n"
    ),
    "/torn": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99\r\n\r\n<p>torn"),
    "/data": Reply(b"\0\1\2" * 50, headers={"Content-Type": "application/octet-stream"}),
}
BODIES = {"/chunked": b"<p>chunked", "/torn": b"<p>torn", "/gz": LARGE.encode()}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalWeb, CrawlResult]]:
    """Runs one crawl of pages that are hard to archive."""
    folder = tmp_path_factory.mktemp("replay")
    with LocalWeb(SITE) as web:
        for path, reply in PAGES.items():
            web.put(SITE, path, reply)
        seeds = [web.url(SITE, path) for path in ("/", "/chunked", "/torn", "/data")]
        again = {"FRONTIER_MAX_ATTEMPTS": 2, "FRONTIER_RETRY_DELAY": 0.1, "POLITENESS_BACKOFF": 0.6}
        yield web, crawl_hosts(seeds, folder, **again)


def scrapy(*words: str | Path, code: int = 0, env: dict[str, str] | None = None) -> str:
    done = crawls.scrapy(*map(str, words), "-s", f"DNS_SERVERS={NO_NAMES}", env=env, timeout=60, status=code)
    return done.stdout + done.stderr


def test_warcio_and_fastwarc_read_the_same_records(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    assert result.returncode == 0, result.stderr
    (path,) = (result.data_dir / "warc").glob("*.warc.gz")
    with path.open("rb") as file:
        theirs = [
            (record.rec_type, record.rec_headers["WARC-Target-URI"], record.rec_headers["WARC-Record-ID"])
            for record in ArchiveIterator(file, check_digests="raise")
            if record.content_stream().read() is not None
        ]
    with path.open("rb") as file:
        others = []
        for record in FastIterator(file, parse_http=False):
            uri, kind = record.headers.get("WARC-Target-URI"), record.headers["WARC-Type"]
            others.append((kind, uri, record.headers["WARC-Record-ID"]))
            assert record.verify_block_digest(consume=False), uri
            if kind == "response":
                record.parse_http()
                assert record.verify_payload_digest(), uri
    assert theirs == others
    answers = [(kind, uri) for kind, uri, _ in theirs if kind in ("response", "revisit")]
    urls = {web.url(SITE, path) for path in PAGES} | {web.url(SITE, "/robots.txt")}
    assert {uri for _, uri in answers} <= urls
    assert {uri for _, uri in answers} >= urls - {web.url(SITE, "/robots.txt")}
    assert len(answers) == len({uri for _, uri in answers})
    assert [kind for kind, _ in answers].count("revisit") == 1


def test_the_index_locates_every_payload(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    """Follows a revisit to the record of its original, like a replay tool."""
    web, result = crawled
    (path,) = (result.data_dir / "warc").glob("*.warc.gz")
    (index,) = (result.data_dir / "warc").glob("*.cdxj")
    lines = index.read_bytes().splitlines()
    assert lines == sorted(lines)
    found = {}
    for line in lines:
        key, _, facts = line.decode().split(" ", 2)
        entry = json.loads(facts)
        assert key == surt(entry["url"])
        found[entry["url"]] = entry
    data = path.read_bytes()

    def record(url: str) -> Any:
        entry = found[url]
        start = int(entry["offset"])
        member = io.BytesIO(data[start : start + int(entry["length"])])
        return next(iter(ArchiveIterator(member, check_digests="raise"))), entry

    for path_asked, reply in PAGES.items():
        answer, entry = record(web.url(SITE, path_asked))
        if answer.rec_type == "revisit":
            assert entry["mime"] == "warc/revisit"
            original = answer.rec_headers["WARC-Refers-To-Target-URI"]
            assert answer.rec_headers["WARC-Payload-Digest"] == found[original]["digest"]
            answer, entry = record(original)
        body = reply.body.encode() if isinstance(reply.body, str) else reply.body
        assert answer.content_stream().read() == BODIES.get(path_asked, body), path_asked
        truncated = answer.rec_headers.get_header("WARC-Truncated")
        assert truncated == ("disconnect" if path_asked == "/torn" else None)
        assert entry["status"] == (answer.http_headers.get_statuscode())


def must(condition: object, what: str) -> None:
    assert condition, f"WACZ 1.1.1: {what}"


def check_wacz(path: Path) -> tuple[list[dict[str, Any]], zipfile.ZipFile]:
    """Checks every MUST of the WACZ standard; returns the pages and the open file."""
    file = zipfile.ZipFile(path)
    must(file.testzip() is None, "a ZIP file")
    names = [info.filename for info in file.infolist()]
    must(len(names) == len(set(names)), "each name once")
    package = json.loads(file.read("datapackage.json"))
    must(package["profile"] == "data-package", "the profile is data-package")
    must(package["wacz_version"] == "1.1.1", "wacz_version")
    must(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", package["created"]), "created is a date")
    resources = {one["path"]: one for one in package["resources"]}
    must(
        set(resources) == set(names) - {"datapackage.json", "datapackage-digest.json"},
        "all files are resources",
    )
    for name, one in resources.items():
        data = file.read(name)
        must(one["hash"] == f"sha256:{hashlib.sha256(data).hexdigest()}", "the hash of each resource")
        must(one["bytes"] == len(data), "the size of each resource")
        must(re.fullmatch(r"[-a-z0-9._/]+", one["name"]), "a valid data package name")
    digest = json.loads(file.read("datapackage-digest.json"))
    must(digest["path"] == "datapackage.json", "the digest is of datapackage.json")
    must(
        digest["hash"] == f"sha256:{hashlib.sha256(file.read('datapackage.json')).hexdigest()}", "its digest"
    )
    must([name for name in names if re.fullmatch(r"archive/[^/]+\.warc\.gz", name)], "a WARC file in archive")
    must({"indexes/index.cdx.gz", "indexes/index.idx"} <= set(names), "an index")
    for info in file.infolist():
        if info.filename.endswith(".gz"):
            must(info.compress_type == zipfile.ZIP_STORED, "compressed files are stored as they are")
    header, *pages = [json.loads(line) for line in file.read("pages/pages.jsonl").splitlines()]
    must(header["format"] == "json-pages-1.0" and header["id"] == "pages", "the header of the pages")
    for page in pages:
        must(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", page["ts"]), "ts is a date")
        must(page["url"].startswith("http"), "each page has a URL")
    return pages, file


def test_a_crawl_is_packed_as_wacz(crawled: tuple[LocalWeb, CrawlResult], tmp_path: Path) -> None:
    web, result = crawled
    output = tmp_path / "crawl.wacz"
    data = ("-s", f"DATA_DIR={result.data_dir}")
    printed = scrapy("export", "--format", "wacz", "-o", output, "--text", *data)
    assert re.match(
        r"Wrote \d+ exchanges, .* of 2 WARC files to .*crawl\.wacz: 0\.0 MB\. Its list has 7 HTML pages\.",
        printed,
    )
    pages, file = check_wacz(output)
    titles = {page["url"]: page.get("title") for page in pages}
    assert titles == {
        web.url(SITE, "/"): "Home",
        web.url(SITE, "/a"): "A page",
        web.url(SITE, "/copy"): None,  # a copy is not parsed
        web.url(SITE, "/gz"): None,
        web.url(SITE, "/caf%C3%A9?q=%C3%BC"): "caf\u00e9 \U0001f600",
        web.url(SITE, "/chunked"): None,
        web.url(SITE, "/torn"): None,
    }
    assert "chunked" in next(page["text"] for page in pages if page["url"].endswith("/chunked"))
    assert all("text" in page for page in pages), "a revisit has the text of its payload"
    index = gzip.decompress(file.read("indexes/index.cdx.gz")).splitlines()
    assert index == sorted(index)
    for line in index:
        entry = json.loads(line.split(b" ", 2)[2])
        with file.open(f"archive/{entry['filename']}") as warc:
            warc.seek(int(entry["offset"]))
            record = next(iter(ArchiveIterator(io.BytesIO(warc.read(int(entry["length"]))))))
        assert record.rec_headers["WARC-Target-URI"] == entry["url"]
    meta, block = file.read("indexes/index.idx").splitlines()
    assert json.loads(meta.split(b" ", 2)[2]) == {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}
    assert block.startswith(index[0].partition(b"{")[0].strip())
    assert f"{output} exists: --force replaces it" in scrapy(
        "export", "--format", "wacz", "-o", output, *data, code=1
    )
    scrapy("export", "--format", "wacz", "-o", output, "--force", *data)
    assert "crawls there: broad" in scrapy(
        "export",
        "--format",
        "wacz",
        "-o",
        tmp_path / "x.wacz",
        "--crawl",
        "other",
        *data,
        code=1,
    )
    assert "nothing is stored yet" in scrapy(
        "export",
        "--format",
        "wacz",
        "-o",
        tmp_path / "x.wacz",
        "-s",
        f"DATA_DIR={tmp_path / 'nowhere'}",
        code=1,
    )
    scrapy("export", "--format", "wacz", *data, code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["crawl.wacz"]


def test_a_wacz_has_no_titles_only_without_a_database(
    crawled: tuple[LocalWeb, CrawlResult], tmp_path: Path
) -> None:
    _, result = crawled
    output = tmp_path / "crawl.wacz"
    words = (
        "export",
        "--format",
        "wacz",
        "-o",
        output,
        "-s",
        f"STORE_URI={(result.data_dir / 'warc').as_uri()}",
    )
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database at all " * 100)
    printed = scrapy(*words, "-s", f"METADATA_URI=sqlite:///{broken}", code=1)
    assert "broken.db: file is not a database" in printed
    assert not output.exists()
    printed = scrapy(*words, "-s", f"DATA_DIR={tmp_path}")
    assert "There is no metadata database: the list of pages has no titles." in printed
    pages, _ = check_wacz(output)
    # only the database knows that the copy is HTML
    assert len(pages) == 6 and not any("title" in page for page in pages)


def test_unchanged_pages_whose_body_is_not_known_are_reported(tmp_path: Path) -> None:
    old, new = exchange("old"), exchange("new", b"<p>new")
    folder, later = tmp_path / "warc", NOW + timedelta(days=1)
    with WarcWriter(folder, "first", "x") as writer:
        writer.write(old)
    with WarcWriter(folder, "second", "x") as writer:
        writer.write(new)
        for one in (old, new):
            head = b"HTTP/1.1 304 Not Modified\r\n\r\n"
            unchanged = replace(one, status=304, response_head=head, fetched_at=later)
            writer.write_unmodified(unchanged, one.url, NOW, one.payload.digest)
    for crawl, expected in (("first", ""), ("second", "1 page that answered 304 (unchanged)")):
        printed = scrapy(
            "export",
            "--format",
            "wacz",
            "-o",
            tmp_path / f"{crawl}.wacz",
            "--crawl",
            crawl,
            "-s",
            f"DATA_DIR={tmp_path}",
        )
        assert expected in printed and ("304" in printed) == bool(expected)
        pages, _ = check_wacz(tmp_path / f"{crawl}.wacz")
        assert len(pages) == 1
