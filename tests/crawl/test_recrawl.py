"""With RECRAWL a crawl does not end: its pages come back when they are due, each once."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from scrapy.settings import Settings
from sqlalchemy import create_engine, text

from tests.crawl.conftest import Project
from tests.crawl.operations import BEGIN, Operations
from tests.crawls import CHECKOUT, Crawl, CrawlResult, until
from tests.documents.markup import urlset
from tests.web import Hit, LocalWeb, Reply
from webcrawl.crawler.url_arguments import add_short_options, take_urls
from webcrawl.documents.exchange import digest
from webcrawl.jobs.records import IterationState
from webcrawl.policies.change_signals import SignalCounts

SITE, OTHER = "127.0.1.1", "127.0.1.2"
PAGES = 12
INTERVAL = 1.0
OFTEN = {"RECRAWL": True, "RECRAWL_MIN_INTERVAL": INTERVAL, "RECRAWL_MAX_AGE": INTERVAL}
XML = {"Content-Type": "application/xml"}
TEXT = " ".join(f"word{number} of a text that is long enough to be its main part." for number in range(20))
StartWeb = Callable[..., LocalWeb]
StartCrawl = Callable[..., Crawl]


def page(text: str, clock: str = "") -> str:
    return f"<html><body><main><p>{text}</p></main><footer>{clock}</footer></body></html>"


def fill(web: LocalWeb, site: str, pages: int = PAGES) -> list[str]:
    """Puts a page with links to pages on a site; returns the paths of all of them."""
    paths = [f"/{number}" for number in range(pages)]
    web.put(site, "/", "".join(f"<a href={path}>{path}</a>" for path in paths) + page(TEXT))
    for path in paths:
        web.put(site, path, page(f"{path} {TEXT}"))
    return ["/", *paths]


def not_modified(hit: Hit) -> Reply:
    if "If-None-Match" in hit.headers:
        return Reply("", 304)
    return Reply(page(TEXT), headers={"ETag": '"a"'})


def visits(web: LocalWeb, site: str) -> Counter[str]:
    return Counter(path for path in web.paths(site) if path != "/robots.txt")


def all_came(web: LocalWeb, site: str, paths: list[str], times: int) -> Callable[[], bool]:
    return lambda: all(visits(web, site)[path] >= times for path in paths)


def ended(crawl: Crawl) -> CrawlResult:
    crawl.interrupt()
    return crawl.wait(60, status=None)


def least_gap(web: LocalWeb, site: str) -> float:
    """The shortest time from the end of a fetch of a page to the next fetch of the page."""
    hits: dict[str, list[Hit]] = {}
    for hit in web.log(site):
        hits.setdefault(hit.path, []).append(hit)
    return min(
        later.started - earlier.finished
        for group in hits.values()
        for earlier, later in zip(group, group[1:], strict=False)
    )


def test_pages_come_back_until_the_crawl_is_stopped(local_web: StartWeb, start_crawl: StartCrawl) -> None:
    web = local_web(SITE)
    paths = fill(web, SITE)
    numbers = iter(range(10_000))
    web.put(SITE, "/1", lambda hit: Reply(page(f"{next(numbers)} {TEXT}")))
    web.put(SITE, "/2", lambda hit: Reply(page(TEXT, clock=str(next(numbers)))))
    web.put(
        SITE,
        "/3",
        lambda hit: Reply("", 304) if "If-None-Match" in hit.headers else Reply("x", headers={"ETag": '"a"'}),
    )
    crawl = start_crawl("broad", [web.url(SITE)], **OFTEN)
    until(all_came(web, SITE, paths, 4), crawl, 120)
    result = ended(crawl)
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert rows.keys() == set(paths)
    assert rows["/1"]["changes"] == rows["/1"]["fetches"] - 1 >= 2
    assert [rows[path]["changes"] for path in paths if path != "/1"] == [0] * PAGES
    assert rows["/3"]["state"] == "unchanged"
    assert all(row["next_due"] > row["tried_at"] for row in rows.values())
    assert rows["/1"]["change_rate"] > rows["/2"]["change_rate"] > 0
    assert least_gap(web, SITE) > 0.9 * INTERVAL


class ToldPages:
    """Pages whose texts stay while their bytes, `ETag` and `Last-Modified` are new at each fetch, so both signals lie.

    Each visit counts one false announcement of either kind, and each body tells which fetch stored it.
    """

    def __init__(self, web: LocalWeb, *sites: str) -> None:
        self.served: dict[str, tuple[str, str]] = {}
        """Digest of a body -> its URL, and the user agent that got it."""
        self._web, self._lock, self._numbers = web, threading.Lock(), itertools.count(1)
        self.urls = {web.url(site, path) for site in sites for path in fill(web, site)}
        links = "".join(f"<a href=/{number}>{number}</a>" for number in range(PAGES))
        for url in self.urls:
            site, path = next(
                (site, url.removeprefix(web.host(site))) for site in sites if web.host(site) in url
            )
            text = page(f"{path} {TEXT}") + (links if path == "/" else "")
            web.put(site, path, partial(self._reply, url, text))

    def _reply(self, url: str, text: str, hit: Hit) -> Reply:
        with self._lock:
            number = next(self._numbers)
        body = f"<!-- {number} -->{text}"
        self.served[digest(body.encode())] = url, hit.headers["User-Agent"]
        later = format_datetime(datetime.now(UTC) + timedelta(seconds=number), usegmt=True)
        return Reply(body, headers={"ETag": f'"{number}"', "Last-Modified": later})

    def fetches(self) -> Counter[str]:
        return Counter(url for url, _ in self.served.values())

    def came_again(self, times: int = 2) -> Callable[[], bool]:
        """A condition: each page has come again so many times from now on."""
        before = self.fetches()
        return lambda: all(self.fetches()[url] >= before[url] + times for url in self.urls)

    def unstored(self, uri: str) -> list[str]:
        """Checks what a crawl has stored and learned; returns the digests of the fetches that it has not stored."""
        engine = create_engine(uri)
        with engine.connect() as connection:
            stored = connection.execute(
                text("SELECT url, digest FROM pages UNION ALL SELECT url, digest FROM fetches")
            )
            digests = {digest: url for url, digest in stored.all()}
            columns = "url, fetches, changes, next_due, change_evidence"
            rows = {row.url: row for row in connection.execute(text(f"SELECT {columns} FROM pages"))}
            counts = dict(connection.execute(text("SELECT host, counts FROM host_signals")).all())
        engine.dispose()
        assert rows.keys() == self.urls
        assert all(self.served[digest][0] == url for digest, url in digests.items())
        assert sum(row.fetches for row in rows.values()) == len(digests), "a fetch counts once"
        assert all(row.changes == 0 and row.next_due for row in rows.values())
        evidence = {url: as_json(row.change_evidence) for url, row in rows.items()}
        assert {url: visits for url, (visits, *_) in evidence.items()} == {
            url: row.fetches - 1 for url, row in rows.items()
        }, "each visit teaches the rate once"
        again = Counter[str]()
        for url, row in rows.items():
            again["/".join(url.split("/")[:3])] += row.fetches - 1
        learned = {
            host: {kind: SignalCounts(*values) for kind, values in as_json(kinds).items()}
            for host, kinds in counts.items()
        }
        for kind in ("etag", "last-modified"):
            mistakes = {host: kinds[kind].mistakes for host, kinds in learned.items()}
            assert mistakes == pytest.approx(again), "each visit teaches about signals once"
        return [digest for digest in self.served if digest not in digests]


def as_json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


@pytest.mark.parametrize("uri", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_a_worker_that_is_killed_while_it_plans_loses_and_repeats_nothing(
    local_web: StartWeb, start_crawl: StartCrawl, redis_url: str, uri: str
) -> None:
    """What it has fetched and not stored is fetched again, and nothing else: by the bodies that the server gave."""
    web = local_web(SITE, OTHER)
    pages, seeds = ToldPages(web, SITE, OTHER), [web.url(SITE), web.url(OTHER)]
    options = {**OFTEN, "REDIS_URL": redis_url, "FRONTIER_LEASE_SECONDS": 2, "METADATA_URI": uri}
    crawls = {
        crawl.process.pid: (crawl, agent)
        for agent in ("first", "second")
        for crawl in [start_crawl("broad", seeds, **options, USER_AGENT=agent)]
    }
    crawl = next(iter(crawls.values()))[0]
    with redis.Redis.from_url(redis_url) as client:
        until(lambda: pages.fetches().keys() == pages.urls, crawl, 60)
        until(pages.came_again(1), crawl, 120)
        until(lambda: client.get("wc:{c:broad}:planner") is not None, crawl)
        planner = int((client.get("wc:{c:broad}:planner") or b"").split(b":")[1])
        killed, agent = crawls.pop(planner)
        killed.kill()
        client.delete("wc:{c:broad}:planner")  # as if its lease had run out
    ((other, _),) = crawls.values()
    time.sleep(2.5)
    offer_again(uri)
    until(pages.came_again(), other, 120)
    ended(other)
    unstored = pages.unstored(uri)
    assert {pages.served[digest][1] for digest in unstored} <= {agent}
    # its last fetch of a page each, since it had leased a page once
    last = {pages.served[digest][0]: digest for digest in pages.served if pages.served[digest][1] == agent}
    assert set(unstored) <= set(last.values())


def offer_again(uri: str) -> None:
    """Makes pages due that a planner has claimed and not queued, as if the ten minutes had passed."""
    engine = create_engine(uri)
    now = datetime.now(UTC)
    with engine.begin() as connection:
        times = {"due": now.isoformat(), "held": (now + timedelta(minutes=1)).isoformat()}
        connection.execute(text("UPDATE pages SET next_due = :due WHERE next_due > :held"), times)
    engine.dispose()


@pytest.mark.parametrize("uri", [pytest.param("sqlite", marks=pytest.mark.slow), "postgresql"], indirect=True)
def test_a_kill_of_the_engine_loses_and_repeats_nothing(
    local_web: StartWeb, start_crawl: StartCrawl, durable: Any, uri: str
) -> None:
    web = local_web(SITE)
    pages = ToldPages(web, SITE)
    server = f"unix://{durable.unix_socket_path}"
    crawl = start_crawl("broad", [web.url(SITE)], **OFTEN, REDIS_URL=server, METADATA_URI=uri)
    until(lambda: pages.fetches().keys() == pages.urls, crawl, 60)
    until(pages.came_again(1), crawl, 120)
    durable.terminate()
    durable.start()
    until(pages.came_again(1), crawl, 120)
    assert "Traceback" not in ended(crawl).stderr
    assert pages.unstored(uri) == []


def test_a_crawl_restored_beside_another_database_lacks_no_page(
    local_web: StartWeb, start_crawl: StartCrawl, tmp_path: Path
) -> None:
    """Known pages that an older database lacks are fetched once more; the others have their dates."""
    web = local_web(SITE)
    paths, copy = fill(web, SITE), tmp_path / "copy"
    seldom = {"RECRAWL": True, "RECRAWL_MIN_INTERVAL": "1d"}
    crawl = start_crawl("broad", [web.url(SITE)], data_dir=tmp_path / "first", **seldom)
    until(all_came(web, SITE, paths, 1), crawl, 60)
    ended(crawl)
    project = Project(CHECKOUT)
    words = ("checkpoint", str(copy), "-s", f"DATA_DIR={tmp_path / 'first'}")
    assert f"With the plan of {PAGES + 1} known pages." in project.scrapy(*words)

    lost = ["/", "/1", "/4"]
    (tmp_path / "second").mkdir()
    with (
        closing(sqlite3.connect(tmp_path / "first" / "metadata.db")) as first,
        closing(sqlite3.connect(tmp_path / "second" / "metadata.db")) as second,
        second,
    ):
        first.backup(second)
        second.executemany("DELETE FROM pages WHERE url = ?", [[web.url(SITE, path)] for path in lost])
    output = project.scrapy("restore", str(copy), "-s", f"DATA_DIR={tmp_path / 'second'}")
    assert "3 URLs to crawl, 13 seen" in output
    assert "The metadata database lacks 3 known pages: they are among these URLs" in output
    crawl = start_crawl("broad", [web.url(SITE)], data_dir=tmp_path / "second", **seldom)
    until(all_came(web, SITE, lost, 2), crawl, 60)
    time.sleep(1)
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in ended(crawl).rows()}
    assert {path: visits(web, SITE)[path] for path in paths} == {path: 1 + (path in lost) for path in paths}
    assert rows.keys() == set(paths)
    assert all(row["next_due"] for row in rows.values())


def test_new_links_of_a_known_page_come_first_and_are_credited_to_it(
    local_web: StartWeb, start_crawl: StartCrawl, tmp_path: Path, redis_url: str
) -> None:
    web = local_web(SITE)
    backlog = [f"/{number}" for number in range(200)]
    published: list[str] = []

    def hub(hit: Hit) -> Reply:
        links = [*backlog, *published]
        return Reply("".join(f"<a href={path}>{path}</a>" for path in links) + page(f"{published} {TEXT}"))

    web.put(SITE, "/", hub)
    for path in (*backlog, "/story", "/copy", "/later"):
        web.put(SITE, path, page(f"{path * 20} {TEXT}"))
    web.put(SITE, "/copy", page(f"{'/1' * 20} {TEXT}"))
    options = {
        "RECRAWL": True,
        "RECRAWL_MIN_INTERVAL": 1,
        "DOWNLOAD_DELAY": 0.1,
        "METADATA_URI": f"sqlite:///{tmp_path / 'pages.db'}",
        "REDIS_URL": redis_url,
        "FRONTIER_LEASE_SECONDS": 2,
    }
    crawls = [start_crawl("broad", [web.url(SITE)], **options) for _ in range(2)]
    until(lambda: visits(web, SITE)["/"] >= 2, crawls[0], 60)
    published += ["/story", "/copy", "/gone"]
    until(lambda: visits(web, SITE)["/story"] > 0, crawls[0], 60)
    waiting = len(set(backlog) - visits(web, SITE).keys())
    crawls.pop().kill()
    published.append("/later")
    until(lambda: visits(web, SITE)["/later"] > 0, crawls[0], 120)
    known = visits(web, SITE)["/"]
    until(lambda: visits(web, SITE)["/"] > known, crawls[0], 60)
    ended(crawls[0])
    assert waiting > 50
    with closing(sqlite3.connect(tmp_path / "pages.db")) as database:
        rows = dict(database.execute("SELECT url, new_links FROM pages WHERE new_links > 0").fetchall())
    # neither a copy nor an error is a new page
    assert rows == {web.url(SITE): 2}


AGAIN = """
from webcrawl.spiders.base import BroadSpider


