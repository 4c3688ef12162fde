"""Announcements of changes in the plan, and what their hosts' are worth, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from sqlalchemy import select

from tests.cases import cases
from tests.metadata import NOW, row
from webcrawl.documents.mime.facts import Link
from webcrawl.documents.page import Page
from webcrawl.pipelines.metadata import announced_changes
from webcrawl.policies.change_rates import ChangeHistory
from webcrawl.policies.change_signals import (
    CACHE_CONTROL,
    ETAG,
    LAST_MODIFIED,
    PAGE_DATE,
    SITEMAP,
    Announcements,
    SignalCounts,
)
from webcrawl.policies.crawl_value import Bounds
from webcrawl.policies.revisit_dates import RevisitDates
from webcrawl.stores.columns import host_signals, in_utc
from webcrawl.stores.due_pages import DuePage, DuePages
from webcrawl.stores.metadata import Metadata

HOST, CRAWL = "https://example.org", "news"
URLS = [f"{HOST}/{number}" for number in range(4)]
MAP = f"{HOST}/sitemap.xml"
DAY = timedelta(days=1)


class Site:
    """A stored site with a plan; each page was visited twice, the last time at NOW."""

    def __init__(self, uri: str) -> None:
        self.dates = RevisitDates(Bounds())
        self.metadata = Metadata(uri, dates=self.dates)
        self.visit(NOW - 20 * DAY, "A")
        self.visit(NOW, "A")
        self.plan = DuePages(uri, CRAWL)

    def visit(self, at: datetime, digest: str, urls: list[str] = URLS, **values: Any) -> None:
        values = {"status": 200, "digest": f"sha1:{digest}"} | values
        self.metadata.upsert([row(url, fetched_at=at, **values) | {"crawl": CRAWL} for url in urls])

    def announce(self, changed: datetime, now: datetime, urls: list[str] = URLS) -> int:
        return self.plan.announce(self.dates, SITEMAP, MAP, dict.fromkeys(urls, changed), now)

    def pages(self) -> dict[str, DuePage]:
        return {page.url: page for page in self.plan.look("", 100)[0]}

    def due(self, url: str) -> datetime:
        return in_utc(self.pages()[url].next_due)

    def told(self, url: str) -> Announcements:
        """What the sitemap has told of a page since its last visit."""
        signals = self.pages()[url].signals
        assert signals is not None
        return Announcements(*signals[SITEMAP])

    def counts(self, kind: str = SITEMAP) -> SignalCounts:
        with self.metadata.database.reading() as connection:
            rows = connection.execute(select(host_signals)).all()
        assert [row.host for row in rows] in ([], [HOST])
        return SignalCounts(*rows[0].counts.get(kind, ())) if rows else SignalCounts()


@pytest.fixture
def site(uri: str) -> Iterator[Site]:
    site = Site(uri)
    yield site
    site.plan.close()
    site.metadata.close()


def test_an_announced_change_brings_the_date_of_a_page_forward(site: Site) -> None:
    for number in range(1, 4):  # the sitemap proves true
        site.announce(NOW + (2 * number - 1) * DAY, NOW + 2 * number * DAY)
        site.visit(NOW + 2 * number * DAY, f"{number}")
    visited = NOW + 6 * DAY
    dates, changed, now = [site.due(url) for url in URLS], visited + DAY / 24, visited + DAY / 12
    assert site.announce(changed, now, [*URLS[:2], f"{HOST}/unknown"]) == 2
    later = [site.due(url) for url in URLS]
    assert later[0] < dates[0] and later[1] < dates[1]
    assert later[2:] == dates[2:]
    assert site.told(URLS[0]) == Announcements(1, changed.timestamp(), changed.timestamp(), MAP)
    assert site.announce(changed, now) == 2  # the others
    assert site.announce(changed, now) == 0
    assert [site.due(url) for url in URLS[:2]] == later[:2]


def test_a_change_before_the_last_visit_announces_nothing(site: Site) -> None:
    dates = [site.due(url) for url in URLS]
    assert site.announce(NOW - DAY, NOW + DAY) == 0
    assert [site.due(url) for url in URLS] == dates
    assert site.told(URLS[0]) == Announcements(latest=(NOW - DAY).timestamp())


def test_dates_that_are_set_and_pages_of_other_crawls_stay(uri: str, site: Site) -> None:
    due = NOW + 9 * DAY
    site.plan.set_dates({URLS[0]: due})
    site.announce(NOW + DAY / 2, NOW + DAY)
    assert site.due(URLS[0]) == due
    with DuePages(uri, "other") as other:
        assert other.announce(site.dates, SITEMAP, MAP, {URLS[0]: NOW + DAY}, NOW + 2 * DAY) == 0


def test_visits_teach_what_a_signal_is_worth(site: Site) -> None:
    site.announce(NOW + DAY / 2, NOW + DAY, URLS[:2])
    site.announce(NOW - DAY, NOW + DAY, URLS[2:])
    site.visit(NOW + DAY, "B", URLS[:1])  # announced and changed
    hits = site.counts()
    assert hits.hits > 0.3 and hits.misses < 0.2 and hits.days == pytest.approx(1)
    site.visit(NOW + DAY, "A", URLS[1:2])  # announced and unchanged
    mistakes = site.counts()
    assert (mistakes.mistakes - hits.mistakes, mistakes.hits) == (pytest.approx(1, abs=0.01), hits.hits)
    site.visit(NOW + DAY, "B", URLS[2:3])  # changed without an announcement
    misses = site.counts()
    assert misses.misses - mistakes.misses == pytest.approx(1, abs=0.01)
    site.visit(NOW + DAY, "A", URLS[3:], status=503)  # teaches nothing
    assert site.counts() == misses
    assert [site.told(url).times for url in URLS] == [0, 0, 0, 0]


def test_an_announcement_outlasts_a_visit_that_fails(site: Site) -> None:
    site.announce(NOW + DAY / 2, NOW + DAY)
    site.visit(NOW + DAY, "A", URLS[:1], status=503)
    assert site.told(URLS[0]).times == 1


def test_last_modified_is_learned_at_visits(site: Site) -> None:
    now, later = NOW + 2 * DAY, format_datetime(NOW + DAY, usegmt=True)
    site.visit(now, "B", URLS[:1], last_modified=later)
    site.visit(now, "A", URLS[1:2], last_modified=later)
    site.visit(now, "B", URLS[2:3], last_modified=format_datetime(NOW - DAY, usegmt=True))
    site.visit(now, "B", URLS[3:], last_modified="soon")
    learned = site.counts(LAST_MODIFIED)
    assert learned.hits > 0.3 and learned.mistakes >= 1 and learned.misses > 0.9
    assert learned.days == pytest.approx(6)
    assert all(page.signals is None for page in site.pages().values())


def test_a_page_that_told_of_changes_truly_is_credited(site: Site) -> None:
    site.visit(NOW, "A", [MAP])
    for number in range(1, 12):
        now = NOW + 2 * number * DAY
        site.announce(now - DAY, now)
        site.visit(now, f"{number}")
    assert site.counts().recall > 0.5
    site.plan.credit(site.dates.take_sources())
    credited = site.metadata.get(MAP)
    assert credited is not None and credited["new_links"] > 20
    evidence = site.pages()[URLS[0]].change_evidence
    assert evidence is not None
    dated = ChangeHistory._fields.index("dated")
    assert float(evidence[dated]) > 5  # the time of an announced change is known


def test_etags_are_learned_at_visits_and_not_sent_when_they_lie(site: Site) -> None:
    for number in range(1, 4):
        now = NOW + number * DAY
        site.visit(now, f"{number}", URLS[:3], etag='"same"')  # the text changes, the ETag does not
        site.visit(now, "A", URLS[3:], etag=f'"{number}"')
    learned = site.counts(ETAG)
    assert learned[:3] == (0, 6, 2)  # the first visits have nothing to compare
    assert learned.days == pytest.approx(4 * 2)
    assert not learned.is_valid
    assert site.metadata.signal_counts([HOST, "https://other.example"]) == {HOST: {ETAG: learned}}
    site.visit(NOW + 4 * DAY, "A", URLS[3:], status=304, etag='"3"')
    assert site.counts(ETAG)[:3] == learned[:3]
    site.visit(NOW + 5 * DAY, "B", URLS[3:], etag='"4"')
    assert site.counts(ETAG)[:3] == (1, 6, 2)


def test_dates_in_pages_are_learned_as_those_of_headers(site: Site) -> None:
    later = {"modified": (NOW + DAY).isoformat()}
    site.visit(NOW + 2 * DAY, "B", URLS[:1], details=later)
    site.visit(NOW + 2 * DAY, "A", URLS[1:2], details=later)
    site.visit(NOW + 2 * DAY, "B", URLS[2:3], details={"modified": "no date"})
    learned = site.counts(PAGE_DATE)
    assert learned.hits > 0.3 and learned.mistakes >= 1
    assert learned.days == pytest.approx(4)


def test_lifetimes_put_off_the_date_of_a_page_as_far_as_they_are_kept(site: Site) -> None:
    site.visit(NOW + DAY, "B", URLS, lifetime=5.0)
    assert {tuple(page.signals[CACHE_CONTROL]) for page in site.pages().values() if page.signals} == {
        (0, 0.0, 0.0, "", 5.0)
    }
    site.visit(NOW + 2 * DAY, "B", URLS[:2], lifetime=5.0)
    assert site.counts(CACHE_CONTROL).broken < 1
    before = site.counts(CACHE_CONTROL).broken
    site.visit(NOW + 2 * DAY, "C", URLS[2:], lifetime=5.0)
    assert site.counts(CACHE_CONTROL).broken > before
    trusted = {CACHE_CONTROL: [99.0, 1.0, 0.0, 400.0]}
    site.metadata.database.write(
        lambda connection: connection.execute(host_signals.update().values(counts=trusted))
    )
    site.visit(NOW + 3 * DAY, "D", URLS[:1], lifetime=5.0)
    site.visit(NOW + 3 * DAY, "D", URLS[1:2], lifetime=site.dates.bounds.shortest / 2)
    site.visit(NOW + 3 * DAY, "A", URLS[2:3], status=503)
    assert site.due(URLS[0]) > site.due(URLS[1]) + DAY
    pages = site.pages()
    assert pages[URLS[1]].signals is None
    assert pages[URLS[2]].signals == {CACHE_CONTROL: [0, 0.0, 0.0, "", 5.0]}  # until a visit that counts


@cases(
    ("referrer", "is_sitemap", "hosts"),
    [
        (None, True, [HOST]),
        ("https://shop.example/robots.txt", True, [HOST, "https://shop.example"]),
        ("https://shop.example/robots.txt", False, [HOST]),
        ("https://shop.example/", True, [HOST]),
    ],
)
def test_a_host_is_heard_about_its_own_pages_only(
    referrer: str | None, is_sitemap: bool, hosts: list[str]
) -> None:
    """Unless the robots.txt of another host names the sitemap."""
    page = Page(url=MAP, host=HOST, fetched_at=NOW, referrer=referrer)
    page.reading.is_sitemap = is_sitemap
    named = [f"{host}/page" for host in (HOST, "https://shop.example", "https://other.example")]
    page.links.in_document = (SITEMAP, [Link(url, NOW) for url in named])
    assert announced_changes(page) == {f"{host}/page": NOW for host in hosts}
