"""A complete crawl of a generated web: each page is fetched once and has a row and a WARC record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.crawl.archive import check, record_at, records
from tests.crawls import CrawlResult, crawl_hosts
from tests.web import LinkGraph, LocalWeb, Reply, generated_web

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITES = ("127.0.1.1", "127.0.1.2", "127.0.1.3")
COLUMNS = """
    url final_url host status fetched_at mime_type charset length digest simhash duplicate_of title description language
    depth referrer warc_file warc_offset warc_length etag last_modified error
"""
FIGURES = """
    pages responses bytes hosts seconds pages_per_second robots_denied exact_duplicates near_duplicates seen_urls queued
    leased dead_letters finish_reason
"""


@dataclass(frozen=True)
class Crawled:
    """A local web, the graph of its pages, and the result of a crawl."""

    web: LocalWeb
    graph: LinkGraph
    seeds: list[str]
    result: CrawlResult

    @property
    def reachable(self) -> set[str]:
        return self.graph.reachable(*self.seeds)

    def served(self, url: str) -> bytes:
        label = next(label for label in SITES if url.startswith(self.web.url(label)))
        page = self.web.sites[label][url.removeprefix(self.web.host(label))]
        assert isinstance(page, str)
        return page.encode()


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    """Runs one crawl, which the tests of this file share."""
    folder = tmp_path_factory.mktemp("crawled")
    with LocalWeb(*SITES) as web:
        graph = generated_web(7, web, pages=90)
        seeds = [web.url(label) for label in SITES]
        yield Crawled(web, graph, seeds, crawl_hosts(seeds, folder))


def by_url(result: CrawlResult) -> dict[str, dict[str, Any]]:
    return {row["url"]: row for row in result.rows()}


def test_every_reachable_page_is_fetched_exactly_once(crawled: Crawled) -> None:
    assert crawled.result.returncode == 0, crawled.result.stderr
    assert 45 < len(crawled.reachable) < 90
    assert sorted(crawled.web.urls()) == sorted(crawled.reachable)


def test_the_robots_txt_of_every_host_is_fetched_once_and_first(crawled: Crawled) -> None:
    for label in SITES:
        paths = crawled.web.paths(label)
        assert paths.index("/robots.txt") == 0
        assert paths.count("/robots.txt") == 1


def test_connections_are_kept_alive_for_a_hosts_pages(crawled: Crawled) -> None:
    for label in SITES:
        assert len({hit.connection for hit in crawled.web.log(label)}) == 1


def test_every_page_has_one_row(crawled: Crawled) -> None:
    rows = crawled.result.rows()
    assert sorted(row["url"] for row in rows) == sorted(crawled.reachable)
    assert set(COLUMNS.split()) <= rows[0].keys()
    now = datetime.now(UTC)
    for row in rows:
        assert row["status"] == 200
        assert row["final_url"] == row["url"]
        assert row["title"] == row["url"]
        assert row["host"] == "/".join(row["url"].split("/")[:3])
        assert (row["mime_type"], row["charset"].lower()) == ("text/html", "utf-8")
        assert row["length"] == len(crawled.served(row["url"]))
        assert row["digest"].startswith("sha1:")
        assert row["simhash"] is not None
        assert (row["duplicate_of"], row["error"], row["fetches"]) == (None, None, 1)
        assert timedelta(0) <= now - datetime.fromisoformat(row["fetched_at"]) < timedelta(minutes=2)


def test_depth_and_referrer_lead_from_the_seed_to_each_page(crawled: Crawled) -> None:
    rows = by_url(crawled.result)
    for url, row in rows.items():
        if row["referrer"] is None:
            assert url in crawled.seeds
            assert row["depth"] == 0
        else:
            assert url in crawled.graph.links[row["referrer"]]
            # the depth is that of the first link; the referrer is another page if its link made the URL better
            linking = [page for page in rows if url in crawled.graph.links.get(page, ())]
            assert row["depth"] in {rows[page]["depth"] + 1 for page in linking}


def test_each_row_locates_its_body_in_the_archive(crawled: Crawled) -> None:
    check(crawled.result.data_dir)
    for row in crawled.result.rows():
        record = record_at(crawled.result.data_dir, row)
        assert (record.kind, record.url) == ("response", row["url"])
        assert record.headers.get_statuscode() == "200"
        assert record.body == crawled.served(row["url"])
    assert sorted(records(crawled.result.data_dir, "response")) == sorted(crawled.reachable)
    assert sorted(records(crawled.result.data_dir, "request")) == sorted(crawled.reachable)


def test_the_summary_counts_pages_bytes_and_responses(crawled: Crawled) -> None:
    summary = crawled.result.summary
    assert set(FIGURES.split()) <= summary.keys()
    pages = len(crawled.reachable)
    assert (summary["pages"], summary["responses"]) == (pages, {"200": pages})
    assert summary["bytes"] == sum(len(crawled.served(url)) for url in crawled.reachable)
    assert (summary["hosts"], summary["seen_urls"]) == (3, pages)
    assert 0 < summary["seconds"] < 30
    assert summary["pages_per_second"] == pytest.approx(pages / summary["seconds"], rel=0.01)
    assert summary["finish_reason"] == "finished"
    zero = "robots_denied exact_duplicates near_duplicates queued leased dead_letters addresses_refused failed retried"
    assert {name: summary[name] for name in zero.split()} == dict.fromkeys(zero.split(), 0)


def test_the_last_lines_of_the_log_summarize_the_crawl(crawled: Crawled) -> None:
    assert "finished" in crawled.result.stderr
    assert f"{len(crawled.reachable)} from 3 hosts" in crawled.result.stderr
    assert "Traceback" not in crawled.result.stderr


def test_a_repeated_command_fetches_nothing(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(*SITES)
    graph = generated_web(8, web, pages=30)
    home = web.url(SITES[0])
    crawl([home])
    first = web.urls()
    again = crawl([home])
    assert web.urls() == first
    assert sorted(first) == sorted(url for url in set(first) if url in graph.links)
    assert again.summary["finish_reason"] == "finished"
    assert again.summary["pages"] == len(first)


def test_exact_and_near_duplicates_are_marked(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web("127.0.1.1", "127.0.1.2")
    words = [f"word{number}" for number in range(4000)]
    text = f"<title>The text</title><p>{' '.join(words)}</p>"
    nearly = text.replace("word200 ", "other ")
    web.put("127.0.1.1", "/", f"<p>{' '.join(reversed(words))}</p><a href=/a>a</a>")
    web.put("127.0.1.1", "/a", text + "<a href=/b>b</a>")
    web.put("127.0.1.1", "/b", text + "<a href=/b>b</a>" + "<a href=/c>c</a>")
    web.put("127.0.1.1", "/c", "<p>Something else entirely, short.</p><a href=/d>d</a>")
    web.put("127.0.1.1", "/d", nearly + "<a href=/e>e</a>")
    web.put("127.0.1.1", "/e", text + "<a href=/b>b</a>")
    result = crawl([web.url("127.0.1.1")])
    rows = by_url(result)

    def row(path: str) -> dict[str, Any]:
        return rows[web.url("127.0.1.1", path)]

    assert row("/e")["duplicate_of"] == web.url("127.0.1.1", "/a")
    assert row("/e")["digest"] == row("/a")["digest"]
    assert row("/d")["duplicate_of"] in (web.url("127.0.1.1", "/a"), web.url("127.0.1.1", "/b"))
    assert [row(path)["duplicate_of"] for path in ("/", "/a", "/c")] == [None] * 3
    assert result.summary["exact_duplicates"] == 1
    assert result.summary["near_duplicates"] == 2  # /b has one more link than /a, and /d has another word
    copy = record_at(result.data_dir, row("/e"))
    assert copy.kind == "revisit"
    check(result.data_dir)


def test_scope_host_excludes_other_hosts(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web("127.0.1.1", "127.0.1.2")
    web.put("127.0.1.1", "/", f"<a href=/in>in</a><a href={web.url('127.0.1.2', '/out')}>out</a>")
    web.put("127.0.1.1", "/in", "in")
    web.put("127.0.1.2", "/out", Reply("out"))
    result = crawl([web.url("127.0.1.1")])
    assert web.paths("127.0.1.2") == []
    assert {row["url"] for row in result.rows()} == {web.url("127.0.1.1"), web.url("127.0.1.1", "/in")}
