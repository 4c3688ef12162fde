"""A crawl whose metadata database is unavailable for a while or rejects rows."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from redis import Redis

from tests.crawl.conftest import Project
from tests.crawls import Crawl, until
from tests.postgres import PostgresServer
from tests.web import LocalWeb, generated_web
from webcrawl.stores.metadata import Metadata

SITES = tuple(f"127.0.1.{n}" for n in range(1, 7))
IMPATIENT = """
import webcrawl.stores.backpressure
from webcrawl.spiders.base import BroadSpider

# ten seconds would be long for a test
webcrawl.stores.backpressure.SHUTDOWN_SECONDS = 0.5


class Impatient(BroadSpider):
    name = "impatient"
"""


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def start(
    start_crawl: Callable[..., Crawl], project: Project, database: str, valkey: Redis, redis_url: str
) -> Callable[..., Crawl]:
    def start(spider: str, source: str, web: LocalWeb) -> Crawl:
        project.add_spider(spider, source)
        return start_crawl(
            spider,
            seeds(web),
            project=project.folder,
            REDIS_URL=redis_url,
            METADATA_URI=database,
            DOWNLOAD_DELAY=0.05,
            FRONTIER_MAX_ATTEMPTS=1,
            FRONTIER_LEASE_SECONDS=2,
        )

    return start


def seeds(web: LocalWeb) -> list[str]:
    return [web.url(site) for site in SITES]


def fetches(database: str, urls: set[str]) -> list[int]:
    """Returns how often each page was stored; asserts that exactly `urls` are stored."""
    with Metadata(database) as metadata:
        rows = list(metadata.scan())
    assert {row["url"] for row in rows} == urls
    assert {row["status"] for row in rows} == {200}
    return [row["fetches"] for row in rows]


def test_pages_wait_for_an_unavailable_database_and_are_stored_once(
    start: Callable[..., Crawl], local_web: Callable[..., LocalWeb], postgres: PostgresServer, database: str
) -> None:
    web = local_web(*SITES)
    pages = generated_web(8, web, pages=90).reachable(*seeds(web))
    crawl = start("impatient", IMPATIENT, web)
    until(lambda: len(web.hits) >= 20, crawl)
    postgres.stop()
    try:
        until(lambda: "The stores accept nothing more" in crawl.stderr, crawl)
        time.sleep(2.5)  # longer than a lease
    finally:
        postgres.start()
    before = len(web.hits)
    until(lambda: len(web.hits) >= before + 15, crawl)
    postgres.stop()
    try:
        until(lambda: crawl.stderr.count("The stores accept nothing more") == 2, crawl)
        crawl.interrupt()
        assert crawl.wait().returncode == 0
    finally:
        postgres.start()
    result = start("impatient", IMPATIENT, web).wait(60)
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
    # pages abandoned at the interrupt are fetched again, but were not stored before
    assert set(fetches(database, pages)) == {1}
    assert "Traceback" not in crawl.stderr + result.stderr


def test_a_database_that_rejects_every_row_causes_no_dead_letters(
    start: Callable[..., Crawl], local_web: Callable[..., LocalWeb], postgres: PostgresServer, database: str
) -> None:
    web = local_web(*SITES)
    pages = generated_web(8, web, pages=60).reachable(*seeds(web))
    crawl = start("impatient", IMPATIENT, web)
    until(lambda: len(web.hits) >= 20, crawl)
    postgres.execute(database, "ALTER TABLE pages RENAME TO elsewhere")
    until(lambda: "The stores accept nothing more" in crawl.stderr, crawl)
    assert 'relation "pages" does not exist' in crawl.stderr
    postgres.execute(database, "ALTER TABLE elsewhere RENAME TO pages")
    result = crawl.wait(60)
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
    assert set(fetches(database, pages)) == {1}
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("limit", [0, 2_601])
def test_a_urllength_limit_beyond_the_databases_maximum_is_refused_at_start(
    start_crawl: Callable[..., Crawl], limit: int
) -> None:
    uri = "postgresql+psycopg://nobody@127.0.0.1:9/none"
    crawl = start_crawl("broad", ["http://127.0.0.1:9/"], METADATA_URI=uri, URLLENGTH_LIMIT=limit)
    result = crawl.wait(status=2)
    assert f"URLLENGTH_LIMIT {limit}: must be from 1 to 2600" in result.stderr
    assert "Traceback" not in result.stderr


HURRIED = """
import webcrawl.stores.backpressure
from webcrawl.spiders.base import BroadSpider
from webcrawl.stores import answering, database

# the default of half a minute is too long for a test
webcrawl.stores.backpressure.SHUTDOWN_SECONDS = 0.5
answering.ANSWER_SECONDS = 1.0
database.CONNECT_SECONDS = 2


class Hurried(BroadSpider):
    name = "hurried"
"""


def test_pages_wait_for_a_hanging_database_and_the_crawl_can_be_stopped(
    start: Callable[..., Crawl], local_web: Callable[..., LocalWeb], postgres: PostgresServer, database: str
) -> None:
    web = local_web(*SITES)
    pages = generated_web(8, web, pages=90).reachable(*seeds(web))
    crawl = start("hurried", HURRIED, web)
    until(lambda: len(web.hits) >= 20, crawl)
    postgres.hang()
    try:
        until(lambda: "The stores accept nothing more" in crawl.stderr, crawl)
        assert "no answer for 1 seconds" in crawl.stderr or "timeout expired" in crawl.stderr
        time.sleep(2.5)  # longer than a lease, which heartbeats must renew
        held = len(web.hits)
        time.sleep(1)
        assert len(web.hits) == held
    finally:
        postgres.go_on()
    until(lambda: "The stores accept pages again" in crawl.stderr, crawl)
    until(lambda: len(web.hits) >= held + 15, crawl)
    postgres.hang()
    try:
        until(lambda: crawl.stderr.count("The stores accept nothing more") == 2, crawl)
        crawl.interrupt()
        assert crawl.wait().returncode == 0
    finally:
        postgres.go_on()
    result = start("hurried", HURRIED, web).wait(60)
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
    # pages abandoned at the interrupt are fetched again; some may already have been committed
    assert sum(count > 1 for count in fetches(database, pages)) <= 10
    assert "Traceback" not in crawl.stderr + result.stderr


REFUSING = """
from webcrawl.spiders.base import BroadSpider


class Refusing(BroadSpider):
    name = "refusing"

    def page(self, response):
        page = super().page(response)
        if page.url.endswith("/bad"):
            page.depth = None
        return page
"""


def test_a_rejected_row_fails_only_its_own_page(
    start_crawl: Callable[..., Crawl], project: Project, local_web: Callable[..., LocalWeb]
) -> None:
    site = SITES[0]
    web = local_web(site)
    urls = [web.put(site, f"/{number}", f"page {number}") for number in range(8)]
    bad = web.put(site, "/bad", "bad")
    project.add_spider("refusing", REFUSING)
    crawl = start_crawl(
        "refusing",
        [*urls[:4], bad, *urls[4:]],
        project=project.folder,
        CONCURRENT_REQUESTS_PER_DOMAIN=9,
        FRONTIER_MAX_ATTEMPTS=1,
    )
    result = crawl.wait()
    assert {row["url"] for row in result.rows()} == set(urls)
    assert result.summary["dead_letters"] == 1
    (line,) = [
        line for line in result.stderr.splitlines() if "NOT NULL constraint failed: pages.depth" in line
    ]
    assert f"{bad} is not stored: sqlite:///" in line
    assert "Traceback" not in result.stderr and "Page(" not in result.stderr
