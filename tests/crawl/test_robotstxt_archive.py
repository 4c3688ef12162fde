"""Each fetch of robots.txt is archived beside the pages, and is no page anywhere; read back with warcio."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.crawl.archive import check, records
from tests.crawl.reparsing import reparse, rows
from tests.crawl.test_replay import check_wacz, scrapy
from tests.crawls import Crawl, CrawlResult, until
from tests.web import Hit, LocalWeb, Reply
from webcrawl.stores.warc.reading import members, parse

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITES = PLAIN, MISSING, MOVED, DOWN, PACKED, ENDLESS = tuple(f"127.0.1.{number}" for number in range(1, 7))
RULES = "User-agent: *\nDisallow: /private\n"
TEXT = {"Content-Type": "text/plain"}
NOARCHIVE = "<meta name=robots content=noarchive><title>Log in</title>"


class Fetch(NamedTuple):
    """The records of one fetch: its response, and what the records beside it say."""

    url: str
    status: str
    body: bytes
    response: Any
    request: str
    facts: dict[str, str]


def put_sites(web: LocalWeb) -> list[str]:
    """Publishes a site for each kind of answer; returns the home pages, which have two pages each."""
    replies = {
        PLAIN: Reply(RULES, headers=TEXT),
        MISSING: Reply("<title>Not found</title>", status=404),
        MOVED: Reply(status=301, headers={"Location": "/login"}),
        PACKED: Reply(gzip.compress(RULES.encode()), headers={**TEXT, "Content-Encoding": "gzip"}),
        ENDLESS: Reply("# nothing\n" * 60_000, headers=TEXT),
    }
    for site, reply in replies.items():
        web.put(site, "/robots.txt", reply)
    statuses = iter([503, 500])
    web.put(DOWN, "/robots.txt", lambda hit: Reply(RULES, status=next(statuses, 200), headers=TEXT))
    web.put(MOVED, "/login", NOARCHIVE)
    for site in SITES:
        web.put(site, "/a", f"<title>a of {site}</title>")
    return [
        web.put(site, "/", f"<title>{site}</title><a href=/a>a</a><a href=/private>x</a>") for site in SITES
    ]


def fetches(data_dir: Path) -> list[Fetch]:
    """The fetches of robots.txt in the archive, with digests checked; each has a request and a metadata record."""
    groups: dict[str, dict[str, Any]] = {}
    for path in sorted((data_dir / "robotstxt").glob("*.robotstxt.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                if record.rec_type != "warcinfo":
                    headers = record.rec_headers
                    response = headers["WARC-Concurrent-To"] or headers["WARC-Record-ID"]
                    http, body = record.http_headers, record.content_stream().read()
                    groups.setdefault(response, {})[record.rec_type] = (headers, http, body)
    found = []
    for group in groups.values():
        assert set(group) == {"response", "request", "metadata"}
        (headers, http, body), request = group["response"], group["request"][1]
        facts = dict(line.split(": ") for line in group["metadata"][2].decode().splitlines())
        url = headers["WARC-Target-URI"]
        found.append(Fetch(url, http.get_statuscode(), body, headers, request.statusline, facts))
    return found


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalWeb, CrawlResult]]:
    """One crawl by three workers."""
    with LocalWeb(*SITES) as web:
        options = {"POLITENESS_BACKOFF": 0.1, "FRONTIER_RETRY_DELAY": 0.1, "SITEMAPS_FROM_ROBOTS": False}
        folder = tmp_path_factory.mktemp("robotstxt")
        seeds = ",".join(put_sites(web))
        crawl = Crawl.start(
            "broad",
            seeds,
            folder=folder,
            data_dir=folder / "data",
            command=("workers", "3"),
            tuned={"lease_hosts": 1, "most_lease_hosts": 0},
            **options,
        )
        yield web, crawl.wait()


def asked(web: LocalWeb) -> list[str]:
    """The URLs of all requests for robots.txt, and for that to which one redirects."""
    return [web.url(hit.host, hit.path) for hit in web.log() if hit.path in ("/robots.txt", "/login")]


def test_each_fetch_is_archived_once(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    archived = fetches(result.data_dir)
    assert Counter(fetch.url for fetch in archived) == Counter(asked(web))
    statuses = {site: [] for site in SITES}
    for fetch in sorted(archived, key=lambda fetch: fetch.response["WARC-Date"]):
        site = next(site for site in SITES if fetch.url.startswith(web.url(site)))
        statuses[site].append(fetch.status)
        assert fetch.response["WARC-IP-Address"] == urlsplit(fetch.url).hostname
        assert fetch.response["WARC-Payload-Digest"] and fetch.response["WARC-Block-Digest"]
        assert fetch.request == f"{urlsplit(fetch.url).path} HTTP/1.1"
        assert fetch.facts["firstByteMs"].isdecimal()
    assert statuses[PLAIN] == statuses[PACKED] == statuses[ENDLESS] == ["200"]
    assert (statuses[MISSING], statuses[MOVED]) == (["404"], ["301", "200"])
    assert statuses[DOWN] == ["503", "500", "200"]


def test_records_have_the_payload_and_the_way_to_it(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    by_url = {fetch.url: fetch for fetch in fetches(result.data_dir)}
    assert by_url[web.url(PLAIN, "/robots.txt")].body == RULES.encode()
    assert by_url[web.url(PACKED, "/robots.txt")].body == RULES.encode(), "warcio removes the content coding"
    endless = by_url[web.url(ENDLESS, "/robots.txt")]
    assert endless.response["WARC-Truncated"] == "length" and len(endless.body) == 500 * 1024 + 1
    first, second = by_url[web.url(MOVED, "/robots.txt")], by_url[web.url(MOVED, "/login")]
    assert (first.facts["hopsFromSeed"], first.facts.get("via")) == ("P", None)
    assert (second.facts["hopsFromSeed"], second.facts["via"]) == ("PR", first.url)
    assert (second.body, second.facts["mimeType"]) == (NOARCHIVE.encode(), "text/html")


def test_no_fetch_is_a_page(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    pages = {web.url(site, path) for site in SITES for path in ("/", "/a")}
    archived = records(result.data_dir, "response")
    assert {url for url in archived if not url.endswith("/private")} == pages
    assert {row["url"] for row in result.rows() if row["status"] == 200} == pages
    assert result.summary["pages"] == 2 * len(SITES)
    assert result.summary["archived"] == len(archived)
    assert not list(result.data_dir.rglob("*.open"))


def test_the_index_is_like_that_of_pages(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    found = []
    for path in sorted((result.data_dir / "robotstxt").glob("*.cdxj")):
        for line in path.read_text().splitlines():
            facts = json.loads(line.split(" ", 2)[2])
            with (path.parent / facts["filename"]).open("rb") as file:
                file.seek(int(facts["offset"]))
                record = next(iter(ArchiveIterator(file)))
                assert record.rec_headers["WARC-Target-URI"] == facts["url"]
            found.append(facts["url"])
    assert Counter(found) == Counter(asked(web))


def test_a_wacz_file_has_the_records_but_no_page_of_them(
    crawled: tuple[LocalWeb, CrawlResult], tmp_path: Path
) -> None:
    web, result = crawled
    output = tmp_path / "crawl.wacz"
    scrapy("export", "--format", "wacz", "-o", output, "-s", f"DATA_DIR={result.data_dir}")
    pages, file = check_wacz(output)
    assert {page["url"] for page in pages} == {web.url(site, path) for site in SITES for path in ("/", "/a")}
    index = gzip.decompress(file.read("indexes/index.cdx.gz")).decode()
    assert all(f'"{url}"' in index for url in asked(web))
    names = {path.name for path in (result.data_dir / "robotstxt").glob("*.warc.gz")}
    assert names and {f"archive/{name}" for name in names} <= set(zipfile.ZipFile(output).namelist())


def test_a_reparse_sees_only_pages(crawled: tuple[LocalWeb, CrawlResult]) -> None:
    web, result = crawled
    before, asked_before = rows(result.data_dir), len(web.log())
    archived = Counter(fetch.url for fetch in fetches(result.data_dir))
    reparse(result.data_dir)
    assert rows(result.data_dir).keys() == before.keys()
    assert Counter(fetch.url for fetch in fetches(result.data_dir)) == archived
    assert len(web.log()) == asked_before


@pytest.mark.parametrize("setting", ["ROBOTSTXT_OBEY", "WARC_ROBOTSTXT"])
def test_without_the_setting_there_is_no_record(crawl: RunCrawl, local_web: StartWeb, setting: str) -> None:
    web = local_web(PLAIN)
    web.put(PLAIN, "/robots.txt", Reply(RULES, headers=TEXT))
    result = crawl([web.put(PLAIN, "/", "<p>home")], **{setting: False})
    assert web.paths(PLAIN) == (["/robots.txt", "/"] if setting == "WARC_ROBOTSTXT" else ["/"])
    assert not (result.data_dir / "robotstxt").exists()
    assert records(result.data_dir, "response") == [web.url(PLAIN)]


def test_a_robots_txt_does_not_count_for_the_limit_of_pages(crawl: RunCrawl, local_web: StartWeb) -> None:
    web = local_web(PLAIN)
    web.put(PLAIN, "/robots.txt", Reply(RULES, headers=TEXT))
    links = "".join(f"<a href=/{number}>x</a>" for number in range(9))
    for number in range(9):
        web.put(PLAIN, f"/{number}", f"<p>page {number}")
    result = crawl([web.put(PLAIN, "/", links)], CRAWL_MAX_PAGES=3)
    assert (result.summary["pages"], len(fetches(result.data_dir))) == (3, 1)


def test_the_record_is_written_before_a_page_is_fetched(
    start_crawl: StartCrawl, local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    """So a kill loses no record of rules that were used; the next worker finishes the file."""
    web = local_web(PLAIN)
    seen: list[list[str]] = []

    def page(hit: Hit) -> Reply:
        files = (tmp_path / "data" / "robotstxt").glob("*.open")
        seen.append([url for path in files for url in urls_in(path)])
        return Reply("<p>home", delay=0.0 if len(seen) > 1 else 30.0)

    web.put(PLAIN, "/robots.txt", Reply(RULES, headers=TEXT))
    home = web.put(PLAIN, "/", page)
    crawl = start_crawl("broad", [home], FRONTIER_LEASE_SECONDS=1)
    until(lambda: bool(seen), crawl)
    crawl.kill()
    assert seen == [[web.url(PLAIN, "/robots.txt")]]
    result = run_crawl("broad", [home], FRONTIER_LEASE_SECONDS=1)
    assert result.summary["pages"] == 1
    assert Counter(fetch.url for fetch in fetches(result.data_dir)) == Counter(asked(web))


def urls_in(path: Path) -> list[str]:
    """The URLs of the responses in a file that is being written."""
    with path.open("rb") as file:
        headers = [parse(start).headers for _, _, start in members(file)]
    return [one["WARC-Target-URI"] for one in headers if one["WARC-Type"] == "response"]


def test_a_full_disk_holds_the_crawl_and_loses_no_fetch(
    start_crawl: StartCrawl, local_web: StartWeb, small_disk: Path, tmp_path: Path
) -> None:
    web = local_web(PLAIN)
    ballast = small_disk / "ballast"

    def robots(hit: Hit) -> Reply:
        free = os.statvfs(small_disk)
        ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize))
        return Reply(RULES, headers=TEXT)

    web.put(PLAIN, "/robots.txt", robots)
    home = web.put(PLAIN, "/", "<p>home")
    options = {"STORE_URI": (small_disk / "warc").as_uri(), "STORE_MIN_FREE_BYTES": 0}
    crawl = start_crawl("broad", [home], PROGRESS_INTERVAL=0.2, FRONTIER_MAX_ATTEMPTS=1, **options)
    until(lambda: " holding: " in crawl.stderr.replace("\n", " "), crawl)
    assert web.paths(PLAIN) == ["/robots.txt"]
    ballast.unlink()
    result = crawl.wait()
    assert (result.summary["pages"], result.summary["dead_letters"]) == (1, 0)
    assert web.paths(PLAIN) == ["/robots.txt", "/"]
    (fetch,) = fetches(small_disk / "warc")
    assert fetch.body == RULES.encode()
    (tmp_path / "data" / "warc").symlink_to(small_disk / "warc")
    check(result.data_dir)