class Again(BroadSpider):
    name = "again"

    def parse(self, response):
        if response.url.endswith("/3") and response.meta.get("depth") == 1:
            response.meta["recrawl_after"] = 1.5
        yield from super().parse(response)
"""


def test_dates_of_a_spider_are_waited_for(
    project: Project, local_web: StartWeb, start_crawl: StartCrawl
) -> None:
    project.add_spider("again", AGAIN)
    web = local_web(SITE)
    paths = fill(web, SITE)
    crawl = start_crawl("again", [web.url(SITE)], project=project.folder, RECRAWL=True)
    until(lambda: visits(web, SITE)["/3"] >= 3, crawl, 120)
    assert all(visits(web, SITE)[path] == 1 for path in paths if path != "/3")
    ended(crawl)


OWN_CALLBACK = """
from scrapy import Request
from webcrawl.spiders.base import BroadSpider


class Own(BroadSpider):
    name = "own"

    def __init__(self, home, **kwargs):
        super().__init__(**kwargs)
        self.home = home

    async def start(self):
        yield Request(self.home + "/list", callback=self.parse_list, headers={"X-Asked": "list"}, meta={"kind": "a"})

    def parse_list(self, response):
        assert response.meta["kind"] == "a"
        self.logger.warning("the list was read")
        yield from self.parse(response)
