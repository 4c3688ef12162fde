"""The pages about hosts and dead letters, and what operators do there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.dashboard.engine import bury, in_engine
from tests.dashboard.site import ATTACK, ATTACK_PATH, CLOSED, HOME, CrawledSite
from webcrawl.frontier import Candidate, FrontierCounts, LeaseReport
from webcrawl.frontier.records import HostStatus
from webcrawl.opened import OpenedCrawl

OpenPage = Callable[..., Any]
HOST = "https://www.h7.test"
HOSTS = 130
MARKUP = "<script>attacked = 1</script>\"><img src=x onerror='attacked = 2'>{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def many(site: CrawledSite) -> CrawledSite:
    """The site with a crawl "many" of hosts with queues of different lengths."""

    async def add(opened: OpenedCrawl) -> None:
        hosts = [f"https://www.h{number}.test" for number in range(HOSTS)]
        await opened.connection.frontier.add(
            [Candidate(host, f"/{n}", None) for number, host in enumerate(hosts) for n in range(1 + number)]
        )

    in_engine(site, "many", add)
    return site


def test_the_table_is_sorted_filtered_and_turned_page_by_page(open_page: OpenPage, many: CrawledSite) -> None:
    from playwright.sync_api import expect

    page = open_page("/crawls/many/hosts")
    rows = page.locator("table.data tbody tr")
    assert rows.count() == 100
    assert rows.first.inner_text().split()[:3] == ["https://www.h129.test", "waits", "130"]
    page.get_by_role("link", name="Next of these 130").click()
    expect(rows).to_have_count(30)
    assert rows.last.inner_text().startswith("https://www.h0.test")
    page.get_by_label("Name contains").fill("H11")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#read")).to_contain_text("11 of 130 hosts that were looked at")
    page.get_by_role("link", name="Host", exact=True).click()
    assert page.locator("thead th[aria-sort=ascending]").inner_text().startswith("Host")
    assert [text.split()[0] for text in rows.all_inner_texts()] == [
        f"https://www.h{number}.test" for number in (11, *range(110, 120))
    ]
    assert page.get_by_role("link", name="First hosts").count() == 0
    page.get_by_role("link", name="Queued", exact=True).click()
    page.locator("thead th[aria-sort=descending]", has_text="Queued").wait_for()
    page.get_by_role("link", name="Queued", exact=True).click()
    page.locator("thead th[aria-sort=ascending]", has_text="Queued").wait_for()
    assert rows.first.inner_text().startswith("https://www.h11.test")
    page.get_by_label("Name contains").fill(ATTACK)
    page.get_by_role("button", name="Show").click()
    page.get_by_text("No host of this list has that in its name").wait_for()
    assert ATTACK in page.locator("#read").inner_text()


def test_errors_of_hosts_are_counted_and_listed(open_page: OpenPage, site: CrawledSite) -> None:
    """An answer of 404, and each attempt without an answer; a redirect and pages are none."""
    page = open_page("/crawls/broad/hosts?list=failing")
    heads = page.locator("table.data thead th").all_inner_texts()
    place = heads.index("Errors")
    rows = page.locator("table.data tbody tr")
    assert page.locator("thead th[aria-sort=descending]").inner_text() == "Errors"
    errors = {
        row.locator("th").inner_text(): int(row.locator("td").nth(place - 1).inner_text())
        for row in rows.all()
    }
    assert errors == {site.web.host(HOME): 1, CLOSED.removesuffix("/never"): 1}


def test_the_politeness_of_hosts_is_told_with_its_reason(open_page: OpenPage, site: CrawledSite) -> None:
    asked, failed = "http://asked.test", "http://failed.test"

    async def refuse(opened: OpenedCrawl) -> None:
        frontier = opened.connection.frontier
        await frontier.add([Candidate(host, "/", None) for host in (asked, failed)])
        for lease in await frontier.lease(2, 1):
            lease.failures = 1
            pause = 900.0 if lease.host == asked else 300.0
            await frontier.settle_all([LeaseReport(lease, (), pause=pause, asked=lease.host == asked)])
        await frontier.set_delay(failed, 7.5)

    in_engine(site, "polite", refuse)
    page = open_page("/crawls/polite")
    waiting = page.locator("section.card", has=page.get_by_role("heading", name="Hosts that wait longest"))
    first, second = waiting.locator("tbody tr").all_inner_texts()
    assert asked in first and "by Retry-After" in first and " UTC" in first
    assert failed in second and "backs off" in second
    page.goto(f"{site.url}/crawls/polite/hosts?list=waiting")
    assert "in order over the whole crawl" in page.locator("#read").inner_text()
    first, second = page.locator("tbody tr").all_inner_texts()
    assert "asked to wait" in first and "7.5 s by an operator" in second
    page.get_by_role("link", name=asked).click()
    page.locator("tr", has_text="Next request").get_by_text("by Retry-After").wait_for()
    page.goto(f"{site.url}/crawls/polite/hosts?list=waiting&order=name")
    assert "sorted among themselves only" in page.locator("#read").inner_text()


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("after=99.x", "is no place in a list of hosts"),
        ("list=all", "is no list of hosts: choose one of"),
        ("order=" + quote(ATTACK), "is no order"),
        ("start=-1", "is not a whole number"),
    ],
)
def test_a_wrong_address_is_told(open_page: OpenPage, many: CrawledSite, query: str, told: str) -> None:
    answer = open_page("/crawls/many/hosts").request.get(f"{many.url}/crawls/many/hosts?{query}")
    assert (answer.status, told in answer.text()) == (400, True)


def test_operators_block_slow_down_and_limit_a_host(open_page: OpenPage, many: CrawledSite) -> None:
    page = open_page(f"/crawls/many/hosts/host?host={quote(HOST)}")
    page.get_by_role("heading", name=HOST).wait_for()
    page.get_by_role("button", name="Block").click()
    page.get_by_text(f"{HOST} is blocked").wait_for()
    assert state_of(many).parked == "blocked"
    page.get_by_role("button", name="Unblock").click()
    page.get_by_text(f"{HOST} is fetched again").wait_for()
    assert state_of(many).parked is None
    page.get_by_label("Seconds between two requests").fill("2.5")
    page.get_by_role("button", name="Set the delay").click()
    page.get_by_text("At least 2.5 s are between two requests").wait_for()
    page.get_by_label("Most pages").fill("1,000")
    page.get_by_label("Most depth").fill("3")
    page.get_by_role("button", name="Set the limits").click()
    page.get_by_text("pages 1,000, depth 3").wait_for()
    state = state_of(many)
    assert (state.delay, state.limits.pages, state.limits.bytes, state.limits.depth) == (2.5, 1000, None, 3)
    page.get_by_label("Seconds between two requests").fill("")
    page.get_by_role("button", name="Set the delay").click()
    page.get_by_text("has no delay of its own any more").wait_for()
    assert state_of(many).delay is None


def test_the_table_blocks_a_host_and_shows_it_among_the_held(open_page: OpenPage, many: CrawledSite) -> None:
    page = open_page("/crawls/many/hosts?text=h8.test")
    page.get_by_role("button", name="Block").click()
    page.locator("tbody").get_by_text("blocked", exact=True).wait_for()
    page.goto(f"{many.url}/crawls/many/hosts?list=held")
    page.get_by_role("button", name="Unblock").click()
    page.get_by_text("This list is empty").wait_for()


def test_wrong_values_change_nothing_and_are_told(open_page: OpenPage, many: CrawledSite) -> None:
    before = state_of(many)
    page = open_page(f"/crawls/many/hosts/host?host={quote(HOST)}")
    token = page.locator('input[name="token"]').first.input_value()
    for path, fields, told in (
        ("delay", {"host": HOST, "seconds": "soon"}, "must be a number of seconds from 0 to 86,400"),
        ("delay", {"host": HOST, "seconds": "nan"}, "must be a number of seconds from 0 to 86,400"),
        ("delay", {"host": HOST}, "the form has no field &#39;seconds&#39;"),
        ("limit", {"host": HOST, "pages": "-2", "bytes": "", "depth": ""}, "is not a whole number"),
        ("block", {"host": "no host"}, "is not a host such as https://example.org"),
        ("rule", {"host": HOST, "rule": "?x", "turn": "off"}, "is no DUST rule of"),
        ("rule", {"host": HOST, "rule": "?x", "turn": "over"}, "is neither on nor off"),
    ):
        form = {"token": token, "next": "/", **fields}
        answer = page.request.post(f"{many.url}/crawls/many/hosts/{path}", form=form)
        assert (answer.status, told in answer.text()) == (400, True), path
    assert state_of(many) == before


def test_a_host_shows_its_answers_robots_txt_and_dead_letters(open_page: OpenPage, site: CrawledSite) -> None:
    page = open_page(f"/crawls/broad/hosts/host?host={quote(site.web.host(HOME))}")
    assert "Disallow: /private/" in page.get_by_role("region", name="Rules of robots.txt").inner_text()
    answers = page.locator("section", has=page.get_by_role("heading", name="Answers")).inner_text()
    assert "404" in answers and "robots.txt disallows it" in answers
    page = open_page("/crawls/broad/hosts/host?host=http://127.0.1.9:9")
    page.get_by_text("RobotsUnreachable: …").wait_for()
    page.get_by_text("It was not read").wait_for()
    assert not page.get_by_text("This crawl has never had a URL of this host").count()
    page = open_page("/crawls/broad/hosts/host?host=http://unknown.test")
    page.get_by_text("This crawl has never had a URL of this host").wait_for()


def test_a_wrong_filter_leads_back_to_its_page(open_page: OpenPage) -> None:
    page = open_page("/crawls/broad/pages?status=abc", allowed=[400])
    page.get_by_text("'abc' is not a status").wait_for()
    page.get_by_role("link", name="Back to Pages").click()
    page.get_by_role("heading", name="Pages", exact=True).wait_for()
    assert page.url.endswith("/crawls/broad/pages")


def state_of(site: CrawledSite) -> HostStatus:
    async def read(opened: OpenedCrawl) -> HostStatus:
        return await opened.connection.frontier.host(HOST)

    return in_engine(site, "many", read)


def test_dead_letters_are_shown_by_reason_and_queued_again(open_page: OpenPage, site: CrawledSite) -> None:
    letters = [(f"http://d{n}.test/{n}", f"cannot connect to d{n}.test:80: refused") for n in range(7)]
    letters += [(f"http://x.test{ATTACK_PATH}", f"{MARKUP} status 500")]

    async def fill(opened: OpenedCrawl) -> None:
        hosts = [url.split("/", 3) for url, _ in letters]
        await opened.connection.frontier.add(
            [Candidate(f"http://{host}", f"/{path}", None) for _, _, host, path in hosts]
        )
        await bury(opened.connection.frontier, letters)

    in_engine(site, "buried", fill)
    page = open_page("/crawls/buried/dead-letters")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_text("8 URLs of this crawl were given up").wait_for()
    kinds = page.locator("main section h2").all_inner_texts()
    assert kinds == ["cannot connect to …: refused", f"{MARKUP} status 500"]
    assert page.locator("main section").first.locator("li").count() == 5
    attack = page.locator("main section").last
    assert attack.locator("li a").inner_text() == f"http://x.test{ATTACK_PATH}"
    page.get_by_label("Host").fill("http://d3.test")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("button", name="Queue again").click()
    page.get_by_text("1 dead letter queued again. They need a running worker.").wait_for()
    page.get_by_text("No dead letter matches").wait_for()
    assert counts_of(site).dead == 7
    page.goto(f"{site.url}/crawls/buried/dead-letters?reason=connect")
    page.get_by_role("button", name="Queue all of them again").click()
    page.get_by_text("6 dead letters queued again").wait_for()
    counts = counts_of(site)
    assert (counts.dead, counts.queued) == (1, 7)
    page.goto(f"{site.url}/crawls/buried/dead-letters")
    page.get_by_role("button", name="Queue all of them again").click()
    page.get_by_text("No dead letters", exact=True).wait_for()
    assert counts_of(site).queued == 8

    async def bury_again(opened: OpenedCrawl) -> None:
        await bury(opened.connection.frontier, letters)

    in_engine(site, "buried", bury_again)
    page.get_by_text("8 dead letters more since this page was read").wait_for()
    page.get_by_role("link", name="Read it again").click()
    page.get_by_text("8 URLs of this crawl were given up").wait_for()


def counts_of(site: CrawledSite) -> FrontierCounts:
    async def read(opened: OpenedCrawl) -> FrontierCounts:
        return await opened.connection.frontier.counts()

    return in_engine(site, "buried", read)