"""


def test_requests_of_a_spider_come_back_with_callback_and_headers(
    project: Project, local_web: StartWeb, start_crawl: StartCrawl
) -> None:
    project.add_spider("own", OWN_CALLBACK)
    web = local_web(SITE)
    web.put(SITE, "/list", page(TEXT))
    crawl = start_crawl("own", project=project.folder, arguments={"home": web.host(SITE)}, **OFTEN)
    until(lambda: visits(web, SITE)["/list"] >= 3, crawl, 120)
    result = ended(crawl)
    assert all(hit.headers.get("X-Asked") == "list" for hit in web.log(SITE) if hit.path == "/list")
    assert result.stderr.count("the list was read") >= 2


def test_a_crawl_that_had_ended_goes_on_with_its_pages(
    local_web: StartWeb, start_crawl: StartCrawl, run_crawl: Callable[..., CrawlResult], tmp_path: Path
) -> None:
    """Pages that were fetched without RECRAWL get dates by their last visits: those of a month ago are due."""
    web = local_web(SITE)
    paths = fill(web, SITE)
    run_crawl("broad", [web.url(SITE)])
    assert set(visits(web, SITE).values()) == {1}
    old = paths[: PAGES // 2]
    with closing(sqlite3.connect(tmp_path / "data" / "metadata.db")) as database, database:
        month_ago = (datetime.now(UTC) - timedelta(days=30)).isoformat()
        rows = [(month_ago, month_ago, web.url(SITE, path)) for path in old]
        database.executemany("UPDATE pages SET tried_at = ?, fetched_at = ? WHERE url = ?", rows)
    crawl = start_crawl(
        "broad", [web.url(SITE)], RECRAWL=True, RECRAWL_MAX_AGE="20d", RECRAWL_MIN_INTERVAL="1d"
    )
    until(all_came(web, SITE, old, 2), crawl, 120)
    time.sleep(3)
    ended(crawl)
    assert {path: visits(web, SITE)[path] for path in paths} == {path: 1 + (path in old) for path in paths}


def test_contradictory_intervals_stop_the_crawl(run_crawl: Callable[..., CrawlResult]) -> None:
    result = run_crawl("broad", RECRAWL=True, RECRAWL_MIN_INTERVAL="2h", RECRAWL_MAX_AGE="90s", status=None)
    assert result.returncode
    assert "RECRAWL_MAX_AGE is 90 seconds, and RECRAWL_MIN_INTERVAL is 7200" in result.stderr


def test_weights_in_a_missing_column_stop_the_crawl(run_crawl: Callable[..., CrawlResult]) -> None:
    result = run_crawl("broad", RECRAWL=True, RECRAWL_WEIGHTS="clicks", status=None)
    assert result.returncode
    assert "RECRAWL_WEIGHTS: 'clicks' is no column of table pages" in result.stderr


def test_rows_and_lines_say_what_fetches_were_for(local_web: StartWeb, start_crawl: StartCrawl) -> None:
    """A feed names a page more at each fetch; one page is gone."""
    web = local_web(SITE)
    web.put(SITE, "/", f"<a href=/feed>feed</a><a href=/gone>gone</a>{page(TEXT)}")
    fetches = iter(range(1, 1_000))

    def feed(_: Hit) -> Reply:
        items = "".join(f"<item><link>{web.host(SITE)}/item{n}</link></item>" for n in range(next(fetches)))
        rss = f'<?xml version="1.0"?><rss version="2.0"><channel>{items}</channel></rss>'
        return Reply(rss, headers={"Content-Type": "application/rss+xml"})

    web.put(SITE, "/feed", feed)
    for number in range(100):
        web.put(SITE, f"/item{number}", page(f"{number} {TEXT}"))
    shares = {"coverage-get": 40, "freshness-get": 20, "freshness-chk": 20, "update-chk": 20}
    crawl = start_crawl("broad", [web.url(SITE)], **OFTEN, TRAFFIC=json.dumps(shares), LOG_LEVEL="DEBUG")
    until(lambda: visits(web, SITE)["/item3"] == 1 and visits(web, SITE)["/"] > 1, crawl, 120)
    result = ended(crawl)
    classes = {row["url"].removeprefix(web.host(SITE)): row["fetch_class"] for row in result.rows()}
    assert (classes["/"], classes["/feed"], classes["/gone"]) == (
        "update-chk",
        "freshness-chk",
        "coverage-get",
    )
    assert "freshness-get" in classes.values()
    counted = result.summary["fetches"]
    assert set(counted) >= {"coverage-get", "freshness-get", "freshness-chk", "update-chk"}
    assert counted["freshness-chk"] <= visits(web, SITE)["/feed"]
    assert result.summary["traffic"] == {name: share / 100 for name, share in shares.items()}
    assert re.search(r"Crawled .* <GET \S+/feed> .*freshness-chk$", result.stderr, re.MULTILINE)


def test_a_date_of_a_spider_that_is_far_away_is_in_the_plan(
    project: Project, local_web: StartWeb, start_crawl: StartCrawl
) -> None:
    project.add_spider("again", AGAIN.replace("1.5", "7200"))
    web = local_web(SITE)
    paths = fill(web, SITE)
    crawl = start_crawl("again", [web.url(SITE)], project=project.folder, RECRAWL=True)
    until(all_came(web, SITE, paths, 1), crawl, 120)
    time.sleep(3)
    result = ended(crawl)
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert [path for path in paths if rows[path]["is_date_set"]] == ["/3"]
    wait = datetime.fromisoformat(rows["/3"]["next_due"]) - datetime.now(UTC)
    assert timedelta(hours=1.8) < wait < timedelta(hours=2)
    assert visits(web, SITE)["/3"] == 1


def test_an_operator_sets_the_date_of_a_fetched_page(
    local_web: StartWeb, start_crawl: StartCrawl, run_crawl: Callable[..., CrawlResult]
) -> None:
    web = local_web(SITE)
    paths = fill(web, SITE)
    first = run_crawl("broad", [web.url(SITE)])
    changes = first.data_dir / "changes.jsonl"
    dates = [
        {"url": web.url(SITE, path), "date": datetime.now(UTC).isoformat()} for path in ("/3", "/4", "/never")
    ]
    drop = {"url": web.url(SITE, "/5"), "drop": True}
    changes.write_text("".join(json.dumps(change) + "\n" for change in (*dates, drop)))
    words = ("urls", "--set", str(changes), "-s", f"DATA_DIR={first.data_dir}")
    assert Project(CHECKOUT).scrapy(*words).splitlines() == [
        "0 URLs changed: 0 dropped, 0 with a level, 0 with a date.",
        "2 fetched URLs planned for a date, at which a crawl with RECRAWL fetches them again.",
        "1 fetched URL dropped from the plan of a crawl with RECRAWL.",
        "1 URL left as they are: the crawl does not know them.",
    ]
    crawl = start_crawl("broad", [web.url(SITE)], RECRAWL=True)
    until(all_came(web, SITE, ["/3", "/4"], 2), crawl, 120)
    time.sleep(3)
    rows = {row["url"]: row for row in ended(crawl).rows()}
    assert {path for path in paths if visits(web, SITE)[path] > 1} == {"/3", "/4"}
    assert [path for path in paths if rows[web.url(SITE, path)]["next_due"] is None] == ["/5"]


def test_a_crawl_ends_after_its_time(local_web: StartWeb, run_crawl: Callable[..., CrawlResult]) -> None:
    web = local_web(SITE)
    fill(web, SITE)
    result = run_crawl("broad", [web.url(SITE)], **OFTEN, CLOSESPIDER_TIMEOUT="0.1m")
    assert result.summary["finish_reason"] == "closespider_timeout"
    wrong = run_crawl("broad", [web.url(SITE)], CLOSESPIDER_TIMEOUT="soon", status=None)
    assert wrong.returncode == 2 and "CLOSESPIDER_TIMEOUT must be seconds" in wrong.stderr


def test_the_time_of_a_crawl_is_an_option() -> None:
    parser = argparse.ArgumentParser()
    add_short_options(parser)
    options = parser.parse_args(["--for", "2h"], argparse.Namespace(set=[], spargs=[]))
    take_urls(["broad"], options, Settings())
    assert options.set == ["CLOSESPIDER_TIMEOUT=2h"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_goes_on_for_a_week(operations: Operations, local_web: StartWeb) -> None:
    """Its later firings are skipped. On the third day its scheduler dies, and another goes on with the plan."""
    web = local_web(SITE)
    paths = fill(web, SITE)
    job = {"name": "week", "cron": "0 4 * * *", "state": "ON", "overlap": "skip", "spider": "broad"}
    given = {"seeds": [web.url(SITE)], "arguments": {"scope": "host"}, "settings": OFTEN}
    operations.store.apply([{**job, **given}], BEGIN)
    operations.start("a")
    for day in range(1, 8):
        operations.move_to(BEGIN + timedelta(days=day))
        if day == 3:
            operations.start("b")
            operations.kill("a")
        web.put(SITE, "/1", page(f"The news of day {day}. {TEXT}"))
        before = visits(web, SITE)
        operations.pass_time(
            lambda before=before: all(visits(web, SITE)[path] >= before[path] + 2 for path in paths)
        )
    first, *skipped = reversed(operations.store.iterations("week"))
    assert first.state == IterationState.RUNNING
    assert {iteration.state for iteration in skipped} == {IterationState.SKIPPED}
    operations.jobs("off", "week")
    operations.pass_time(lambda: operations.store.iterations("week")[-1].ended is not None)
    with closing(sqlite3.connect(f"{first.data_dir}/metadata.db")) as database:
        query = "SELECT url, fetches, changes FROM pages ORDER BY url"
        rows = {url.removeprefix(web.host(SITE)): counts for url, *counts in database.execute(query)}
    assert rows.keys() == set(paths)
    assert rows["/1"][1] == 6
    assert [rows[path][1] for path in paths if path != "/1"] == [0] * PAGES


@pytest.mark.timeout(600)
def test_iterations_of_a_job_end_after_their_time(operations: Operations, local_web: StartWeb) -> None:
    web = local_web(SITE)
    paths = fill(web, SITE)
    job = {"name": "while", "cron": "0 0 1 1 *", "state": "ON", "spider": "broad", "seeds": [web.url(SITE)]}
    job["arguments"] = {"scope": "host"}
    operations.start("a")
    seconds, iterations = 4, 0
    while iterations < 2:
        settings = {**OFTEN, "CLOSESPIDER_TIMEOUT": f"{seconds}s"}
        operations.store.apply([{**job, "settings": settings}], BEGIN)
        before = visits(web, SITE)
        operations.run_job("while")
        if all(visits(web, SITE)[path] >= before[path] + 2 for path in paths):
            iterations += 1
        else:
            # a busy machine fetches little in a few seconds
            seconds *= 3
            assert seconds < 120, "pages do not come back"


def test_changes_that_a_sitemap_announces_are_fetched_as_far_as_it_is_true(
    local_web: StartWeb, run_crawl: Callable[..., CrawlResult], start_crawl: StartCrawl, tmp_path: Path
) -> None:
    """One host tells truly that half of its pages have changed, the other always tells that all have.

    The other's ETags lie too, so its pages are asked without them, as is each page at times.
    """
    web = local_web(SITE, OTHER)
    paths, now = [f"/{number}" for number in range(8)], datetime.now(UTC)
    changed, before, later = paths[:4], now - timedelta(days=1), now + timedelta(days=30)
    for site in (SITE, OTHER):
        web.put(site, "/", f"<a href=/map.xml>map</a>{page(TEXT)}")
        entries = ((web.url(site, path), before.date().isoformat()) for path in paths)
        web.put(site, "/map.xml", Reply(urlset(*entries), headers=XML | {"ETag": '"old"'}))
        for path in paths:
            web.put(site, path, Reply(page(f"{path} {TEXT}"), headers={"ETag": '"old"'}))
    run_crawl("broad", [web.url(SITE), web.url(OTHER)])
    for site, names in ((SITE, changed), (OTHER, paths)):
        entries = (
            (web.url(site, path), (now - timedelta(hours=9) if path in names else before).isoformat())
            for path in paths
        )
        web.put(site, "/map.xml", Reply(urlset(*entries), headers=XML | {"ETag": '"new"'}))
    for path in changed:
        web.put(SITE, path, page(f"{path} is new. {TEXT}"))
    with closing(sqlite3.connect(tmp_path / "data" / "metadata.db")) as database, database:
        quiet = '[3, 0, 0, 0, 30.0, 0, 0, 0, 0, "before"]'
        set_all = "UPDATE pages SET tried_at = ?, fetched_at = ?, next_due = ?, change_evidence = ?"
        database.execute(set_all, (before.isoformat(), before.isoformat(), later.isoformat(), quiet))
        maps = "UPDATE pages SET next_due = ?, is_date_set = 1 WHERE url LIKE '%/map.xml'"
        database.execute(maps, (before.isoformat(),))
        database.execute("UPDATE pages SET fetches = 15 WHERE url = ?", [web.url(SITE, "/0")])
        counts = {SITE: [200, 1, 0, 2000], OTHER: [1, 40, 400, 400]}
        lies = {"etag": [0, 20, 0, 100]}
        rows = [
            (web.host(site), json.dumps({"sitemap": values} | (lies if site == OTHER else {})))
            for site, values in counts.items()
        ]
        database.executemany("INSERT INTO host_signals VALUES (?, ?)", rows)
    crawl = start_crawl("broad", [web.url(SITE), web.url(OTHER)], RECRAWL=True, RECRAWL_MIN_INTERVAL="1h")
    until(all_came(web, SITE, changed, 2), crawl, 60)
    until(all_came(web, OTHER, ["/map.xml"], 2), crawl, 60)
    time.sleep(1)
    rows = {row["url"]: row for row in ended(crawl).rows()}
    assert [path for path in paths if visits(web, SITE)[path] > 1] == changed
    assert [path for path in paths if visits(web, OTHER)[path] > 1] == []
    assert all(rows[web.url(SITE, path)]["changes"] == 1 for path in changed)
    asked = {
        (site, path): [hit.headers.get("If-None-Match") for hit in web.log(site) if hit.path == path][:2]
        for site, path in ((SITE, "/map.xml"), (OTHER, "/map.xml"), (SITE, "/0"), (SITE, "/1"))
    }
    assert [each[1] for each in asked.values()] == ['"old"', None, None, '"old"']
    with closing(sqlite3.connect(tmp_path / "data" / "metadata.db")) as database:
        learned = dict(database.execute("SELECT host, counts FROM host_signals"))
    assert json.loads(learned[web.host(SITE)])["sitemap"][0] > 203
